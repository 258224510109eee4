#include "vault/seal.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>

#include "wire/gate.h"

/* Name and places, at most. */
enum {
	PLACES_MAX = NAME_CAP + SECRET_HOSTS_MAX * POLICY_HOST_CAP +
		     SECRET_TEXT_CAP + 8,
};
_Static_assert((int)SEAL_KEY == (int)crypto_box_PUBLICKEYBYTES, "keys fit");
_Static_assert((int)PLACES_MAX + (int)SECRET_VALUE_MAX +
			       (int)crypto_box_SEALBYTES <=
		       (int)GATE_SEALED_MAX,
	       "a sealed value fits into its message");

int secret_seal(const struct secret *s, const unsigned char key[SEAL_KEY],
		const void *value, size_t n, struct buf *out, struct err *e)
{
	struct buf places = { 0 };
	size_t size;
	char *p;
	int r;

	if (n == 0 || n > SECRET_VALUE_MAX)
		return err_set(e, EINVAL, "the value has %s",
			       n ? "more than 8 KiB" : "no bytes");
	if (sodium_init() < 0)
		return err_set(e, EIO, "no cryptography on this host");
	secret_places(s, &places);
	buf_puts(&places, "\n");
	size = buf_len(&places) + n;
	p = sodium_malloc(size);
	if (!p) {
		buf_done(&places);
		return err_set(e, ENOMEM, "no memory for the value");
	}
	memcpy(p, buf_data(&places), buf_len(&places));
	memcpy(p + buf_len(&places), value, n);
	buf_done(&places);
	r = crypto_box_seal(
		(unsigned char *)buf_room(out, size + crypto_box_SEALBYTES),
		(unsigned char *)p, size, key);
	sodium_free(p);
	if (r != 0)
		return err_set(e, EINVAL, "the key of the project is no key");
	buf_fill(out, size + crypto_box_SEALBYTES);
	return 0;
}

/* Behind the line of places, which must be the secret's own. */
static const char *check_places(const struct secret *s, const char *p, size_t n)
{
	struct buf places = { 0 };
	const char *value = NULL;
	size_t len;

	secret_places(s, &places);
	buf_puts(&places, "\n");
	len = buf_len(&places);
	if (n > len && memcmp(p, buf_data(&places), len) == 0)
		value = p + len;
	buf_done(&places);
	return value;
}

int secret_open(const struct secret *s, const unsigned char key[SEAL_KEY],
		const unsigned char private_key[SEAL_KEY],
		struct sealed_value *out, struct err *e)
{
	const char *value;
	size_t n;
	char *p;

	*out = (struct sealed_value){ 0 };
	if (sodium_init() < 0)
		return err_set(e, EIO, "no cryptography on this host");
	if (s->sealed_n <= crypto_box_SEALBYTES ||
	    s->sealed_n > GATE_SEALED_MAX)
		return err_set(e, EBADMSG, "secret %s has no value", s->name);
	n = s->sealed_n - crypto_box_SEALBYTES;
	p = sodium_malloc(n + 1);
	if (!p)
		return err_set(e, ENOMEM, "no memory for secret %s", s->name);
	p[n] = '\0';
	if (crypto_box_seal_open((unsigned char *)p, s->sealed, s->sealed_n,
				 key, private_key) != 0) {
		sodium_free(p);
		return err_set(e, EBADMSG,
			       "secret %s was sealed to another key: set it "
			       "again",
			       s->name);
	}
	value = check_places(s, p, n);
	if (!value || (size_t)(p + n - value) > SECRET_VALUE_MAX) {
		sodium_free(p);
		return err_set(e, EBADMSG,
			       "secret %s was sealed for other hosts: set it "
			       "again",
			       s->name);
	}
	out->n = (size_t)(p + n - value);
	memmove(p, value, out->n + 1);
	out->p = p;
	return 0;
}

void sealed_free(struct sealed_value *v)
{
	if (v->p)
		sodium_free(v->p); /* wipes */
	*v = (struct sealed_value){ 0 };
}
