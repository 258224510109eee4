/* Networks: addresses that begin with the same bits. */
#include "policy/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/str.h"

int network_address(struct in6_addr *out, const char *s, size_t n, bool *v4)
{
	char text[INET6_ADDRSTRLEN];
	struct in_addr a;

	if (n >= 2 && s[0] == '[' && s[n - 1] == ']') {
		s++;
		n -= 2;
	}
	if (n >= sizeof(text))
		return -EINVAL;
	memcpy(text, s, n);
	text[n] = '\0';
	*v4 = inet_pton(AF_INET, text, &a) == 1;
	if (!*v4) {
		if (inet_pton(AF_INET6, text, out) != 1)
			return -EINVAL;
		*v4 = IN6_IS_ADDR_V4MAPPED(out);
		return 0;
	}
	*out = (struct in6_addr){ .s6_addr = { [10] = 0xff, [11] = 0xff } };
	memcpy(&out->s6_addr[12], &a, sizeof(a));
	return 0;
}

static bool has_bits_behind(const struct in6_addr *a, unsigned bits)
{
	unsigned i;

	for (i = bits; i < 128; i++)
		if (a->s6_addr[i / 8] & 0x80 >> i % 8)
			return true;
	return false;
}

static int read_bits(const char *s, size_t n, bool v4, uint64_t *bits)
{
	char text[8];

	if (n == 0 || n >= sizeof(text))
		return -EINVAL;
	memcpy(text, s, n);
	text[n] = '\0';
	return parse_u64(text, v4 ? 32 : 128, bits);
}

int network_read(struct network *x, const char *s, size_t n, struct err *e)
{
	const char *slash = memchr(s, '/', n);
	size_t len = slash ? (size_t)(slash - s) : n;
	int shown = (int)(n < 64 ? n : 64);
	uint64_t bits = 0;
	bool v4;

	if (network_address(&x->net, s, len, &v4) < 0)
		return err_set(e, EINVAL,
			       "'%.*s' is no network: write 10.0.0.0/8 or "
			       "fd00::/8",
			       shown, s);
	x->bits = 128;
	if (!slash)
		return 0;
	if (read_bits(slash + 1, n - len - 1, v4, &bits) < 0)
		return err_set(e, EINVAL, "'%.*s' is no prefix length",
			       (int)(n - len - 1 < 8 ? n - len - 1 : 8),
			       slash + 1);
	x->bits = (unsigned)bits + (v4 ? 96 : 0);
	if (has_bits_behind(&x->net, x->bits))
		return err_set(e, EINVAL, "'%.*s' has bits behind its prefix",
			       shown, s);
	return 0;
}

bool network_has(const struct network *x, const struct in6_addr *a)
{
	unsigned whole = x->bits / 8, rest = x->bits % 8;

	return memcmp(a, &x->net, whole) == 0 &&
	       (rest == 0 || ((a->s6_addr[whole] ^ x->net.s6_addr[whole]) >>
			      (8 - rest)) == 0);
}

void network_print(const struct network *x, bool whole, struct buf *out)
{
	bool v4 = IN6_IS_ADDR_V4MAPPED(&x->net) && x->bits >= 96;
	char text[INET6_ADDRSTRLEN] = "";

	if (v4)
		inet_ntop(AF_INET, &x->net.s6_addr[12], text, sizeof(text));
	else
		inet_ntop(AF_INET6, &x->net, text, sizeof(text));
	buf_puts(out, text);
	if (whole || x->bits < 128)
		buf_printf(out, "/%u", x->bits - (v4 ? 96 : 0));
}
