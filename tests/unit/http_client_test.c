/* The client against the real server, and against servers that misbehave. */
#include "http/client.h"

#include <signal.h>

#include "check.h"
#include "http_rig.h"

enum { BODY_MAX = 1 << 20 };

static void test_calls(void)
{
	AUTO(buf_done) struct buf out = { 0 };
	AUTO(http_client_done) struct http_client c = { .fd = -1 };
	struct http_call call = { .method = "GET", .target = "/hello" };
	struct err e = { 0 };
	int fd = -1;

	CHECK(http_client_open(&c, "/nonexistent/sock", &e) == -ENOENT);
	CHECK(strstr(e.msg, "/nonexistent/sock") != NULL);
	err_clear(&e);
	CHECK(http_client_open(&c, rig.sock[0], &e) == 0);
	CHECK(http_do(&c, &call, BODY_MAX, &out, &e) == 200);
	CHECK_STR(buf_str(&out), "hi");
	buf_clear(&out);
	call = (struct http_call){
		.method = "POST", .target = "/echo", .body = "text", .body_n = 4
	};
	CHECK(http_do(&c, &call, BODY_MAX, &out, &e) == 200);
	CHECK_STR(buf_str(&out), "text");
	buf_clear(&out);
	call = (struct http_call){ .method = "GET", .target = "/none%20such" };
	CHECK(http_do(&c, &call, BODY_MAX, &out, &e) == 404);
	CHECK(strstr(buf_str(&out), "no /none such here") != NULL);
	CHECK(http_header(&c.head, "request-id") != NULL);
	buf_clear(&out);
	call.target = "/empty";
	CHECK(http_do(&c, &call, BODY_MAX, &out, &e) == 204);
	call = (struct http_call){ .method = "HEAD", .target = "/hello" };
	CHECK(http_do(&c, &call, BODY_MAX, &out, &e) == 200);
	CHECK(buf_len(&out) == 0);
	call = (struct http_call){ .method = "GET",
				   .target = "/stream?n=1000000" };
	CHECK(http_do(&c, &call, BODY_MAX, &out, &e) == 200);
	CHECK(buf_len(&out) == 1000000);
	buf_clear(&out);
	call = (struct http_call){ .method = "POST", .target = "/up" };
	call.upgrade = "test/2";
	CHECK(http_client_upgrade(&c, &call, &fd, &out, &e) == 426);
	CHECK(http_recv_body(&c, BODY_MAX, &out, &e) == 0);
	buf_clear(&out);
	call = (struct http_call){ .method = "GET", .target = "/stream?n=9" };
	CHECK(http_do(&c, &call, 8, &out, &e) == -EMSGSIZE);
	err_clear(&e);
}

static void test_bad_calls(void)
{
	static const struct http_field inject[] = { { "X", "a\r\nY: b" },
						    { NULL, NULL } };
	AUTO(http_client_done) struct http_client c = { .fd = -1 };
	struct http_call call = { .method = "GET", .target = "/a b" };
	struct err e = { 0 };

	CHECK(http_client_open(&c, rig.sock[0], &e) == 0);
	CHECK(http_send(&c, &call, &e) == -EINVAL);
	err_clear(&e);
	call = (struct http_call){ .method = "G T", .target = "/" };
	CHECK(http_send(&c, &call, &e) == -EINVAL);
	err_clear(&e);
	call = (struct http_call){ .method = "GET", .target = "/" };
	call.fields = inject;
	CHECK(http_send(&c, &call, &e) == -EINVAL);
	err_clear(&e);
	call.fields = NULL;
	CHECK(http_send(&c, &call, &e) == 0);
	CHECK(http_send(&c, &call, &e) == -EBUSY);
	err_clear(&e);
}

static uint64_t reported;

static void on_progress(uint64_t bytes, void *ctx)
{
	if (ctx == &reported && bytes >= reported)
		reported = bytes;
}

static int send_file(const char *target, size_t size, struct buf *out)
{
	AUTO(http_client_done) struct http_client c = { .fd = -1 };
	AUTO_CLOSE int file_fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);
	struct http_call call = { .method = "PUT",
				  .target = target,
				  .progress = on_progress,
				  .ctx = &reported };
	struct err e = { 0 };
	int r;

	if (file_fd < 0 || ftruncate(file_fd, (off_t)size) < 0)
		abort();
	reported = 0;
	r = http_client_open(&c, rig.sock[0], &e);
	if (r == 0)
		r = http_send_fd(&c, &call, file_fd, &e);
	if (r >= 0)
		r = http_recv_head(&c, &e);
	if (r < 0 || http_recv_body(&c, BODY_MAX, out, &e) < 0)
		printf("# %s\n", e.msg);
	return r;
}

static void test_send_fd(void)
{
	AUTO(buf_done) struct buf out = { 0 };

	CHECK(send_file("/sum", 20000000, &out) == 200);
	CHECK_STR(buf_str(&out), "20000000 0");
	CHECK(reported == 20000000);
	buf_clear(&out);
	CHECK(send_file("/sum", 0, &out) == 200);
	CHECK_STR(buf_str(&out), "0 0");
	buf_clear(&out);
	/* Refused while sending: the answer is seen, not a broken pipe. */
	CHECK(send_file("/early", 1 << 30, &out) == 409);
	CHECK(strstr(buf_str(&out), "no more, thanks") != NULL);
	CHECK(reported < 1 << 24);
	buf_clear(&out);
	CHECK(send_file("/echo", 1 << 30, &out) == 413);
}

/* The source is a pipe in which nothing comes: the answer still does. */
static void test_silent_source(void)
{
	AUTO(http_client_done) struct http_client c = { .fd = -1 };
	struct http_call call = { .method = "PUT", .target = "/early" };
	struct err e = { 0 };
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0 || write(p[1], "abc", 3) != 3)
		abort();
	CHECK(http_client_open(&c, rig.sock[0], &e) == 0);
	CHECK(http_send_fd(&c, &call, p[0], &e) == 1);
	CHECK(http_recv_head(&c, &e) == 409);
	close(p[0]);
	close(p[1]);
}

/* A large body from memory that is refused. */
static void test_refused_body(void)
{
	AUTO(buf_done) struct buf out = { 0 };
	AUTO(http_client_done) struct http_client c = { .fd = -1 };
	AUTO_FREE char *body = xcalloc(1, 64 << 20);
	struct http_call call = { .method = "POST",
				  .target = "/echo",
				  .body = body,
				  .body_n = 64 << 20 };
	struct err e = { 0 };

	CHECK(http_client_open(&c, rig.sock[0], &e) == 0);
	CHECK(http_do(&c, &call, BODY_MAX, &out, &e) == 413);
	CHECK(http_send(&c, &call, &e) == -ENOTCONN);
	err_clear(&e);
}

static void test_upgrade(void)
{
	AUTO(buf_done) struct buf left = { 0 };
	AUTO(http_client_done) struct http_client c = { .fd = -1 };
	struct http_call call = { .method = "POST",
				  .target = "/up-body",
				  .body = "spec",
				  .body_n = 4,
				  .upgrade = "test/1",
				  .first = "frames",
				  .first_n = 6 };
	AUTO_CLOSE int fd = -1;
	struct err e = { 0 };

	CHECK(http_client_open(&c, rig.sock[0], &e) == 0);
	CHECK(http_client_upgrade(&c, &call, &fd, &left, &e) == 101);
	CHECK(fd >= 0 && c.fd == -1);
	while (buf_read(&left, fd, 100) > 0)
		;
	CHECK_STR(buf_str(&left), "[frames]");
	CHECK_STR(http_header(&c.head, "sandbox-id"), "i??x");
}

/* A refused upgrade, with the bytes of its protocol already sent. */
static void test_refused_upgrade(void)
{
	AUTO(buf_done) struct buf out = { 0 };
	AUTO(http_client_done) struct http_client c = { .fd = -1 };
	struct http_call call = { .method = "POST",
				  .target = "/fail",
				  .upgrade = "test/1",
				  .first = "\001\002\003\004",
				  .first_n = 4 };
	struct err e = { 0 };
	int fd = -1;

	CHECK(http_client_open(&c, rig.sock[0], &e) == 0);
	CHECK(http_client_upgrade(&c, &call, &fd, &out, &e) == 404);
	CHECK(http_recv_body(&c, BODY_MAX, &out, &e) == 0);
	CHECK(strstr(buf_str(&out), "not_found") && fd == -1);
	CHECK(http_send(&c, &call, &e) == -ENOTCONN);
	err_clear(&e);
}

/* A server that says `answer` to whatever comes. */
static int against(const char *answer, const char *upgrade, struct buf *out)
{
	AUTO(http_client_done) struct http_client c = { .fd = -1 };
	AUTO(buf_done) struct buf left = { 0 };
	AUTO_CLOSE int fd = -1;
	struct http_call call = { .method = "GET",
				  .target = "/",
				  .upgrade = upgrade };
	struct err e = { 0 };
	int pair[2];
	int r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	http_client_attach(&c, pair[0]);
	if (write_full(pair[1], answer, strlen(answer)) < 0)
		abort();
	shutdown(pair[1], SHUT_WR);
	buf_clear(out);
	if (upgrade)
		r = http_client_upgrade(&c, &call, &fd, &left, &e);
	else
		r = http_do(&c, &call, BODY_MAX, out, &e);
	close(pair[1]);
	return r;
}

static void test_bad_servers(void)
{
	AUTO(buf_done) struct buf out = { 0 };

	CHECK(against("", NULL, &out) == -ECONNRESET);
	CHECK(against("HTTP/1.1 200 OK\r\n", NULL, &out) == -ECONNRESET);
	CHECK(against("SSH-2.0-x\r\n\r\n", NULL, &out) == -EBADMSG);
	CHECK(against("HTTP/1.1 200 OK\nX: y\n\n", NULL, &out) == -EBADMSG);
	CHECK(against("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", NULL,
		      &out) == -ECONNRESET);
	CHECK(against("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
		      "3\r\nabc\r\n",
		      NULL, &out) == -ECONNRESET);
	CHECK(against("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
		      "3\r\nabcd\r\n",
		      NULL, &out) == -EBADMSG);
	CHECK(against("HTTP/1.1 200 OK\r\n\r\nuntil the end", NULL, &out) ==
	      200);
	CHECK_STR(buf_str(&out), "until the end");
	CHECK(against("HTTP/1.1 100 Continue\r\n\r\n"
		      "HTTP/1.1 201 Made\r\nContent-Length: 2\r\n\r\nok",
		      NULL, &out) == 201);
	CHECK_STR(buf_str(&out), "ok");
	CHECK(against("HTTP/1.1 101 X\r\nConnection: upgrade\r\n"
		      "Upgrade: other/1\r\n\r\n",
		      "test/1", &out) == -EBADMSG);
}

static void test_timeout(void)
{
	AUTO(http_client_done) struct http_client c = { .fd = -1 };
	AUTO(buf_done) struct buf out = { 0 };
	struct http_call call = { .method = "GET", .target = "/never" };
	struct err e = { 0 };

	CHECK(http_client_open(&c, rig.sock[0], &e) == 0);
	CHECK(http_client_timeout(&c, 100, &e) == 0);
	CHECK(http_do(&c, &call, BODY_MAX, &out, &e) == -ETIMEDOUT);
	err_clear(&e);
}

int main(void)
{
	alarm(120);
	rig_start();
	test_calls();
	test_bad_calls();
	test_send_fd();
	test_silent_source();
	test_refused_body();
	test_upgrade();
	test_refused_upgrade();
	test_bad_servers();
	test_timeout();
	CHECK(rig_stop() == 0);
	return CHECK_DONE();
}
