/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of codecs, with their names and first bytes.
 */
#include "codec/internal.h"

static const struct codec_ops *const codec_table[CODEC_N_KINDS] = {
	[CODEC_GZIP] = &codec_gzip, [CODEC_XZ] = &codec_xz,       [CODEC_LZMA] = &codec_lzma,
	[CODEC_ZSTD] = &codec_zstd, [CODEC_BZIP2] = &codec_bzip2,
};

static const struct {
	const char *name;
	enum codec_kind kind;
} names[] = {
	{ "gzip", CODEC_GZIP }, { "gz", CODEC_GZIP },  { "xz", CODEC_XZ },       { "lzma", CODEC_LZMA },
	{ "zstd", CODEC_ZSTD }, { "zst", CODEC_ZSTD }, { "bzip2", CODEC_BZIP2 }, { "bz2", CODEC_BZIP2 },
};

const struct codec_ops *codec_ops_of(enum codec_kind kind)
{
	return (unsigned)kind < CODEC_N_KINDS ? codec_table[kind] : NULL;
}

const char *codec_name(enum codec_kind kind)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i].kind == kind)
			return names[i].name;
	return "none";
}

enum codec_kind codec_by_name(struct str name)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_eq(name, str_of(names[i].name)))
			return names[i].kind;
	return CODEC_NONE;
}

/*
 * .lzma has no magic: a properties byte (lc, lp, pb), the dictionary's size and the decoded size. Writers use
 * dictionaries of 2^n or 2^n + 2^(n-1), leave the size unknown (all ones) or write one that is far from 2^64,
 * and the first byte of LZMA data is always zero.
 */
static bool plausible_lzma(struct bytes head)
{
	struct cursor c = cursor_of(head);
	uint8_t props = cursor_u8(&c);
	uint32_t dict = cursor_u32(&c);
	uint64_t size = cursor_u64(&c);
	uint8_t first = cursor_u8(&c);
	uint32_t low = dict & -dict;

	if (!cursor_ok(&c) || props > (4 * 5 + 4) * 9 + 8 || first != 0)
		return false;
	if (dict < KIB(4) || (dict != UINT32_MAX && dict != low && dict != low * 3))
		return false;
	return size == UINT64_MAX || (size > 0 && size < (uint64_t)1 << 38);
}

static bool starts_with(struct bytes head, const char *magic, size_t n)
{
	return head.size >= n && memcmp(head.p, magic, n) == 0;
}

/* Skippable frames (0x184d2a50 to 5f) may precede the first zstd frame. lz4 uses them too, but lz4 is not
 * supported. */
static bool is_zstd(struct bytes head)
{
	return starts_with(head, "\x28\xb5\x2f\xfd", 4) ||
	       (head.size >= 4 && (head.p[0] & 0xf0) == 0x50 && memcmp(head.p + 1, "\x2a\x4d\x18", 3) == 0);
}

enum codec_kind codec_detect_magic(struct bytes head)
{
	if (starts_with(head, "\x1f\x8b\x08", 3))
		return CODEC_GZIP;
	if (starts_with(head,
			"\xfd"
			"7zXZ\0",
			6))
		return CODEC_XZ;
	if (is_zstd(head))
		return CODEC_ZSTD;
	if (starts_with(head, "BZh", 3) && head.size >= 10 && head.p[3] >= '1' && head.p[3] <= '9' &&
	    (memcmp(head.p + 4, "\x31\x41\x59\x26\x53\x59", 6) == 0 ||
	     memcmp(head.p + 4, "\x17\x72\x45\x38\x50\x90", 6) == 0))
		return CODEC_BZIP2;
	return CODEC_NONE;
}

enum codec_kind codec_detect(struct bytes head)
{
	enum codec_kind kind = codec_detect_magic(head);

	return kind == CODEC_NONE && plausible_lzma(head) ? CODEC_LZMA : kind;
}

int codec_detect_at(struct source *src, uint64_t off, enum source_hint hint, enum codec_kind *ret,
		    struct err *err)
{
	uint8_t head[16];
	size_t n;

	if (source_read(src, off, head, sizeof(head), hint, &n, err) < 0)
		return -1;
	*ret = codec_detect(bytes_of(head, n));
	return 0;
}
