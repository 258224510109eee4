/* host.door, and Java's store (jks.h): what is trusted afterwards. */
#include "agent/file/jks.h"
#include "base/sha1.h"
#include "check.h"
#include "file_run.h"

#define CERT_A                          \
	"-----BEGIN CERTIFICATE-----\n" \
	"QUFB\nQUFB\n"                  \
	"-----END CERTIFICATE-----\n"
#define CERT_B                          \
	"-----BEGIN CERTIFICATE-----\n" \
	"QkJCQg==\n"                    \
	"-----END CERTIFICATE-----\n"
#define ANCHOR "root/usr/local/share/ca-certificates/carrel.crt"
#define BUNDLE "root/etc/ssl/certs/ca-certificates.crt"
#define JAVA "root/etc/ssl/certs/java/cacerts"

static int door(const char *cert)
{
	buf_puts(&run_in, cert);
	return RUN("host.door", "root");
}

static bool has(const char *path, const char *text)
{
	char got[4096];
	ssize_t n = read_file_at(AT_FDCWD, path, got, sizeof(got));

	return n == (ssize_t)strlen(text) && strcmp(got, text) == 0;
}

static ino_t number(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? st.st_ino : 0;
}

static void test_bare(void)
{
	mkdir("root", 0755);
	CHECK(door(CERT_A) == 0);
	CHECK(has(ANCHOR, CERT_A) && has(BUNDLE, CERT_A));
	CHECK(has("root/etc/resolv.conf", "nameserver 127.0.0.1\n"));
	CHECK(access(JAVA, F_OK) < 0);
}

/* Twice is once; another one takes the place of the first. */
static void test_again(void)
{
	ino_t was;

	put_file(BUNDLE, "others\n" CERT_A "more");
	was = number(BUNDLE);
	CHECK(door(CERT_A) == 0 && number(BUNDLE) == was);
	CHECK(door(CERT_B) == 0);
	CHECK(has(BUNDLE, "others\nmore\n" CERT_B) && has(ANCHOR, CERT_B));
	was = number(BUNDLE);
	CHECK(door(CERT_B) == 0 && number(BUNDLE) == was);
}

/* Links stay inside; those that are files' names give way. */
static void test_links(void)
{
	put_file("outside", "secret");
	unlink("root/etc/resolv.conf");
	CHECK(symlink("../../outside", "root/etc/resolv.conf") == 0);
	unlink(BUNDLE);
	mkdir("root/pki", 0755);
	put_file("root/pki/all.pem", "others\n");
	CHECK(symlink("/pki/all.pem", BUNDLE) == 0);
	CHECK(door(CERT_A) == 0);
	CHECK(has("outside", "secret") && has("root/pki/all.pem", "others\n"));
	CHECK(has("root/etc/resolv.conf", "nameserver 127.0.0.1\n"));
	CHECK(has(BUNDLE, "others\n" CERT_A));
}

/* What another system has is what ours starts as. */
static void test_other_bundle(void)
{
	unlink(BUNDLE);
	put_file("root/etc/ssl/cert.pem", "alpine\n");
	CHECK(door(CERT_A) == 0);
	CHECK(has(BUNDLE, "alpine\n" CERT_A));
	CHECK(has("root/etc/ssl/cert.pem", "alpine\n"));
}

static void test_refused(void)
{
	CHECK(FAILS(EINVAL, "not a certificate", "host.door", "root"));
	buf_puts(&run_in, CERT_A CERT_B);
	CHECK(FAILS(EINVAL, "not a certificate", "host.door", "root"));
	buf_puts(&run_in, "x" CERT_A);
	CHECK(FAILS(EINVAL, "not a certificate", "host.door", "root"));
	buf_room(&run_in, 40000);
	memset(buf_data(&run_in), 'A', 40000);
	buf_fill(&run_in, 40000);
	CHECK(FAILS(EINVAL, "not a certificate", "host.door", "root"));
	unlink("root/etc/resolv.conf");
	CHECK(mkfifo("root/etc/resolv.conf", 0600) == 0);
	buf_puts(&run_in, CERT_A);
	CHECK(FAILS(EINVAL, "resolv.conf", "host.door", "root"));
	unlink("root/etc/resolv.conf");
	CHECK(truncate(BUNDLE, 3 << 20) == 0);
	buf_puts(&run_in, CERT_A);
	CHECK(FAILS(EINVAL, "ca-certificates.crt", "host.door", "root"));
	unlink(BUNDLE);
}

static void test_sha1(void)
{
	static const struct {
		const char *text, *sum;
	} rows[] = {
		{ "", "da39a3ee5e6b4b0d3255bfef95601890afd80709" },
		{ "abc", "a9993e364706816aba3e25717850c26c9cd0d89d" },
		{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		  "84983e441c3bd26ebaae4aa1f95129e5e54670f1" },
	};
	uint8_t sum[SHA1_LEN];
	char hex[2 * SHA1_LEN + 1];
	struct sha1 s;
	size_t i, k;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		sha1_init(&s);
		sha1_add(&s, rows[i].text, strlen(rows[i].text));
		sha1_end(&s, sum);
		for (k = 0; k < SHA1_LEN; k++)
			snprintf(hex + 2 * k, 3, "%02x", sum[k]);
		CHECK_STR(hex, rows[i].sum);
	}
}

/* A store that keytool made, with one certificate. */
static unsigned char store[4096];
static size_t store_n;

static void load_store(void)
{
	int fd = open("tests/unit/data/cacerts.jks", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read_full(fd, store, sizeof(store));

	if (n < 0)
		abort();
	store_n = (size_t)n;
	close(fd);
}

static void test_jks(void)
{
	const size_t n = store_n;
	struct buf one = { 0 }, two = { 0 };

	CHECK(jks_put(store, n, "carrel", "der", 3, &one) == 1);
	CHECK(buf_len(&one) == n + 4 + 2 + 6 + 8 + 2 + 5 + 4 + 3);
	CHECK(buf_data(&one)[11] == 2);
	/* The same again; another one in its place. */
	CHECK(jks_put(buf_data(&one), buf_len(&one), "carrel", "der", 3,
		      &two) == 0 &&
	      buf_len(&two) == 0);
	CHECK(jks_put(buf_data(&one), buf_len(&one), "carrel", "other", 5,
		      &two) == 1);
	CHECK(buf_len(&two) == buf_len(&one) + 2 && buf_data(&two)[11] == 2);
	/* A changed byte, a cut, something else. */
	buf_clear(&one);
	store[40] ^= 1;
	CHECK(jks_put(store, n, "carrel", "der", 3, &one) == -EBADMSG);
	store[40] ^= 1;
	CHECK(jks_put(store, n - 1, "carrel", "der", 3, &one) == -EBADMSG);
	CHECK(jks_put("", 0, "carrel", "der", 3, &one) == -EBADMSG);
	store[0] ^= 1;
	CHECK(jks_put(store, n, "carrel", "der", 3, &one) == -EBADMSG);
	store[0] ^= 1;
	buf_done(&one);
	buf_done(&two);
}

static void test_java(void)
{
	int fd;
	ino_t was;

	mkdir("root/etc/ssl/certs/java", 0755);
	fd = open(JAVA, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	CHECK(fd >= 0 && write_full(fd, store, store_n) == 0);
	close(fd);
	was = number(JAVA);
	CHECK(door(CERT_A) == 0 && number(JAVA) != was);
	was = number(JAVA);
	CHECK(door(CERT_A) == 0 && number(JAVA) == was);
	/* Of another kind: not touched. */
	put_file(JAVA, "something else");
	CHECK(door(CERT_A) == 0 && has(JAVA, "something else"));
}

int main(void)
{
	load_store();
	test_sha1();
	test_jks();
	top_make();
	test_bare();
	test_again();
	test_links();
	test_other_bundle();
	test_java();
	test_refused();
	if (chdir("/") < 0)
		abort();
	top_remove();
	return CHECK_DONE();
}
