/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpm packages of format v3, v4 and v6: a lead of 96 bytes that is obsolete, the signature header (padded to
 * 8), the header, the payload up to the end of the file. The payload's first bytes determine its codec, not
 * the header: a payload may be repacked without a change of the (signed) header.
 */
#include "pkg/internal.h"

#define LEAD_SIZE     96
#define SIGNATURE_MAX MIB(64)
#define DIGEST_SHA256 8 /* OpenPGP's number of SHA-256 (RFC 9580, section 9.5) */
#define SHA256_SIZE   32

enum {
	LEAD_TYPE = 6, /* 1: a source package */
	LEAD_SIGNATURE =
		78, /* 5: a signature header follows; others are older than any package worth reading */

	SIG_LONGSIZE = 270,
	SIG_SIZE = 1000,

	TAG_NAME = 1000,
	TAG_VERSION = 1001,
	TAG_RELEASE = 1002,
	TAG_EPOCH = 1003,
	TAG_ARCH = 1022,
	TAG_SOURCERPM = 1044,
	TAG_PAYLOADFORMAT = 1124,
	TAG_PAYLOADCOMPRESSOR = 1125,
	TAG_PAYLOADDIGEST = 5092, /* of the compressed payload, in hex */
	TAG_PAYLOADDIGESTALGO = 5093,
	TAG_PAYLOADSIZE = 5112,    /* compressed */
	TAG_PAYLOADSIZEALT = 5113, /* not compressed */
	TAG_SOURCENEVR = 5120,
};

bool rpm_detect(struct bytes head)
{
	static const uint8_t magic[4] = { 0xed, 0xab, 0xee, 0xdb };

	return head.size >= sizeof(magic) && memcmp(head.p, magic, sizeof(magic)) == 0;
}

static int rpm_read_headers(struct source *src, struct arena *a, struct rpm_header *ret_sig,
			    struct rpm_header *ret, struct err *err)
{
	uint8_t lead[LEAD_SIZE];

	if (source_read_full(src, 0, lead, sizeof(lead), SOURCE_SEQUENTIAL, err) < 0)
		return err_in(err, "lead");
	if (lead[LEAD_SIGNATURE] != 0 || lead[LEAD_SIGNATURE + 1] != 5)
		return err_set(err, ERR_INVALID, "lead: signature type %u is not supported",
			       lead[LEAD_SIGNATURE] << 8 | lead[LEAD_SIGNATURE + 1]);
	if (rpm_header_read(src, LEAD_SIZE, SIGNATURE_MAX, a, ret_sig, err) < 0)
		return err_in(err, "signature");
	if (rpm_header_read(src, ret_sig->end + (-ret_sig->end & 7), PKG_MAX_HEADER, a, ret, err) < 0)
		return err_in(err, "header");
	return 0;
}

/* "name-version-release": the part before the last two dashes. */
static struct str name_of_nevr(struct str s)
{
	for (int dashes = 0; s.size; s.size--)
		if (s.p[s.size - 1] == '-' && ++dashes == 2)
			return (struct str){ s.p, s.size - 1 };
	return s;
}

static int rpm_read_names(const struct rpm_header *h, struct arena *a, struct pkg_info *ret, struct err *err)
{
	struct str version, release, source;
	struct rpm_ints epoch;
	AUTO(buf_done) struct buf full = { 0 };

	if (rpm_header_text(h, TAG_NAME, &ret->name, err) < 0 ||
	    rpm_header_text(h, TAG_VERSION, &version, err) < 0 ||
	    rpm_header_text(h, TAG_RELEASE, &release, err) < 0 ||
	    rpm_header_ints(h, TAG_EPOCH, &epoch, err) < 0 ||
	    rpm_header_text(h, TAG_ARCH, &ret->arch, err) < 0 ||
	    rpm_header_text(h, TAG_SOURCENEVR, &source, err) < 0)
		return -1;
	if (!source.size && rpm_header_text(h, TAG_SOURCERPM, &source, err) < 0)
		return -1;
	if (source.size)
		ret->source_name = name_of_nevr(source);
	if (epoch.n)
		buf_printf(&full, "%llu:", (unsigned long long)rpm_int(&epoch, 0));
	buf_add_str(&full, version);
	if (release.size)
		buf_add_char(&full, '-');
	buf_add_str(&full, release);
	ret->version = arena_str(a, buf_str(&full));
	return 0;
}

static int first_int(const struct rpm_header *h, uint32_t tag, uint64_t *ret, struct err *err)
{
	struct rpm_ints v;

	if (rpm_header_ints(h, tag, &v, err) < 0)
		return -1;
	*ret = v.n ? rpm_int(&v, 0) : 0;
	return 0;
}

/* The payload's size according to the headers; 0: unknown. */
static int said_size(const struct rpm_header *sig, const struct rpm_header *h, enum codec_kind codec,
		     uint64_t *ret, struct err *err)
{
	uint64_t n, header_size = h->end - h->off;

	if (first_int(h, codec == CODEC_NONE ? TAG_PAYLOADSIZEALT : TAG_PAYLOADSIZE, ret, err) < 0)
		return -1;
	if (*ret)
		return 0;
	/* The signature's size covers header and payload. */
	if (first_int(sig, SIG_LONGSIZE, &n, err) < 0 || (!n && first_int(sig, SIG_SIZE, &n, err) < 0))
		return -1;
	*ret = n > header_size ? n - header_size : 0;
	return 0;
}

static int find_payload(struct source *src, const struct rpm_header *sig, const struct rpm_header *h,
			struct pkg_payload *ret, struct err *err)
{
	struct str format, compressor;
	uint64_t size, said;
	enum codec_kind codec, named;

	if (rpm_header_text(h, TAG_PAYLOADFORMAT, &format, err) < 0 ||
	    rpm_header_text(h, TAG_PAYLOADCOMPRESSOR, &compressor, err) < 0)
		return -1;
	/* Others are delta packages, and formats that never came into use. */
	if (format.size && !str_eq(format, STR("cpio")))
		return err_set(err, ERR_INVALID, "unsupported payload format \"%.*s\"",
			       (int)MIN(format.size, (size_t)32), format.p);
	size = src->size - h->end;
	if (codec_detect_at(src, h->end, SOURCE_SEQUENTIAL, &codec, err) < 0)
		return -1;
	named = codec_by_name(compressor);
	/* .lzma is no more than a guess, unless the header confirms it. */
	if (codec == CODEC_LZMA || codec == CODEC_NONE)
		codec = named == CODEC_LZMA ? CODEC_LZMA : CODEC_NONE;
	if (said_size(sig, h, codec, &said, err) < 0)
		return -1;
	if (said > size)
		return err_set(err, ERR_INVALID,
			       "the payload has %llu bytes, but the file ends after %llu of them",
			       (unsigned long long)said, (unsigned long long)size);
	*ret = (struct pkg_payload){ codec, h->end, said ? said : size, PKG_FORMAT_CPIO };
	return 0;
}

/*
 * A digest of another kind, or a malformed one, is ignored: then the payload has no digest. Packages of v6 do not name
 * the kind: there the tag is of SHA-256 by definition (PAYLOADSHA256).
 */
static int read_digest(const struct rpm_header *h, struct arena *a, struct bytes *ret, struct err *err)
{
	uint8_t digest[SHA256_SIZE];
	struct str hex;
	uint64_t kind;
	size_t n;

	if (first_int(h, TAG_PAYLOADDIGESTALGO, &kind, err) < 0 ||
	    rpm_header_text(h, TAG_PAYLOADDIGEST, &hex, err) < 0)
		return -1;
	if ((kind == DIGEST_SHA256 || !kind) && hex_decode(hex, true, digest, sizeof(digest), &n) &&
	    n == sizeof(digest))
		*ret = arena_bytes(a, bytes_of(digest, sizeof(digest)));
	return 0;
}

int rpm_open(struct source *src, struct arena *a, struct pkg_info *ret, struct err *err)
{
	struct pkg_info info = { .kind = PKG_RPM };
	struct rpm_header sig, header;

	if (rpm_read_headers(src, a, &sig, &header, err) < 0)
		return -1;
	if (rpm_read_names(&header, a, &info, err) < 0 || rpm_files_read(&header, a, &info, err) < 0 ||
	    find_payload(src, &sig, &header, &info.payload, err) < 0 ||
	    read_digest(&header, a, &info.payload_sha256, err) < 0)
		return err_in(err, "header");
	*ret = info;
	return 0;
}
