#include "base/conf.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/guards.h"
#include "base/product.h"
#include "base/str.h"

enum kind { TEXT, NUMBER, SIZE, DURATION, MILLI, YES_NO };

/*
 * The ranges of ids start above systemd's container range (which ends at
 * 0x6fffffff) and useradd's subordinate ids, and end below 2^31.
 */
static const struct key {
	const char *name;
	enum kind kind;
	size_t at, cap;
	const char *value; /* default */
} keys[] = {
#define TEXT_KEY(f, v) \
	{ #f, TEXT, offsetof(struct conf, f), sizeof(((struct conf *)0)->f), v }
#define NUM_KEY(n, k, f, v) { n, k, offsetof(struct conf, f), 0, v }
	TEXT_KEY(state_dir, "/var/lib/" PRODUCT),
	TEXT_KEY(run_dir, "/run/" PRODUCT),
	TEXT_KEY(libexec_dir, "/usr/local/libexec/" PRODUCT),
	TEXT_KEY(user, PRODUCT),
	TEXT_KEY(group, PRODUCT),
	TEXT_KEY(log_user, PRODUCT "-log"),
	NUM_KEY("audit_segment_size", SIZE, audit_segment_bytes, "16M"),
	NUM_KEY("audit_spool_size", SIZE, audit_spool_bytes, "64M"),
	TEXT_KEY(audit_keep, "0"),
	TEXT_KEY(audit_reads, "no"),
	TEXT_KEY(pool, "auto"),
	TEXT_KEY(pool_driver, "auto"),
	NUM_KEY("pool_size", SIZE, pool_bytes, "0"),
	TEXT_KEY(cgroup, "auto"),
	NUM_KEY("uid_base", NUMBER, uid_base, "1879048192"),
	NUM_KEY("uid_count", NUMBER, uid_count, "268435456"),
	NUM_KEY("max_sandboxes", NUMBER, max_sandboxes, "2000"),
	NUM_KEY("project_sandboxes", NUMBER, project_sandboxes, "0"),
	NUM_KEY("keep_apart", YES_NO, keep_apart, "yes"),
	NUM_KEY("memory_reserve", SIZE, memory_reserve, "128M"),
	NUM_KEY("spares", NUMBER, spares, "2"),
	NUM_KEY("microvm_spares", NUMBER, microvm_spares, "0"),
	NUM_KEY("microvm_silence", DURATION, microvm_silence_ms, "2m"),
	TEXT_KEY(image, "debian"),
	NUM_KEY("cpus", MILLI, cpus_milli, "2"),
	NUM_KEY("memory", SIZE, mem_bytes, "2G"),
	NUM_KEY("disk", SIZE, disk_bytes, "16G"),
	NUM_KEY("pids", NUMBER, pids, "1024"),
	NUM_KEY("project_disk", SIZE, project_disk, "0"),
	NUM_KEY("timeout", DURATION, timeout_ms, "0"),
	TEXT_KEY(allow_missing, ""),
	TEXT_KEY(listen, ""),
	NUM_KEY("listen_insecure", YES_NO, listen_insecure, "no"),
	TEXT_KEY(tls_cert, ""),
	TEXT_KEY(tls_key, ""),
	TEXT_KEY(domain, "localhost"),
	TEXT_KEY(allowed_hosts, ""),
	NUM_KEY("client_timeout", DURATION, client_timeout_ms, "30s"),
	NUM_KEY("max_peer_connections", NUMBER, max_peer_connections, "512"),
	NUM_KEY("port_timeout", DURATION, port_timeout_ms, "5m"),
	NUM_KEY("stray_days", NUMBER, stray_days, "30"),
	NUM_KEY("drive_size", SIZE, drive_bytes, "10G"),
	NUM_KEY("drive_versions", NUMBER, drive_versions, "20"),
	TEXT_KEY(registries, ""),
	TEXT_KEY(registries_insecure, ""),
	TEXT_KEY(registries_ca, "/etc/ssl/certs/ca-certificates.crt"),
	NUM_KEY("blobs_size", SIZE, blobs_bytes, "4G"),
	TEXT_KEY(gate_user, PRODUCT "-gate"),
	TEXT_KEY(resolver, ""),
	TEXT_KEY(gate_ca, "/etc/ssl/certs/ca-certificates.crt"),
	TEXT_KEY(upstream_proxy, ""),
	NUM_KEY("ask_timeout", DURATION, ask_timeout_ms, "5m"),
	TEXT_KEY(ask_webhook, ""),
	TEXT_KEY(vault_key_command, ""),
	NUM_KEY("e2b_internet", YES_NO, e2b_internet, "yes"),
	TEXT_KEY(presets_dir, "/usr/local/share/" PRODUCT "/presets"),
	TEXT_KEY(vm_dir, "/usr/local/share/" PRODUCT "/vm"),
	TEXT_KEY(require_microvm, ""),
	TEXT_KEY(microvm, "auto"),
	NUM_KEY("microvm_patience", NUMBER, microvm_patience, "1"),
	TEXT_KEY(tier, "container"),
	TEXT_KEY(models, "/etc/" PRODUCT "/models.conf"),
	NUM_KEY("mcp_idle", DURATION, mcp_idle_ms, "1h"),
	NUM_KEY("mcp_pause", DURATION, mcp_pause_ms, "10m"),
	NUM_KEY("mcp_fixture", YES_NO, mcp_fixture, "no"),
	TEXT_KEY(log_level, "info"),
#ifdef WALLS_TEST
	TEXT_KEY(wall_off, ""),
	TEXT_KEY(guard_off, ""),
#endif
};

/* Keys of earlier versions: a file that has them is still valid. */
static const char *const retired[] = { "overcommit_memory", "overcommit_cpus" };

static int set_value(struct conf *c, const struct key *k, const char *v)
{
	void *at = (char *)c + k->at;
	uint64_t n = 0;
	int r = -EINVAL;

	switch (k->kind) {
	case TEXT:
		return str_copy(at, k->cap, v);
	case NUMBER:
		r = parse_u64(v, UINT64_MAX, &n);
		break;
	case SIZE:
		r = parse_size(v, &n);
		break;
	case DURATION:
		r = parse_duration(v, &n);
		break;
	case MILLI:
		r = parse_milli(v, &n);
		break;
	case YES_NO:
		n = strcmp(v, "yes") == 0;
		r = n || strcmp(v, "no") == 0 ? 0 : -EINVAL;
		break;
	}
	if (r == 0)
		memcpy(at, &n, sizeof(n));
	return r;
}

static char *trim(char *s)
{
	char *end;

	s += strspn(s, " \t");
	end = s + strlen(s);
	while (end > s && strchr(" \t\r\n", end[-1]))
		*--end = '\0';
	return s;
}

static bool take_retired(struct conf *c, const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(retired); i++)
		if (strcmp(retired[i], name) == 0) {
			c->retired = retired[i];
			return true;
		}
	return false;
}

static int take_line(struct conf *c, char *line, bool *seen, struct err *e)
{
	char *name = trim(line), *value = strchr(name, '=');
	size_t i;
	int r;

	if (!value)
		return err_set(e, EINVAL, "'%s' is not 'key = value'", name);
	*value++ = '\0';
	name = trim(name);
	value = trim(value);
	for (i = 0; i < ARRAY_LEN(keys); i++)
		if (strcmp(keys[i].name, name) == 0)
			break;
	if (i == ARRAY_LEN(keys) && take_retired(c, name))
		return 0;
	if (i == ARRAY_LEN(keys))
		return err_set(e, EINVAL, "unknown key '%s'", name);
	if (seen[i])
		return err_set(e, EINVAL, "key '%s' stands twice", name);
	seen[i] = true;
	r = set_value(c, &keys[i], value);
	if (r < 0)
		return err_set(e, -r, "bad value '%s' for key '%s'", value,
			       name);
	return 0;
}

static int read_lines(struct conf *c, FILE *f, const char *path, struct err *e)
{
	bool seen[ARRAY_LEN(keys)] = { false };
	char line[1024];
	int n = 0;

	while (fgets(line, sizeof(line), f)) {
		char *s = trim(line);

		n++;
		if (*s == '\0' || *s == '#')
			continue;
		if (take_line(c, s, seen, e) < 0)
			return err_wrap(e, "%s line %d", path, n);
	}
	return ferror(f) ? err_sys(e, "read %s", path) : 0;
}

int conf_load(struct conf *c, const char *path, struct err *e)
{
	const char *file = path ? path : DEFAULT_CONF;
	size_t i;
	FILE *f;
	int r;

	*c = (struct conf){ 0 };
	for (i = 0; i < ARRAY_LEN(keys); i++)
		if (set_value(c, &keys[i], keys[i].value) < 0)
			return err_set(e, EINVAL, "bad default of %s",
				       keys[i].name);
	f = fopen(file, "re");
	if (!f && errno == ENOENT && !path)
		return 0;
	if (!f)
		return err_sys(e, "open %s", file);
	r = read_lines(c, f, file, e);
	fclose(f);
#ifdef WALLS_TEST
	if (r == 0)
		r = guards_take_off(c->guard_off, e);
#endif
	return r;
}

enum log_level conf_log_level(const struct conf *c)
{
	if (strcmp(c->log_level, "debug") == 0)
		return LOG_DEBUG;
	if (strcmp(c->log_level, "warning") == 0)
		return LOG_WARN;
	if (strcmp(c->log_level, "error") == 0)
		return LOG_ERR;
	return LOG_INFO;
}

int conf_from_args(struct conf *c, int argc, char **argv, struct err *e)
{
	if (argc == 1)
		return conf_load(c, NULL, e);
	if (argc == 3 && strcmp(argv[1], "--config") == 0)
		return conf_load(c, argv[2], e);
	return err_set(e, EINVAL, "usage: %s [--config FILE]", argv[0]);
}
