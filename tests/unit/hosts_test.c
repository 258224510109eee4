/* Names that a client may call us by, and those of previews. */
#include "api/hosts.h"

#include "base/auto.h"
#include "check.h"

#define ID "iabcdefghijklmnopqrstuvwxyz"

static const struct conf conf = { .listen = "192.0.2.7:7070",
				  .domain = "box.example",
				  .allowed_hosts = "one.example, Two" };

static void test_ours(void)
{
	static const char *const yes[] = {
		"localhost",
		"LocalHost:80",
		"127.0.0.1:7070",
		"[::1]",
		"[::1]:7070",
		"192.0.2.7",
		"192.0.2.7:7070",
		"localhost.",
		"one.example",
		"ONE.example:443",
		"two",
		"box.example",
		"a.box.example:80",
		"a.b.Box.Example",
		"box.example.",
	};
	static const char *const no[] = {
		"",
		"evil.example",
		"localhost.evil.example",
		"127.0.0.1.evil.example",
		"192.0.2.8",
		"xbox.example",
		"one.example.evil",
		"one",
		"example",
		"[::1",
		"[::1]x",
		"[::2]",
		"localhost:80x",
		"localhost:80:80",
		"local host",
		"::1",
		".",
	};
	struct conf any = { .listen = "0.0.0.0:80" }, none = { 0 };
	size_t i;

	for (i = 0; i < ARRAY_LEN(yes); i++) {
		printf("# %s\n", yes[i]);
		CHECK(host_is_ours(&conf, yes[i]));
	}
	for (i = 0; i < ARRAY_LEN(no); i++) {
		printf("# %s\n", no[i]);
		CHECK(!host_is_ours(&conf, no[i]));
		CHECK(!host_is_ours(&none, no[i]));
	}
	CHECK(host_is_ours(&any, "192.0.2.8:80"));
	CHECK(host_is_ours(&any, "[2001:db8::1]:80"));
	CHECK(!host_is_ours(&any, "evil.example"));
}

static void test_origins(void)
{
	CHECK(origin_is_same("http://localhost:7070", "localhost:7070"));
	CHECK(origin_is_same("https://A.example", "a.EXAMPLE"));
	CHECK(!origin_is_same("http://localhost", "localhost:7070"));
	CHECK(!origin_is_same("http://localhost:7071", "localhost:7070"));
	CHECK(!origin_is_same("null", "localhost"));
	CHECK(!origin_is_same("", ""));
	CHECK(!origin_is_same("localhost", "localhost"));
	CHECK(!origin_is_same("ftp://localhost", "localhost"));
	CHECK(!origin_is_same("http://localhost/", "localhost"));
}

static void test_previews(void)
{
	static const char *const no[] = {
		"8080-" ID,
		"8080-" ID ".example",
		"0-" ID ".box.example",
		"08-" ID ".box.example",
		"65536-" ID ".box.example",
		"-" ID ".box.example",
		"8080" ID ".box.example",
		"8080-" ID "x.box.example",
		"8080-i.box.example",
		"x.8080-" ID ".box.example",
		"box.example",
		"8080-x.box.example",
		"+1-" ID ".box.example",
	};
	struct conf none = { 0 };
	char id[ID_CAP] = "";
	uint16_t port = 0;
	size_t i;

	CHECK(host_is_preview(&conf, "8080-" ID ".box.example", &port, id));
	CHECK(port == 8080);
	CHECK_STR(id, ID);
	CHECK(host_is_preview(&conf, "1-" ID ".BOX.example:9", &port, id));
	CHECK(port == 1);
	for (i = 0; i < ARRAY_LEN(no); i++) {
		printf("# %s\n", no[i]);
		CHECK(!host_is_preview(&conf, no[i], &port, id));
		CHECK(!host_is_preview(&none, no[i], &port, id));
	}
}

int main(void)
{
	test_ours();
	test_origins();
	test_previews();
	return CHECK_DONE();
}
