/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tar: v7, ustar, pax, and GNU's with its long names, base-256 numbers and sparse files.
 *
 * Headers of 512 bytes, each followed by content padded to 512. Extended headers precede the header that they
 * describe. A block of zeros is the end; like GNU tar, the reader accepts a payload that ends where a header
 * would start without one.
 */
#include "pkg/internal.h"

#include <stdlib.h>

#define BLOCK 512
/* One pax header: names and times are small, attributes (xattr, ACL) may be some 100 KiB. */
#define PAX_MAX MIB(4)

/* Offsets of the header's fields (POSIX ustar; GNU's own names for its use of `prefix`). */
enum {
	NAME = 0,
	MODE = 100,
	SIZE = 124,
	MTIME = 136,
	CHECKSUM = 148,
	TYPE = 156,
	LINKNAME = 157,
	MAGIC = 257,
	PREFIX = 345,
	GNU_SPARSE = 386, /* 4 pairs of 12 digits */
	GNU_EXTENDED = 482,
	GNU_REAL_SIZE = 483,
	/* a block of more sparse parts */
	EXT_N_PARTS = 21,
	EXT_EXTENDED = 504,
};

enum dialect { V7, USTAR, GNU };

struct tar_reader {
	struct pkg_reader r;
	uint64_t left; /* stored content of this member, not delivered yet */
	uint64_t pad;  /* padding after it */
	bool sparse_now;
	bool has_long_name, has_long_link;
	bool pax_member;       /* an extended header precedes this member */
	uint8_t header[BLOCK]; /* a copy of this member's header: later reads invalidate the lent block,
			          and the link name is in it */
	struct buf name, long_name, long_link, body;
	struct pax global, local;
	struct sparse sparse;
};

/* Content of a hole. */
static const uint8_t zeros[KIB(64)];

static enum dialect dialect_of(const uint8_t *h)
{
	if (memcmp(h + MAGIC, "ustar ", 6) == 0)
		return GNU;
	return memcmp(h + MAGIC, "ustar", 5) == 0 ? USTAR : V7;
}

/*
 * Octal text, blanks around it; or base-256, marked by the top bit, of any size and negative with a leading
 * 0xff. @ret is the value as two's complement.
 */
static bool parse_number(const uint8_t *p, size_t n, int64_t *ret)
{
	bool negative = false;
	uint64_t v = 0;
	size_t i = 0;

	if (p[0] & 0x80) {
		uint8_t sign = p[0] & 0x40 ? 0xff : 0;

		/* Bytes beyond 64 bits must be sign. */
		for (i = 0; i + 8 < n; i++)
			if (i == 0 ? (p[0] | 0x80) != (sign | 0x80) : p[i] != sign)
				return false;
		for (; i < n; i++)
			v = v << 8 | (i == 0 ? (p[0] & 0x7f) | (sign & 0x80) : p[i]);
		*ret = (int64_t)v;
		return (*ret < 0) == (sign != 0);
	}
	while (i < n && p[i] == ' ')
		i++;
	if (i < n && p[i] == '-') {
		negative = true;
		i++;
	}
	for (; i < n && p[i] >= '0' && p[i] <= '7'; i++) {
		if (v >> 60)
			return false;
		v = v << 3 | (uint64_t)(p[i] - '0');
	}
	if (i < n && p[i] != ' ' && p[i] != 0)
		return false;
	*ret = negative ? -(int64_t)v : (int64_t)v;
	return true;
}

/* The sum of all bytes, eight at a time, in four sums of 16 bits. They cannot overflow: each adds two bytes
 * 64 times. */
static unsigned sum_of_block(const uint8_t *h)
{
	const uint64_t even = UINT64_C(0x00ff00ff00ff00ff);
	uint64_t sums = 0, v;

	for (int i = 0; i < BLOCK; i += 8) {
		memcpy(&v, h + i, sizeof(v));
		sums += (v & even) + (v >> 8 & even);
	}
	sums = (sums & 0x0000ffff0000ffff) + (sums >> 16 & 0x0000ffff0000ffff);
	return (unsigned)(sums + (sums >> 32));
}

/* The checksum's own bytes count as blanks. */
static bool checksum_fits(const uint8_t *h)
{
	int64_t want, sum = sum_of_block(h) + 8 * ' ';

	if (!parse_number(h + CHECKSUM, 8, &want))
		return false;
	for (int i = CHECKSUM; i < CHECKSUM + 8; i++)
		sum -= h[i];
	if (want == sum)
		return true;
	/* Old writers summed signed chars. */
	for (int i = 0; i < BLOCK; i++)
		if (h[i] & 0x80 && (i < CHECKSUM || i >= CHECKSUM + 8))
			sum -= 256;
	return want == sum;
}

static bool is_zero_block(const uint8_t *h)
{
	return memcmp(h, zeros, BLOCK) == 0;
}

bool tar_detect(struct bytes head)
{
	return head.size >= BLOCK && head.p[NAME] && checksum_fits(head.p);
}

static struct str text_field(const uint8_t *h, size_t off, size_t n)
{
	return str_until_nul((struct str){ (const char *)h + off, n });
}

static int body_into(struct tar_reader *t, uint64_t size, size_t max, struct buf *out, const char *what,
		     struct err *err)
{
	if (size > max)
		return err_set(err, ERR_LIMIT, "%s of %llu bytes", what, (unsigned long long)size);
	out->size = 0;
	if (buffered_read(&t->r.in, buf_reserve(out, (size_t)size), (size_t)size, what, err) < 0)
		return -1;
	out->size = (size_t)size;
	return buffered_skip(&t->r.in, -size & (BLOCK - 1), what, err);
}

/* Read an extended header: 0 when it was one, 1 when @h is a member's own header. */
static int take_extension(struct tar_reader *t, uint8_t type, uint64_t size, struct err *err)
{
	struct sparse none = { 0 };
	int r;

	switch (type) {
	case 'L':
		t->has_long_name = true;
		return body_into(t, size, PKG_MAX_NAME + 1, &t->long_name, "a long name", err);
	case 'K':
		t->has_long_link = true;
		return body_into(t, size, PKG_MAX_NAME + 1, &t->long_link, "a long link name", err);
	case 'x':
	case 'X': /* Solaris */
		t->pax_member = true;
		if (body_into(t, size, PAX_MAX, &t->body, "a pax header", err) < 0)
			return -1;
		return pax_parse(&t->local, &t->sparse, buf_bytes(&t->body), err);
	case 'g':
		if (body_into(t, size, PAX_MAX, &t->body, "a global pax header", err) < 0)
			return -1;
		/* A global header makes no file sparse: its map is discarded. */
		r = pax_parse(&t->global, &none, buf_bytes(&t->body), err);
		sparse_done(&none);
		return r;
	default:
		return 1;
	}
}

static void choose_names(struct tar_reader *t, const uint8_t *h, struct raw_member *m)
{
	struct str prefix = dialect_of(h) == USTAR ? text_field(h, PREFIX, 155) : (struct str){ 0 };
	struct pax *l = &t->local, *g = &t->global;

	if (l->has_sparse_name) {
		m->name = buf_str(&l->sparse_name);
	} else if (l->has_path || (g->has_path && !t->has_long_name)) {
		m->name = buf_str(l->has_path ? &l->path : &g->path);
	} else if (t->has_long_name) {
		m->name = buf_str(&t->long_name);
	} else {
		t->name.size = 0;
		buf_add_str(&t->name, prefix);
		if (prefix.size)
			buf_add_char(&t->name, '/');
		buf_add_str(&t->name, text_field(h, NAME, 100));
		m->name = buf_str(&t->name);
	}
	if (l->has_link || (g->has_link && !t->has_long_link))
		m->link = buf_str(l->has_link ? &l->link : &g->link);
	else if (t->has_long_link)
		m->link = buf_str(&t->long_link);
	else
		m->link = text_field(h, LINKNAME, 100);
	m->name = str_until_nul(m->name);
	m->link = str_until_nul(m->link);
}

/*
 * A hard link's header may state the size of the file without storing it again. POSIX pax archives may store
 * it; in ustar only the next block shows it.
 */
static int hardlink_has_content(struct tar_reader *t, const uint8_t *h, bool *ret, struct err *err)
{
	struct bytes next;

	*ret = t->pax_member;
	if (*ret || dialect_of(h) != USTAR)
		return 0;
	if (buffered_peek(&t->r.in, BLOCK, &next, err) < 0)
		return -1;
	*ret = next.size == BLOCK && !is_zero_block(next.p) && !checksum_fits(next.p);
	return 0;
}

static int read_old_sparse_map(struct tar_reader *t, const uint8_t *h, uint64_t *ret_real_size,
			       struct err *err)
{
	const uint8_t *p = h + GNU_SPARSE;
	bool extended = h[GNU_EXTENDED] != 0;
	int64_t off, size, real_size;
	int n = 4;

	if (!parse_number(h + GNU_REAL_SIZE, 12, &real_size) || real_size < 0)
		return err_set(err, ERR_INVALID, "sparse header with an invalid size");
	for (;;) {
		for (int i = 0; i < n && p[24 * i]; i++) {
			if (!parse_number(p + 24 * i, 12, &off) ||
			    !parse_number(p + 24 * i + 12, 12, &size) || off < 0 || size < 0)
				return err_set(err, ERR_INVALID, "sparse map: not a number");
			if (sparse_add(&t->sparse, (uint64_t)off, (uint64_t)size, err) < 0)
				return -1;
		}
		if (!extended)
			break;
		int r = buffered_block(&t->r.in, BLOCK, "sparse map", &p, err);
		if (r != 0)
			return r < 0 ? r : err_set(err, ERR_INVALID, "sparse map ends early");
		n = EXT_N_PARTS;
		extended = p[EXT_EXTENDED] != 0;
	}
	*ret_real_size = (uint64_t)real_size;
	return 0;
}

/* Reads the decimal lines of a 1.0 map, which is in the content's first blocks. */
struct map_lines {
	struct tar_reader *t;
	const uint8_t *block;
	size_t i;
};

static int next_line_number(struct map_lines *l, uint64_t *ret, struct err *err)
{
	char digits[24];
	size_t n = 0;

	for (;;) {
		if (!l->block || l->i == BLOCK) {
			if (l->t->left < BLOCK)
				return err_set(err, ERR_INVALID, "sparse map is longer than the member");
			int r = buffered_block(&l->t->r.in, BLOCK, "sparse map", &l->block, err);
			if (r != 0)
				return r < 0 ? r : err_set(err, ERR_INVALID, "sparse map ends early");
			l->t->left -= BLOCK;
			l->i = 0;
		}
		char c = (char)l->block[l->i++];
		if (c == '\n')
			break;
		if (n == sizeof(digits))
			return err_set(err, ERR_INVALID, "sparse map: a number of more than %zu digits", n);
		digits[n++] = c;
	}
	if (!str_to_u64((struct str){ digits, n }, ret))
		return err_set(err, ERR_INVALID, "sparse map: not a number");
	return 0;
}

static int read_sparse_map_1_0(struct tar_reader *t, struct err *err)
{
	struct map_lines l = { t };
	uint64_t n, off, size;

	if (next_line_number(&l, &n, err) < 0)
		return -1;
	if (n > SPARSE_MAX_PARTS)
		return err_set(err, ERR_LIMIT, "sparse map of %llu parts", (unsigned long long)n);
	for (; n; n--) {
		if (next_line_number(&l, &off, err) < 0 || next_line_number(&l, &size, err) < 0 ||
		    sparse_add(&t->sparse, off, size, err) < 0)
			return -1;
	}
	return 0;
}

static int set_up_sparse(struct tar_reader *t, const uint8_t *h, struct raw_member *m, struct err *err)
{
	uint64_t real_size = t->local.sparse_size;
	bool old = h[TYPE] == 'S' && dialect_of(h) == GNU;

	if (!old && !t->local.has_sparse_map && t->local.sparse_major != 1)
		return 0;
	if (old) {
		sparse_reset(&t->sparse);
		if (read_old_sparse_map(t, h, &real_size, err) < 0)
			return -1;
	} else if (t->local.sparse_major > 1 || (t->local.sparse_major == 1 && t->local.sparse_minor > 0)) {
		return err_set(err, ERR_INVALID, "sparse format %llu.%llu is not supported",
			       (unsigned long long)t->local.sparse_major,
			       (unsigned long long)t->local.sparse_minor);
	} else if (!t->local.has_sparse_size) {
		return err_set(err, ERR_INVALID, "sparse member without its expanded size");
	} else if (t->local.sparse_major == 1) {
		sparse_reset(&t->sparse);
		if (read_sparse_map_1_0(t, err) < 0)
			return -1;
	}
	if (sparse_begin(&t->sparse, real_size, t->left, err) < 0)
		return -1;
	m->off = real_size ? t->r.in.off : PKG_NO_OFF;
	m->size = real_size;
	/* Everything is stored: the same as any other file. More may be stored than the file has. */
	if (t->sparse.stored == real_size) {
		t->pad += t->left - real_size;
		t->left = real_size;
		return 0;
	}
	t->sparse_now = m->sparse = true;
	m->off = PKG_NO_OFF;
	return 0;
}

/* Set the type by the header's letter, and whether content follows. */
static int set_type(struct tar_reader *t, const uint8_t *h, struct raw_member *m, struct err *err)
{
	bool has_content = false;

	switch (h[TYPE]) {
	case '1':
		m->type = PKG_HARDLINK;
		if (m->size && hardlink_has_content(t, h, &has_content, err) < 0)
			return -1;
		if (has_content)
			m->type = PKG_FILE;
		break;
	case '2':
		m->type = PKG_SYMLINK;
		break;
	case '5':
		m->type = PKG_DIR;
		break;
	case '3':
		m->type = PKG_SPECIAL;
		m->mode |= S_IFCHR;
		break;
	case '4':
		m->type = PKG_SPECIAL;
		m->mode |= S_IFBLK;
		break;
	case '6':
		m->type = PKG_SPECIAL;
		m->mode |= S_IFIFO;
		break;
	case 'D': /* GNU: a directory and the names in it */
		m->type = PKG_DIR;
		has_content = true;
		break;
	case 'M': /* GNU: goes on from another volume */
	case 'N': /* GNU, old: long names */
	case 'V': /* GNU: volume label */
	case 'A': /* Solaris ACL */
	case 'I': /* Solaris: inode data */
		m->type = PKG_SPECIAL;
		has_content = true;
		break;
	default: /* '0', NUL, '7', 'S', and as POSIX demands, every unknown letter */
		m->type = PKG_FILE;
		has_content = true;
		/* v7 had no letter for directories. */
		if (m->name.size && m->name.p[m->name.size - 1] == '/' && (h[TYPE] == '0' || h[TYPE] == 0))
			m->type = PKG_DIR;
	}
	t->left = has_content ? m->size : 0;
	if (m->type != PKG_FILE)
		m->size = 0;
	return 0;
}

static int tar_read_member(struct tar_reader *t, const uint8_t *block, uint64_t size, struct raw_member *m,
			   struct err *err)
{
	struct pax *l = &t->local, *g = &t->global;
	const uint8_t *h = memcpy(t->header, block, BLOCK);
	int64_t v;

	*m = (struct raw_member){ .size = l->has_size ? l->size : g->has_size ? g->size : size };
	choose_names(t, h, m);
	if (parse_number(h + MODE, 8, &v))
		m->mode = (uint32_t)v & 07777;
	if (l->has_mtime)
		m->mtime = l->mtime;
	else if (g->has_mtime)
		m->mtime = g->mtime;
	else if (parse_number(h + MTIME, 12, &v))
		m->mtime = v;
	if (m->size > INT64_MAX)
		return err_set(err, ERR_INVALID, "a member of %llu bytes", (unsigned long long)m->size);
	if (set_type(t, h, m, err) < 0)
		return -1;
	t->pad = -t->left & (BLOCK - 1);
	m->off = m->type == PKG_FILE && m->size ? t->r.in.off : PKG_NO_OFF;
	if (m->type == PKG_FILE && set_up_sparse(t, h, m, err) < 0)
		return -1;
	return 0;
}

static int tar_next(struct pkg_reader *r, struct raw_member *ret, struct err *err)
{
	struct tar_reader *t = (struct tar_reader *)r;
	const uint8_t *h;
	uint64_t at;
	int64_t size;
	int res;

	if (buffered_skip(&r->in, t->left, "the content of a member", err) < 0 ||
	    buffered_skip(&r->in, t->pad, "the padding of a member", err) < 0)
		return -1;
	t->left = t->pad = 0;
	t->sparse_now = t->pax_member = t->has_long_name = t->has_long_link = false;
	pax_reset(&t->local);
	sparse_reset(&t->sparse);
	for (;;) {
		at = r->in.off;
		res = buffered_block(&r->in, BLOCK, "a tar header", &h, err);
		if (res < 0)
			return res;
		if (res == BUFFERED_END || is_zero_block(h)) {
			if (t->pax_member || t->has_long_name || t->has_long_link)
				return err_set(err, ERR_INVALID, "tar ends after an extended header, at %llu",
					       (unsigned long long)at);
			return PKG_END;
		}
		if (!checksum_fits(h))
			return err_set(err, ERR_INVALID, "no tar header at %llu: its checksum is wrong",
				       (unsigned long long)at);
		if (!parse_number(h + SIZE, 12, &size) || size < 0)
			return err_set(err, ERR_INVALID,
				       "tar header at %llu: its size is negative or not a number",
				       (unsigned long long)at);
		res = take_extension(t, h[TYPE], (uint64_t)size, err);
		if (res == 1)
			res = tar_read_member(t, h, (uint64_t)size, ret, err);
		else if (res == 0)
			continue;
		return res < 0 ? err_in(err, "tar header at %llu", (unsigned long long)at) : 0;
	}
}

static int tar_data(struct pkg_reader *r, struct bytes *ret, struct err *err)
{
	struct tar_reader *t = (struct tar_reader *)r;
	uint64_t n = t->left;
	bool hole = false;

	if (t->sparse_now)
		sparse_at(&t->sparse, &hole, &n);
	if (n == 0) {
		*ret = (struct bytes){ 0 };
		return 0;
	}
	if (hole) {
		*ret = bytes_of(zeros, (size_t)MIN(n, (uint64_t)sizeof(zeros)));
	} else {
		if (buffered_chunk(&r->in, n, ret, err) < 0)
			return -1;
		if (!ret->size)
			return err_set(err, ERR_INVALID,
				       "tar ends %llu bytes before the end of a member's content",
				       (unsigned long long)t->left);
		t->left -= ret->size;
	}
	if (t->sparse_now)
		t->sparse.pos += ret->size;
	return 0;
}

static void tar_close(struct pkg_reader *r)
{
	struct tar_reader *t = (struct tar_reader *)r;

	buf_done(&t->name);
	buf_done(&t->long_name);
	buf_done(&t->long_link);
	buf_done(&t->body);
	pax_done(&t->global);
	pax_done(&t->local);
	sparse_done(&t->sparse);
}

static const struct reader_ops tar_ops = { tar_next, tar_data, tar_close };

struct pkg_reader *tar_reader_new(void)
{
	struct tar_reader *t = NEW(struct tar_reader);

	t->r.ops = &tar_ops;
	return &t->r;
}
