/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The headers of zstd frames and blocks (RFC 8878, 3.1.1.1 and 3.1.1.2). libzstd reads them too, but does not
 * report where each block starts and ends.
 */
#include "codec/zstd.h"

#include <endian.h>

#define MAGIC           0xfd2fb528u
#define MAGIC_SKIPPABLE 0x184d2a50u /* and the 15 after it */
/* Formats before 0.8, which some builds of libzstd still decode. */
#define MAGIC_LEGACY_1 0x1eb52ffdu
#define MAGIC_LEGACY_2 0xfd2fb522u /* and the 5 after it */

#define WINDOW_LOG_MIN 10

/* Bits of the frame header descriptor. */
#define FHD_SIZE(d)  ((d) >> 6)
#define FHD_SINGLE   0x20
#define FHD_RESERVED 0x08
#define FHD_CHECKSUM 0x04
#define FHD_DICT_ID  0x03

static uint32_t load32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, 4);
	return le32toh(v);
}

enum zstd_what zstd_what(struct bytes head)
{
	uint32_t magic;

	if (!head.size)
		return ZSTD_WHAT_END;
	/* No magic begins with a zero. */
	if (!*head.p)
		return ZSTD_WHAT_ZEROS;
	if (head.size < 4)
		return ZSTD_WHAT_OTHER;
	magic = load32(head.p);
	if (magic == MAGIC)
		return ZSTD_WHAT_FRAME;
	if ((magic & ~15u) == MAGIC_SKIPPABLE)
		return ZSTD_WHAT_SKIPPABLE;
	if (magic == MAGIC_LEGACY_1 || (magic >= MAGIC_LEGACY_2 && magic < MAGIC))
		return ZSTD_WHAT_LEGACY;
	return ZSTD_WHAT_OTHER;
}

uint64_t zstd_window_size(uint8_t byte)
{
	uint64_t base = 1ull << (WINDOW_LOG_MIN + (byte >> 3));

	return base + base / 8 * (byte & 7);
}

uint8_t zstd_window_byte(uint64_t window)
{
	unsigned byte = 0;

	while (byte < 255 && zstd_window_size((uint8_t)byte) < window)
		byte++;
	return (uint8_t)byte;
}

int zstd_frame_parse(struct bytes head, uint64_t at, struct zstd_frame *ret, struct err *err)
{
	static const uint8_t dict_sizes[4] = { 0, 1, 2, 4 };
	static const uint8_t size_sizes[4] = { 0, 2, 4, 8 };
	struct cursor c = cursor_at(head, false, at);
	struct zstd_frame f = { .content_size = ZSTD_SIZE_UNKNOWN };
	uint32_t magic = cursor_u32(&c);
	uint8_t desc = cursor_u8(&c);
	bool single = desc & FHD_SINGLE;
	unsigned n_dict = dict_sizes[desc & FHD_DICT_ID], n_size = size_sizes[FHD_SIZE(desc)];

	if (single && !n_size)
		n_size = 1;
	if (!single)
		f.window = zstd_window_size(cursor_u8(&c));
	if (n_dict)
		f.dict_id = (uint32_t)cursor_uint(&c, n_dict);
	if (n_size)
		f.content_size = cursor_uint(&c, n_size) + (n_size == 2 ? 256 : 0);
	if (!cursor_ok(&c))
		return ZSTD_FRAME_SHORT;
	if (magic != MAGIC)
		return err_set(err, ERR_INVALID, "zstd: no frame at offset %llu", (unsigned long long)at);
	if (desc & FHD_RESERVED)
		return err_set(err, ERR_INVALID,
			       "zstd: a reserved bit is set in the frame header at offset %llu",
			       (unsigned long long)at);
	if (single)
		f.window = f.content_size;
	if (f.window > CODEC_MAX_WINDOW)
		return err_set(err, ERR_LIMIT,
			       "zstd: the frame at offset %llu wants a window of %llu bytes, over %zu",
			       (unsigned long long)at, (unsigned long long)f.window, CODEC_MAX_WINDOW);
	f.checksum = desc & FHD_CHECKSUM;
	f.header_size = (unsigned)(c.p - c.start);
	*ret = f;
	return 0;
}

struct zstd_block_header zstd_block_header(const uint8_t p[ZSTD_BLOCK_HEADER])
{
	uint32_t v = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
	struct zstd_block_header h = { .type = v >> 1 & 3, .last = v & 1, .size = v >> 3 };

	h.content = h.type == ZSTD_BLOCK_RLE ? 1 : h.size;
	return h;
}
