/*
 * A tool of tests: the documents of an image as src/image writes them.
 *
 *	oci_write DIRECTORY LAYER...
 *
 * LAYER is a plain tar. DIRECTORY, which is there, becomes an OCI layout
 * without its layers, and has beside it manifest.json and the config of a
 * docker archive.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/sha.h"
#include "image/oci.h"

static int dir_fd;

static void put(const char *path, const void *p, size_t n)
{
	AUTO_CLOSE int fd = openat(
		dir_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0 || write_full(fd, p, n) < 0)
		die("write %s: %s", path, strerror(errno));
}

static void put_blob(struct oci_blob *b, const char *media_type,
		     const struct buf *doc)
{
	char path[OCI_PATH_CAP];

	oci_blob_of(b, media_type, buf_data(doc), buf_len(doc));
	oci_blob_path(path, b->digest);
	put(path, buf_data(doc), buf_len(doc));
}

static void describe(struct oci_layer *l, const char *path)
{
	static char block[64 * 1024];
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint8_t sum[SHA256_LEN];
	struct sha256 s;
	ssize_t n;

	if (fd < 0)
		die("open %s: %s", path, strerror(errno));
	sha256_init(&s);
	while ((n = read(fd, block, sizeof(block))) > 0) {
		sha256_add(&s, block, (size_t)n);
		l->blob.size += (uint64_t)n;
	}
	sha256_end(&s, sum);
	oci_digest_text(l->blob.digest, sum);
	oci_digest_text(l->diff_id, sum);
	snprintf(l->blob.media_type, OCI_MEDIA_CAP, OCI_MEDIA_LAYER);
}

int main(int argc, char **argv)
{
	static struct oci_layer layers[OCI_LAYERS_MAX];
	struct oci_image img = { .created_ms = 1600000000000,
				 .layers = layers };
	struct oci_blob config, manifest;
	struct buf b = { 0 };
	char path[OCI_PATH_CAP];

	log_init("oci_write", LOG_INFO);
	if (argc < 3 || argc > OCI_LAYERS_MAX)
		die("usage: oci_write DIRECTORY LAYER...");
	dir_fd = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0 || mkdirat(dir_fd, "blobs", 0755) < 0 ||
	    mkdirat(dir_fd, "blobs/sha256", 0755) < 0)
		die("%s: %s", argv[1], strerror(errno));
	while (argv[2 + img.n_layers]) {
		describe(&layers[img.n_layers], argv[2 + img.n_layers]);
		img.n_layers++;
	}
	oci_platform_host(&img.platform);
	img.run = json_pack("{s:[s], s:[s], s:s}", "Env", "FROM=here", "Cmd",
			    "/bin/sh", "WorkingDir", "/work");
	oci_config_write(&b, &img);
	put_blob(&config, OCI_MEDIA_CONFIG, &b);
	docker_config_path(path, &config);
	put(path, buf_data(&b), buf_len(&b));
	buf_clear(&b);
	oci_manifest_write(&b, &img, &config);
	put_blob(&manifest, OCI_MEDIA_MANIFEST, &b);
	buf_clear(&b);
	oci_index_write(&b, &manifest, &img.platform, "latest");
	put("index.json", buf_data(&b), buf_len(&b));
	buf_clear(&b);
	docker_manifest_write(&b, &img, &config, "made/here:latest");
	put("manifest.json", buf_data(&b), buf_len(&b));
	put("oci-layout", OCI_LAYOUT_TEXT, strlen(OCI_LAYOUT_TEXT));
	buf_done(&b);
	json_decref((json_t *)img.run);
	return 0;
}
