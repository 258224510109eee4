#include "audit/spool.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

static const char magic[8] = "spool 1\n";

/*
 * CRC-32 of IEEE 802.3, eight bytes at a time: each entry that leaves a sandbox
 * passes here twice. The tables are made when they are first needed.
 */
static uint32_t crc_table[8][256];

static void make_table(void)
{
	uint32_t i, k;

	for (i = 0; i < 256; i++) {
		uint32_t v = i;

		for (k = 0; k < 8; k++)
			v = v >> 1 ^ (v & 1 ? 0xedb88320 : 0);
		crc_table[0][i] = v;
	}
	for (i = 0; i < 256; i++)
		for (k = 1; k < 8; k++)
			crc_table[k][i] =
				crc_table[k - 1][i] >> 8 ^
				crc_table[0][crc_table[k - 1][i] & 0xff];
}

static uint32_t crc_eight(uint32_t crc, const unsigned char *s)
{
	uint64_t v;
	uint32_t sum = 0;
	unsigned k;

	memcpy(&v, s, sizeof(v));
	v = le64toh(v) ^ crc;
	for (k = 0; k < 8; k++)
		sum ^= crc_table[7 - k][v >> 8 * k & 0xff];
	return sum;
}

static uint32_t crc32(uint32_t crc, const void *p, size_t n)
{
	const unsigned char *s = p;

	if (!crc_table[0][1])
		make_table();
	crc = ~crc;
	for (; n >= 8; s += 8, n -= 8)
		crc = crc_eight(crc, s);
	for (; n > 0; s++, n--)
		crc = crc >> 8 ^ crc_table[0][(crc ^ *s) & 0xff];
	return ~crc;
}

static void put_u32(unsigned char *p, uint32_t v)
{
	v = htole32(v);
	memcpy(p, &v, sizeof(v));
}

static void put_u64(unsigned char *p, uint64_t v)
{
	v = htole64(v);
	memcpy(p, &v, sizeof(v));
}

static uint32_t get_u32(const unsigned char *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static uint64_t get_u64(const unsigned char *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

/*
 * magic 8, first 8, checksum of both 4, checksum of start 4, start 8. One that
 * begins right behind the head has zeros for the last two.
 */
void spool_head_put(unsigned char out[SPOOL_HEAD], const struct spool_head *h)
{
	memset(out, 0, SPOOL_HEAD);
	memcpy(out, magic, sizeof(magic));
	put_u64(out + 8, h->first);
	put_u32(out + 16, crc32(0, out, 16));
	if (h->start == SPOOL_HEAD)
		return;
	put_u64(out + 24, h->start);
	put_u32(out + 20, crc32(0, out + 24, 8));
}

int spool_head_get(const void *p, size_t n, struct spool_head *h)
{
	const unsigned char *s = p;

	if (n < SPOOL_HEAD || memcmp(s, magic, sizeof(magic)) != 0 ||
	    get_u32(s + 16) != crc32(0, s, 16))
		return -EBADMSG;
	h->first = get_u64(s + 8);
	h->start = get_u64(s + 24);
	if (h->start == 0 && get_u32(s + 20) == 0)
		h->start = SPOOL_HEAD;
	else if (get_u32(s + 20) != crc32(0, s + 24, 8))
		return -EBADMSG;
	return h->first > 0 && h->first <= SPOOL_NUMBER_MAX &&
			       h->start >= SPOOL_HEAD &&
			       h->start <= SPOOL_OFFSET_MAX
		       ? 0
		       : -EBADMSG;
}

/* length 4, checksum of number and body 4, number 8, body. */
void spool_put(struct buf *b, uint64_t number, const void *body, size_t n)
{
	unsigned char *p = (unsigned char *)buf_room(b, SPOOL_RECORD_HEAD + n);

	put_u32(p, (uint32_t)n);
	put_u64(p + 8, number);
	memcpy(p + SPOOL_RECORD_HEAD, body, n);
	put_u32(p + 4, crc32(0, p + 8, 8 + n));
	buf_fill(b, SPOOL_RECORD_HEAD + n);
}

int spool_get(const void *p, size_t n, struct spool_record *r)
{
	const unsigned char *s = p;
	size_t len;

	if (n < SPOOL_RECORD_HEAD)
		return 0;
	len = get_u32(s);
	if (len == 0 || len > SPOOL_BODY_MAX)
		return -EBADMSG;
	if (n < SPOOL_RECORD_HEAD + len)
		return 0;
	*r = (struct spool_record){
		.number = get_u64(s + 8),
		.body = (const char *)s + SPOOL_RECORD_HEAD,
		.n = len,
		.size = SPOOL_RECORD_HEAD + len,
	};
	if (get_u32(s + 4) != crc32(0, s + 8, 8 + len) || r->number == 0 ||
	    r->number > SPOOL_NUMBER_MAX)
		return -EBADMSG;
	return 1;
}
