/*
 * Authorities and the certificates they sign. All keys are on P-256: a
 * signature costs tens of microseconds, so a certificate is made when a host
 * is first wanted. All certificates of a door share its key: whoever could
 * steal one could steal them all.
 *
 * The extensions are those that strict verifiers (Python 3.13, Go, Java) ask
 * for.
 */
#include "gate/leaf.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/product.h"
#include "gate/dial.h"
#include "http/tls.h"

enum {
	DAY_S = 24 * 3600,
	CA_DAYS = 3650,
	LEAF_DAYS = 7,
	BACK_DAYS = 1,  /* for clocks that are late */
	RENEW_DAYS = 2, /* before its end a new one is made */
	LEAVES_MAX = 1024,
	LEAF_BUCKETS = 1024,
	SERIAL_BYTES = 16,
	SUBJECT_MAX = 64, /* RFC 5280, ub-common-name */
};

struct ca {
	X509 *cert;
	EVP_PKEY *key;
};

struct leaf {
	struct list bucket, used; /* `used`: the oldest first */
	X509 *issuer;             /* a reference: it is nobody else's address */
	X509 *cert;
	uint64_t renew_ms; /* wall time */
	char host[POLICY_HOST_CAP];
};

struct leaves {
	EVP_PKEY *key;
	struct tls_context *tls;
	struct list buckets[LEAF_BUCKETS], used;
	unsigned n;
};

static int fail(struct err *e, const char *what)
{
	const char *s = ERR_reason_error_string(ERR_get_error());

	ERR_clear_error();
	return err_set(e, EIO, "%s: %s", what, s ? s : "unknown error");
}

/* --- certificates --- */

static bool set_serial(X509 *x)
{
	unsigned char random[SERIAL_BYTES];
	BIGNUM *n = NULL;
	bool ok;

	if (RAND_bytes(random, sizeof(random)) != 1)
		return false;
	random[0] = (random[0] & 0x7f) | 0x40; /* positive, never short */
	n = BN_bin2bn(random, sizeof(random), NULL);
	ok = n && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x));
	BN_free(n);
	return ok;
}

static bool set_subject(X509 *x, const char *name)
{
	return X509_NAME_add_entry_by_txt(
		       X509_get_subject_name(x), "CN", MBSTRING_ASC,
		       (const unsigned char *)name, -1, -1, 0) == 1;
}

static bool extend(X509 *x, X509 *issuer, int nid, const char *value)
{
	X509_EXTENSION *ext;
	X509V3_CTX ctx;
	bool ok;

	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
	ext = X509V3_EXT_nconf_nid(NULL, &ctx, nid, value);
	ok = ext && X509_add_ext(x, ext, -1) == 1;
	X509_EXTENSION_free(ext);
	return ok;
}

/* Not through the text form: a host is data. */
static bool extend_host(X509 *x, const char *host)
{
	GENERAL_NAMES *all = sk_GENERAL_NAME_new_null();
	GENERAL_NAME *name = GENERAL_NAME_new();
	ASN1_STRING *value;
	struct in6_addr a;
	bool address = address_read(&a, host) == 0;
	bool mapped = address && IN6_IS_ADDR_V4MAPPED(&a), ok = false;

	value = ASN1_STRING_type_new(address ? V_ASN1_OCTET_STRING
					     : V_ASN1_IA5STRING);
	if (all && name && value &&
	    (!address ? ASN1_STRING_set(value, host, -1)
		      : ASN1_STRING_set(value, a.s6_addr + (mapped ? 12 : 0),
					mapped ? 4 : 16)) == 1) {
		GENERAL_NAME_set0_value(name, address ? GEN_IPADD : GEN_DNS,
					take_ptr(value));
		ok = sk_GENERAL_NAME_push(all, name) > 0;
		if (ok)
			name = NULL;
		ok = ok &&
		     X509_add1_ext_i2d(x, NID_subject_alt_name, all, 0, 0) == 1;
	}
	ASN1_STRING_free(value);
	GENERAL_NAME_free(name);
	GENERAL_NAMES_free(all);
	return ok;
}

static X509 *certificate(const char *subject, EVP_PKEY *key, int days)
{
	X509 *x = X509_new();

	if (x && X509_set_version(x, X509_VERSION_3) == 1 && set_serial(x) &&
	    set_subject(x, subject) && X509_set_pubkey(x, key) == 1 &&
	    X509_gmtime_adj(X509_getm_notBefore(x), -BACK_DAYS * DAY_S) &&
	    X509_time_adj_ex(X509_getm_notAfter(x), days, 0, NULL))
		return x;
	X509_free(x);
	return NULL;
}

/* --- authorities --- */

static X509 *ca_certificate(const char *project, EVP_PKEY *key)
{
	char name[SUBJECT_MAX + 1];
	X509 *x;

	snprintf(name, sizeof(name), "%s %.*s", PRODUCT_NAME,
		 SUBJECT_MAX - (int)sizeof(PRODUCT_NAME), project);
	x = certificate(name, key, CA_DAYS);
	if (x && X509_set_issuer_name(x, X509_get_subject_name(x)) == 1 &&
	    extend(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
	    extend(x, x, NID_key_usage, "critical,keyCertSign,cRLSign") &&
	    extend(x, x, NID_subject_key_identifier, "hash") &&
	    X509_sign(x, key, EVP_sha256()) > 0)
		return x;
	X509_free(x);
	return NULL;
}

static void take_bio(BIO *b, struct buf *out)
{
	char *p = NULL;
	long n = BIO_get_mem_data(b, &p);

	if (n > 0)
		buf_add(out, p, (size_t)n);
}

int ca_make(const char *project, struct buf *cert, struct buf *key,
	    struct err *e)
{
	BIO *cert_text = NULL, *key_text = NULL; /* wiped when freed */
	EVP_PKEY *pair = NULL;
	X509 *x = NULL;
	int r = 0;

	OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
	cert_text = BIO_new(BIO_s_mem());
	key_text = BIO_new(BIO_s_secmem());
	pair = EVP_EC_gen("P-256");
	if (pair)
		x = ca_certificate(project, pair);
	if (!x || !cert_text || !key_text ||
	    PEM_write_bio_X509(cert_text, x) != 1 ||
	    PEM_write_bio_PrivateKey(key_text, pair, NULL, NULL, 0, NULL,
				     NULL) != 1) {
		r = fail(e, "make an authority");
	} else {
		take_bio(cert_text, cert);
		take_bio(key_text, key);
	}
	BIO_free(cert_text);
	BIO_free(key_text);
	X509_free(x);
	EVP_PKEY_free(pair);
	return r < 0 ? err_wrap(e, "project %s", project) : 0;
}

/* A key is never asked for its password. */
static int no_password(char *out, int n, int writing, void *arg)
{
	(void)out;
	(void)n;
	(void)writing;
	(void)arg;
	return -1;
}

int ca_load(struct ca **out, const char *cert, const char *key, struct err *e)
{
	struct ca *ca = xcalloc(1, sizeof(*ca));
	BIO *cert_text = BIO_new_mem_buf(cert, -1);
	BIO *key_text = BIO_new_mem_buf(key, -1);

	if (cert_text)
		ca->cert =
			PEM_read_bio_X509(cert_text, NULL, no_password, NULL);
	if (key_text)
		ca->key = PEM_read_bio_PrivateKey(key_text, NULL, no_password,
						  NULL);
	BIO_free(cert_text);
	BIO_free(key_text);
	if (!ca->cert || !ca->key ||
	    X509_check_private_key(ca->cert, ca->key) != 1) {
		ca_free(ca);
		return fail(e, "read the authority of a project");
	}
	*out = ca;
	return 0;
}

void ca_free(struct ca *ca)
{
	if (!ca)
		return;
	X509_free(ca->cert);
	EVP_PKEY_free(ca->key);
	free(ca);
}

/* --- leaves --- */

int leaves_new(struct leaves **out, struct err *e)
{
	struct leaves *l = xcalloc(1, sizeof(*l));
	unsigned i;

	for (i = 0; i < LEAF_BUCKETS; i++)
		list_init(&l->buckets[i]);
	list_init(&l->used);
	if (tls_context_own(&l->tls, e) < 0) {
		leaves_free(l);
		return -e->code;
	}
	l->key = EVP_EC_gen("P-256");
	if (!l->key) {
		leaves_free(l);
		return fail(e, "make a key");
	}
	*out = l;
	return 0;
}

static void leaf_free(struct leaves *l, struct leaf *leaf)
{
	list_del(&leaf->bucket);
	list_del(&leaf->used);
	X509_free(leaf->issuer);
	X509_free(leaf->cert);
	free(leaf);
	l->n--;
}

void leaves_free(struct leaves *l)
{
	struct list *pos, *tmp;

	if (!l)
		return;
	list_each (pos, tmp, &l->used)
		leaf_free(l, container_of(pos, struct leaf, used));
	tls_context_free(l->tls);
	EVP_PKEY_free(l->key);
	free(l);
}

static struct list *bucket_of(struct leaves *l, const char *host)
{
	uint32_t h = 2166136261u; /* FNV-1a */

	for (; *host; host++)
		h = (h ^ (unsigned char)*host) * 16777619u;
	return &l->buckets[h % LEAF_BUCKETS];
}

static X509 *leaf_certificate(const struct leaves *l, const struct ca *ca,
			      const char *host)
{
	const char *subject = strlen(host) <= SUBJECT_MAX ? host : PRODUCT_NAME;
	X509 *x = certificate(subject, l->key, LEAF_DAYS);

	if (x &&
	    X509_set_issuer_name(x, X509_get_subject_name(ca->cert)) == 1 &&
	    extend(x, ca->cert, NID_basic_constraints, "critical,CA:FALSE") &&
	    extend(x, ca->cert, NID_key_usage, "critical,digitalSignature") &&
	    extend(x, ca->cert, NID_ext_key_usage, "serverAuth") &&
	    extend(x, ca->cert, NID_subject_key_identifier, "hash") &&
	    extend(x, ca->cert, NID_authority_key_identifier, "keyid:always") &&
	    extend_host(x, host) && X509_sign(x, ca->key, EVP_sha256()) > 0)
		return x;
	X509_free(x);
	return NULL;
}

/* Hosts of several projects may have the same name: the issuer tells. */
static struct leaf *leaf_find(struct leaves *l, const struct ca *ca,
			      const char *host)
{
	struct list *head = bucket_of(l, host), *pos, *tmp;

	list_each (pos, tmp, head) {
		struct leaf *leaf = container_of(pos, struct leaf, bucket);

		if (leaf->issuer != ca->cert || strcmp(leaf->host, host) != 0)
			continue;
		if (leaf->renew_ms > clock_wall_ms())
			return leaf;
		leaf_free(l, leaf);
		return NULL;
	}
	return NULL;
}

static struct leaf *leaf_make(struct leaves *l, const struct ca *ca,
			      const char *host, struct err *e)
{
	struct leaf *leaf = xcalloc(1, sizeof(*leaf));

	leaf->cert = leaf_certificate(l, ca, host);
	if (!leaf->cert || str_copy(leaf->host, sizeof(leaf->host), host) < 0) {
		X509_free(leaf->cert);
		free(leaf);
		fail(e, "make a certificate");
		err_wrap(e, "host %s", host);
		return NULL;
	}
	X509_up_ref(ca->cert);
	leaf->issuer = ca->cert;
	leaf->renew_ms = clock_wall_ms() +
			 (LEAF_DAYS - RENEW_DAYS) * DAY_S * UINT64_C(1000);
	if (l->n >= LEAVES_MAX)
		leaf_free(l, container_of(l->used.next, struct leaf, used));
	list_add(bucket_of(l, host), &leaf->bucket);
	list_add(&l->used, &leaf->used);
	l->n++;
	return leaf;
}

struct tls_context *leaf_context(struct gate *g, struct project *p,
				 const char *host, struct err *e)
{
	struct leaves *l = g->leaves;
	struct leaf *leaf;

	if (!l || !p->ca) {
		err_set(e, EAGAIN, "project %s has no authority yet", p->name);
		return NULL;
	}
	leaf = leaf_find(l, p->ca, host);
	if (!leaf)
		leaf = leaf_make(l, p->ca, host, e);
	if (!leaf)
		return NULL;
	list_del(&leaf->used);
	list_add(&l->used, &leaf->used);
	tls_context_use(l->tls, leaf->cert, l->key);
	return l->tls;
}
