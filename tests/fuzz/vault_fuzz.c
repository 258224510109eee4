/*
 * Secrets as clients describe them, and what is made of their values: codes
 * and signatures. The first byte chooses. What is taken can be written, read
 * again and sealed, and says the same.
 */
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "vault/seal.h"
#include "vault/secret.h"
#include "vault/secret_json.h"
#include "vault/sigv4.h"
#include "vault/totp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char value[] = "the value";

/* To its own project, and to nobody else. */
static void seal(struct secret *s)
{
	unsigned char public[SEAL_KEY], private[SEAL_KEY], other[SEAL_KEY];
	struct sealed_value v = { 0 };
	struct buf sealed = { 0 };
	struct err e = { 0 };

	assert(crypto_box_keypair(public, private) == 0);
	assert(secret_seal(s, public, value, sizeof(value), &sealed, &e) == 0);
	free(s->sealed);
	s->sealed_n = buf_len(&sealed);
	s->sealed = malloc(s->sealed_n);
	memcpy(s->sealed, buf_data(&sealed), s->sealed_n);
	assert(secret_open(s, public, private, &v, &e) == 0);
	assert(v.n == sizeof(value) && memcmp(v.p, value, v.n) == 0);
	sealed_free(&v);
	/* With one more place it is for others. */
	if (secret_add_host(s, "more.test", &e) == 0)
		assert(secret_open(s, public, private, &v, &e) == -EBADMSG);
	err_clear(&e);
	assert(crypto_box_keypair(other, private) == 0);
	assert(secret_open(s, other, private, &v, &e) == -EBADMSG);
	buf_done(&sealed);
}

static void description(const char *p, size_t n)
{
	json_t *j = json_loadb(p, n, JSON_REJECT_DUPLICATES, NULL), *one, *two;
	struct secret s = { .name = "x" }, t = { .name = "x" };
	struct err e = { 0 };

	if (!j)
		return;
	if (secret_from_json(&s, j, &e) == 0) {
		one = secret_to_json(&s);
		assert(secret_from_json(&t, one, &e) == 0);
		two = secret_to_json(&t);
		assert(json_equal(one, two));
		json_decref(one);
		json_decref(two);
		seal(&s);
	} else {
		assert(e.code && *e.msg);
	}
	secret_done(&s);
	secret_done(&t);
	json_decref(j);
}

static void code(const char *seed)
{
	char one[TOTP_CODE_CAP], two[TOTP_CODE_CAP];
	struct err e = { 0 };
	const char *c;

	if (totp_make(seed, 1234567890, one, &e) < 0) {
		assert(*one == '\0' && e.code == EINVAL);
		return;
	}
	assert(strlen(one) >= 6 && strlen(one) <= 8);
	for (c = one; *c; c++)
		assert(isdigit((unsigned char)*c));
	assert(totp_make(seed, 1234567890, two, &e) == 0);
	assert(strcmp(one, two) == 0);
}

/* The target, and a field's value in the next line. */
static void signature(char *text)
{
	char *field = strchr(text, '\n');
	struct sigv4_field f = { "X-Amz-Meta", field ? field + 1 : "" };
	struct sigv4 s = { .method = "GET",
			   .host = "a.test",
			   .target = text,
			   .key_id = "id",
			   .key = "key",
			   .token = "",
			   .region = "r",
			   .service = strchr(text, '3') ? "s3" : "iam",
			   .time_s = 1234567890,
			   .payload = "UNSIGNED-PAYLOAD",
			   .fields = &f,
			   .n_fields = 1 };
	struct buf a = { 0 }, to = { 0 }, a2 = { 0 }, to2 = { 0 };
	char date[SIGV4_DATE_CAP];

	if (field)
		*field = '\0';
	if (*text != '/')
		return; /* what an http_head cannot have */
	assert(sigv4_sign(&s, &a, date, &to) == 0);
	/* What is sent is what was signed: written anew it is the same. */
	s.target = buf_str(&to);
	assert(sigv4_sign(&s, &a2, date, &to2) == 0);
	assert(strcmp(buf_str(&to), buf_str(&to2)) == 0);
	assert(strcmp(buf_str(&a), buf_str(&a2)) == 0);
	buf_done(&a);
	buf_done(&a2);
	buf_done(&to);
	buf_done(&to2);
}

static void header(const char *line)
{
	struct secret s = { .name = "x" };
	struct err e = { 0 };

	s.kind = SECRET_HEADER;
	if (secret_set_header(&s, line, &e) == 0 &&
	    secret_add_host(&s, "a.test", &e) == 0 && secret_check(&s, &e) == 0)
		assert(*s.field && strstr(s.template, "{}"));
	secret_done(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char *text;

	if (n < 1)
		return 0;
	text = malloc(n);
	memcpy(text, data + 1, n - 1);
	text[n - 1] = '\0';
	if (data[0] == 'j')
		description(text, n - 1);
	else if (data[0] == 't')
		code(text);
	else if (data[0] == 'h')
		header(text);
	else
		signature(text);
	free(text);
	return 0;
}
