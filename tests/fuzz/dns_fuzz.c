/*
 * Questions of strangers. Besides memory errors these are failures: a host
 * that is not in its one spelling, and an answer that does not say the
 * question again.
 */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

/* It is part of a program. */
#include "gate/dns.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_host(const struct dns_query *q)
{
	char again[POLICY_HOST_CAP];
	bool address;

	if (q->host[0] == '\0')
		return;
	assert(host_read(q->host, strlen(q->host), again, &address) == 0);
	assert(!address && strcmp(again, q->host) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const struct in_addr a = { 0x0100007f };
	unsigned char out[DNS_ANSWER_MAX];
	struct dns_query q;
	size_t len;
	int code = dns_read(&q, data, n);

	if (code < 0) {
		assert(code == -EBADMSG);
		return 0;
	}
	check_host(&q);
	len = dns_answer(&q, (enum dns_rcode)code, n & 1 ? &a : NULL,
			 "a reason", out);
	assert(len >= DNS_HEADER + q.question_n && len <= DNS_ANSWER_MAX);
	assert(memcmp(out, data, 2) == 0 && (out[3] & 15) == code);
	if (q.question_n)
		assert(memcmp(out + DNS_HEADER, data + DNS_HEADER,
			      q.question_n) == 0);
	return 0;
}
