/* Bodies of forms: whole, in single bytes, and broken ones. */
#include "api/e2b/multipart.h"

#include <errno.h>
#include <string.h>

#include "check.h"

#define TYPE "multipart/form-data; boundary=X"

static struct err why;

/* What comes out of it, as text: "[name|filename]content" per part. */
static const char *read_all(const char *type, const char *body, size_t n,
			    size_t step)
{
	static struct buf out;
	struct multipart m = { 0 };
	size_t at = 0;
	int r = 0;

	buf_clear(&out);
	err_clear(&why);
	if (multipart_init(&m, type, &why) < 0)
		return "no boundary";
	while (r >= 0 && r != MULTIPART_END) {
		r = multipart_next(&m, &why);
		if (r == MULTIPART_MORE) {
			size_t k = n - at < step ? n - at : step;

			if (k == 0)
				break;
			multipart_feed(&m, body + at, k);
			at += k;
		} else if (r == MULTIPART_PART) {
			buf_printf(&out, "[%s|%s]", buf_str(&m.name),
				   m.has_filename ? buf_str(&m.filename) : "-");
		} else if (r == MULTIPART_DATA) {
			/* Half of it first: the rest comes again. */
			size_t k = (m.n + 1) / 2;

			buf_add(&out, m.data, k);
			multipart_eat(&m, k);
		} else if (r == MULTIPART_PART_END) {
			buf_puts(&out, ";");
		}
	}
	buf_puts(&out, r < 0 ? "bad" : r == MULTIPART_END ? "end" : "cut");
	multipart_done(&m);
	return buf_str(&out);
}

static bool reads(const char *body, const char *want)
{
	size_t n = strlen(body), step;

	for (step = 1; step <= n + 1; step += step < 9 ? 1 : 7)
		if (strcmp(read_all(TYPE, body, n, step), want) != 0) {
			printf("# step %zu: %s (%s)\n", step,
			       read_all(TYPE, body, n, step), why.msg);
			return false;
		}
	return true;
}

#define FILE_HEAD(name)                                                   \
	"Content-Disposition: form-data; name=\"file\"; filename=\"" name \
	"\"\r\nContent-Type: application/octet-stream\r\n\r\n"

static void test_good(void)
{
	CHECK(reads("--X\r\n" FILE_HEAD("a/b.txt") "hello\r\n--X--\r\n",
		    "[file|a/b.txt]hello;end"));
	CHECK(reads("--X\r\n" FILE_HEAD("") "\r\n--X--", "[file|];end"));
	CHECK(reads("--X\r\n" FILE_HEAD("1") "one\r\n--X\r\n" FILE_HEAD(
			    "2") "two\r\n--X--\r\nepilogue",
		    "[file|1]one;[file|2]two;end"));
	CHECK(reads("--X\r\ncontent-disposition:form-data;name=a\r\n\r\n"
		    "v\r\n--X--",
		    "[a|-]v;end"));
	/* Almost boundaries are content. */
	CHECK(reads("--X\r\n" FILE_HEAD("x") "\r\n--\r\n-X\r\n\r\n--X--",
		    "[file|x]\r\n--\r\n-X\r\n;end"));
	CHECK(reads("--X--", "end"));
}

static void test_names(void)
{
	CHECK(reads("--X\r\n" FILE_HEAD("a\\\"b\\\\c\\d") "\r\n--X--",
		    "[file|a\"b\\c\\d];end"));
	CHECK(reads("--X\r\n" FILE_HEAD("a%22b%0d%0A%41") "\r\n--X--",
		    "[file|a\"b\r\n%41];end"));
	CHECK(reads("--X\r\n" FILE_HEAD("\xc3\xa4;x=1") "\r\n--X--",
		    "[file|\xc3\xa4;x=1];end"));
}

static void test_bad(void)
{
	CHECK(reads("junk--X\r\n", "bad"));
	CHECK(reads("--Y\r\n" FILE_HEAD("x"), "bad"));
	CHECK(reads("--XY\r\n" FILE_HEAD("x"), "bad"));
	CHECK(reads("--X\r\n\r\ncontent\r\n--X--", "bad"));
	CHECK(reads("--X\r\nContent-Type: x\r\n\r\n", "bad"));
	CHECK(reads("--X\r\nno colon\r\n\r\n", "bad"));
	CHECK(reads("--X\r\nContent-Disposition: form-data\r\n\r\n", "bad"));
	CHECK(reads("--X\r\nContent-Disposition: form-data; name=\"a\r\n\r\n",
		    "bad"));
	CHECK(reads("--X\r\nContent-Disposition: form-data; name=a; name=b"
		    "\r\n\r\n",
		    "bad"));
	CHECK(reads(
		"--X\r\nContent-Transfer-Encoding: base64\r\n" FILE_HEAD("x"),
		"bad"));
	CHECK(reads("--X\r\nA: \x01\r\n" FILE_HEAD("x"), "bad"));
	CHECK(reads("--X\r\n" FILE_HEAD("x") "content", "[file|x]concut"));
	CHECK(reads("", "cut"));
}

static void test_types(void)
{
	static const char body[] = "--a b\r\n" FILE_HEAD("x") "\r\n--a b--";
	char type[256];

	CHECK_STR(read_all("Multipart/Form-Data; charset=x; boundary=\"a b\"",
			   body, strlen(body), 7),
		  "[file|x];end");
	CHECK_STR(read_all("multipart/form-data", "", 0, 1), "no boundary");
	CHECK_STR(read_all("multipart/mixed; boundary=X", "", 0, 1),
		  "no boundary");
	CHECK_STR(read_all("multipart/form-data; boundary=", "", 0, 1),
		  "no boundary");
	memset(type, 'x', sizeof(type));
	memcpy(type, "multipart/form-data; boundary=", 30);
	type[101] = '\0';
	CHECK_STR(read_all(type, "", 0, 1), "no boundary");
}

static void test_long_head(void)
{
	struct multipart m = { 0 };
	char x[1000];
	int i, r = 0;

	memset(x, 'x', sizeof(x));
	err_clear(&why);
	CHECK(multipart_init(&m, TYPE, &why) == 0);
	multipart_feed(&m, "--X\r\nA: ", 8);
	for (i = 0; i < 100 && r >= 0; i++) {
		r = multipart_next(&m, &why);
		multipart_feed(&m, x, sizeof(x));
	}
	CHECK(r == -EBADMSG && i < 20);
	multipart_done(&m);
}

int main(void)
{
	test_good();
	test_names();
	test_bad();
	test_types();
	test_long_head();
	return CHECK_DONE();
}
