/* The documents of images: what is read back of what is written, and what is
 * refused. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "check.h"
#include "image/oci.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define DIGEST "sha256:" HEX
#define OTHER "sha256:" HEX2
#define HEX2 "ff23456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct oci_platform amd64 = { "linux", "amd64", "" };
static const struct oci_platform arm64 = { "linux", "arm64", "v8" },
				 plain = { "linux", "arm64", "" };

static void test_digests(void)
{
	char path[OCI_PATH_CAP];
	struct oci_blob b;

	CHECK(oci_digest_valid(DIGEST));
	CHECK(!oci_digest_valid(DIGEST "0"));
	CHECK(!oci_digest_valid("sha256:"));
	CHECK(!oci_digest_valid("sha512:" HEX HEX));
	CHECK(!oci_digest_valid("sha256:../../etc/passwd"));
	CHECK(!oci_digest_valid("sha256:"
				"0123456789ABCDEF0123456789abcdef"
				"0123456789abcdef0123456789abcdef"));
	oci_blob_of(&b, "text", "abc", 3);
	CHECK_STR(b.digest, "sha256:ba7816bf8f01cfea414140de5dae2223"
			    "b00361a396177a9cb410ff61f20015ad");
	CHECK(b.size == 3);
	oci_blob_path(path, DIGEST);
	CHECK_STR(path, "blobs/sha256/" HEX);
}

static void test_platforms(void)
{
	struct oci_platform p;
	struct err e = { 0 };

	CHECK(oci_platform_parse(&p, "linux/arm64/v8", &e) == 0);
	CHECK_STR(p.arch, "arm64");
	CHECK_STR(p.variant, "v8");
	CHECK(oci_platform_parse(&p, "linux/amd64", &e) == 0);
	CHECK_STR(p.variant, "");
	CHECK(oci_platform_parse(&p, "linux", &e) == -EINVAL);
	err_clear(&e);
	CHECK(oci_platform_parse(&p, "linux//v8", &e) == -EINVAL);
	err_clear(&e);
	CHECK(oci_platform_parse(&p, "a/b/c/d", &e) == -EINVAL);
	oci_platform_host(&p);
	CHECK_STR(p.os, "linux");
	CHECK(*p.arch != '\0');
}

#define ENTRY(digest, more) "{\"digest\":\"" digest "\",\"size\":7" more "}"
#define PLATFORM(os, arch) \
	",\"platform\":{\"os\":\"" os "\",\"architecture\":\"" arch "\"}"
#define INDEX(entries) "{\"schemaVersion\":2,\"manifests\":[" entries "]}"

static int pick(const char *doc, const struct oci_platform *want, bool layout,
		struct oci_blob *b)
{
	struct err e = { 0 };

	return layout ? oci_layout_pick(doc, strlen(doc), want, b, &e)
		      : oci_index_pick(doc, strlen(doc), want, b, &e);
}

static void test_index(void)
{
	static const char two[] =
		INDEX(ENTRY(DIGEST, PLATFORM("linux", "arm64")) "," ENTRY(
			OTHER, PLATFORM("linux", "amd64")));
	static const char variants[] =
		INDEX(ENTRY(DIGEST, PLATFORM("linux", "arm64")) "," ENTRY(
			OTHER, PLATFORM("linux", "arm64\",\"variant\":\"v8")));
	static const struct oci_platform v8 = { "linux", "arm64", "v8" };
	static const char same[] =
		INDEX(ENTRY(DIGEST, "") "," ENTRY(OTHER, ""));
	static const char proof[] =
		INDEX(ENTRY(DIGEST, PLATFORM("unknown", "unknown")) "," ENTRY(
			OTHER, PLATFORM("linux", "amd64")));
	struct err e = { 0 };
	struct oci_blob b;

	CHECK(pick(two, &amd64, true, &b) == 0);
	CHECK_STR(b.digest, OTHER);
	CHECK(b.size == 7);
	CHECK(pick(two, &arm64, true, &b) == 0);
	CHECK_STR(b.digest, DIGEST);
	CHECK(pick(variants, &v8, false, &b) == 0);
	CHECK_STR(b.digest, OTHER);
	CHECK(pick(variants, &plain, false, &b) == 0);
	CHECK_STR(b.digest, DIGEST);
	CHECK(pick(same, &amd64, false, &b) == 0);
	CHECK_STR(b.digest, DIGEST);
	CHECK(pick(same, &amd64, true, &b) == -EBADMSG);
	CHECK(pick(proof, &amd64, true, &b) == 0);
	CHECK_STR(b.digest, OTHER);
	CHECK(oci_index_pick(two, sizeof(two) - 1,
			     &(struct oci_platform){ "linux", "s390x", "" }, &b,
			     &e) == -EBADMSG);
	CHECK(strstr(e.msg, "linux/arm64, linux/amd64") != NULL);
	CHECK(pick(INDEX(""), &amd64, true, &b) == -EBADMSG);
	CHECK(pick(INDEX("1,[],null"), &amd64, true, &b) == -EBADMSG);
	CHECK(pick(INDEX("{\"digest\":\"" DIGEST "\",\"size\":-1}"), &amd64,
		   true, &b) == -EBADMSG);
	CHECK(pick(INDEX("{\"digest\":\"md5:1\",\"size\":1}"), &amd64, true,
		   &b) == -EBADMSG);
	CHECK(pick("{\"manifests\":[],\"manifests\":[]}", &amd64, true, &b) ==
	      -EBADMSG);
}

static int kind(const char *doc)
{
	struct err e = { 0 };

	return oci_kind(doc, strlen(doc), &e);
}

static void test_kinds(void)
{
	CHECK(kind(INDEX("")) == OCI_INDEX);
	CHECK(kind("{\"config\":{},\"layers\":[]}") == OCI_MANIFEST);
	CHECK(kind("{\"config\":{},\"layers\":[],\"manifests\":[]}") ==
	      -EBADMSG);
	CHECK(kind("{\"fsLayers\":[]}") == -EBADMSG);
	CHECK(kind("{}") == -EBADMSG);
	CHECK(kind("[]") == -EBADMSG);
	CHECK(kind("") == -EBADMSG);
	CHECK(kind("{\"manifests\":") == -EBADMSG);
}

static void test_manifest(void)
{
	static struct oci_manifest m;
	struct buf b = { 0 };
	struct err e = { 0 };
	int i;

	buf_puts(&b, "{\"config\":" ENTRY(DIGEST, "") ",\"layers\":[");
	for (i = 0; i <= OCI_LAYERS_MAX; i++)
		buf_printf(&b, "%s" ENTRY(DIGEST, ""), i ? "," : "");
	buf_puts(&b, "]}");
	CHECK(oci_manifest_read(buf_data(&b), buf_len(&b), &m, &e) == -E2BIG);
	err_clear(&e);
	buf_clear(&b);
	buf_puts(&b, "{\"config\":{},\"layers\":[" ENTRY(DIGEST, "") "]}");
	CHECK(oci_manifest_read(buf_data(&b), buf_len(&b), &m, &e) == -EBADMSG);
	err_clear(&e);
	buf_clear(&b);
	memset(buf_room(&b, OCI_DOC_MAX + 1), ' ', OCI_DOC_MAX + 1);
	buf_fill(&b, OCI_DOC_MAX + 1);
	CHECK(oci_manifest_read(buf_data(&b), buf_len(&b), &m, &e) == -E2BIG);
	buf_done(&b);
}

static int docker(const char *doc, struct docker_manifest *m)
{
	struct err e = { 0 };

	return docker_manifest_read(doc, strlen(doc), m, &e);
}

static void test_docker(void)
{
	static struct docker_manifest m;

	CHECK(docker("[{\"Config\":\"c.json\",\"Layers\":[\"a/layer.tar\","
		     "\"b.tar\"],\"RepoTags\":null}]",
		     &m) == 0);
	CHECK(m.n_layers == 2);
	CHECK_STR(m.layers[1], "b.tar");
	CHECK_STR(m.config, "c.json");
	CHECK(docker("[]", &m) == -EBADMSG);
	CHECK(docker("{}", &m) == -EBADMSG);
	CHECK(docker("[{},{}]", &m) == -EBADMSG);
	CHECK(docker("[{\"Config\":\"c\",\"Layers\":[\"a\"]},"
		     "{\"Config\":\"d\",\"Layers\":[\"b\"]}]",
		     &m) == -EBADMSG);
	CHECK(docker("[{\"Config\":\"c\",\"Layers\":[]}]", &m) == -EBADMSG);
	CHECK(docker("[{\"Config\":\"c\",\"Layers\":[1]}]", &m) == -EBADMSG);
	CHECK(docker("[{\"Layers\":[\"a\"]}]", &m) == -EBADMSG);
}

static void test_config(void)
{
	static struct oci_config c;
	static const char doc[] =
		"{\"os\":\"linux\",\"architecture\":\"arm64\",\"rootfs\":"
		"{\"diff_ids\":[\"" DIGEST "\"]},\"config\":{"
		"\"Env\":[\"A=b c\",\"\\u00fc=\\n\"],\"Cmd\":null,"
		"\"User\":5,\"WorkingDir\":\"/w\",\"Labels\":{\"a\":\"b\"},"
		"\"ExposedPorts\":{\"80/tcp\":{}},\"Volumes\":{\"/x\":{}}}}";
	static const char bad[] = "{\"rootfs\":{\"diff_ids\":[\"md5:1\"]}}";
	struct buf b = { 0 };
	struct err e = { 0 };
	json_t *run;

	CHECK(oci_config_read(doc, sizeof(doc) - 1, &c, &e) == 0);
	CHECK(c.n_diffs == 1);
	CHECK(!oci_platform_fits(&c.platform, &amd64));
	CHECK(oci_platform_fits(&c.platform, &arm64));
	CHECK(oci_run_write(&b, c.run, &e) == 0);
	CHECK_STR(buf_str(&b), "{\"Env\":[\"A=b c\",\"\\u00FC=\\n\"],"
			       "\"WorkingDir\":\"/w\",\"ExposedPorts\":"
			       "{\"80/tcp\":{}},\"Labels\":{\"a\":\"b\"}}");
	run = oci_run_read(buf_data(&b), buf_len(&b), &e);
	CHECK(run && json_equal(run, c.run));
	json_decref(run);
	oci_config_done(&c);
	CHECK(oci_config_read(bad, sizeof(bad) - 1, &c, &e) == -EBADMSG);
	err_clear(&e);
	CHECK(oci_run_read("{\"Env\":[\"=x\"]}", 14, &e) == NULL);
	err_clear(&e);
	CHECK(oci_run_read("{\"Volumes\":{}}", 14, &e) == NULL);
	err_clear(&e);
	CHECK(oci_run_read("[]", 2, &e) == NULL);
	buf_done(&b);
}

/* Remarks that are too long are left out, an environment is an error. */
static void test_large_config(void)
{
	static const struct {
		const char *before, *after;
		int answer;
	} members[] = {
		{ "\"Labels\":{\"a\":\"", "\"}", 0 },
		{ "\"Env\":[\"A=", "\"]", -E2BIG },
	};
	static char x[OCI_RUN_MAX + 1];
	static struct oci_config c;
	size_t i;

	memset(x, 'x', sizeof(x) - 1);
	for (i = 0; i < 2; i++) {
		struct buf doc = { 0 }, out = { 0 };
		struct err e = { 0 };

		buf_printf(&doc, "{\"config\":{%s%s%s}}", members[i].before, x,
			   members[i].after);
		CHECK(oci_config_read(buf_data(&doc), buf_len(&doc), &c, &e) ==
		      0);
		CHECK(oci_run_write(&out, c.run, &e) == members[i].answer);
		oci_config_done(&c);
		buf_done(&doc);
		buf_done(&out);
	}
}

static void test_written(void)
{
	static struct oci_config c;
	static struct oci_manifest m;
	static struct docker_manifest d;
	json_t *run = json_pack("{s:[s]}", "Env", "PATH=/bin");
	const struct oci_layer layers[] = {
		{ { DIGEST, OCI_MEDIA_LAYER_GZIP, 5 }, OTHER },
		{ { OTHER, OCI_MEDIA_LAYER, 6 }, DIGEST },
	};
	const struct oci_image img = { amd64, 1600000000000, run, layers, 2 };
	struct oci_blob config, manifest, found;
	struct buf b = { 0 };
	struct err e = { 0 };

	oci_config_write(&b, &img);
	oci_blob_of(&config, OCI_MEDIA_CONFIG, buf_data(&b), buf_len(&b));
	CHECK(oci_config_read(buf_data(&b), buf_len(&b), &c, &e) == 0);
	CHECK(c.n_diffs == 2);
	CHECK_STR(c.diffs[0], OTHER);
	CHECK(json_equal(c.run, run));
	CHECK(oci_platform_fits(&c.platform, &amd64));
	buf_clear(&b);

	oci_manifest_write(&b, &img, &config);
	oci_blob_of(&manifest, OCI_MEDIA_MANIFEST, buf_data(&b), buf_len(&b));
	CHECK(kind(buf_str(&b)) == OCI_MANIFEST);
	CHECK(oci_manifest_read(buf_data(&b), buf_len(&b), &m, &e) == 0);
	CHECK_STR(m.config.digest, config.digest);
	CHECK(m.n_layers == 2 && m.layers[1].size == 6);
	CHECK_STR(m.layers[0].media_type, OCI_MEDIA_LAYER_GZIP);
	buf_clear(&b);

	oci_index_write(&b, &manifest, &amd64, "latest");
	CHECK(oci_layout_pick(buf_data(&b), buf_len(&b), &amd64, &found, &e) ==
	      0);
	CHECK_STR(found.digest, manifest.digest);
	CHECK(found.size == manifest.size);
	buf_clear(&b);

	docker_manifest_write(&b, &img, &config, "a:b");
	CHECK(docker_manifest_read(buf_data(&b), buf_len(&b), &d, &e) == 0);
	CHECK_STR(d.layers[0], HEX ".tar");
	buf_done(&b);
	oci_config_done(&c);
	json_decref(run);
}

int main(void)
{
	test_digests();
	test_platforms();
	test_index();
	test_kinds();
	test_manifest();
	test_docker();
	test_config();
	test_large_config();
	test_written();
	return CHECK_DONE();
}
