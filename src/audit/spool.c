#include "audit/spool.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

static const char magic[8] = "spool 1\n";

/* CRC-32 of IEEE 802.3, four bits at a time. */
static uint32_t crc32(uint32_t crc, const void *p, size_t n)
{
	static const uint32_t table[16] = {
		0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
		0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
		0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
		0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
	};
	const unsigned char *s = p;
	size_t i;

	crc = ~crc;
	for (i = 0; i < n; i++) {
		crc = crc >> 4 ^ table[(crc ^ s[i]) & 15];
		crc = crc >> 4 ^ table[(crc ^ s[i] >> 4) & 15];
	}
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
