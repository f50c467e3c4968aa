/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpio: newc ("070701") and crc ("070702") with hexadecimal text, odc ("070707") with octal text, the old
 * binary format in both byte orders; and rpm's stripped headers ("07070X"), which have only a file's index in
 * the rpm header.
 *
 * The names of a hard-linked file share its inode number; newc stores the content with the last of them. The
 * reader returns the name that carries the content first, as a file, and then the others, as hard links to
 * it.
 */
#include "pkg/internal.h"

#include <stdlib.h>

#define TRAILER STR("TRAILER!!!")
/* Limit of names that wait for their content, all together; more is ERR_LIMIT. */
#define WAITING_MAX MIB(64)

struct waiting_name {
	struct waiting_name *next;
	uint32_t mode;
	int64_t mtime;
	struct str name; /* stored after the struct */
};

/* The names of one inode. */
struct inode_group {
	struct inode_group *next;
	bool has_content;
	struct str content_name; /* on the heap */
	struct waiting_name *first, **last;
};

struct cpio_reader {
	struct pkg_reader r;
	uint64_t left; /* content not delivered yet */
	unsigned pad;
	bool at_trailer;
	struct buf name, link;
	struct map groups;                /* by device and inode */
	struct inode_group *list, **tail; /* the same in order */
	struct inode_group *emit;         /* its waiting names are returned now */
	struct waiting_name *told;        /* the one returned last: freed by the next call */
	size_t waiting_size;
};

struct cpio_head {
	uint64_t dev, ino, n_links, size, name_size;
	uint32_t mode;
	int64_t mtime;
	unsigned align; /* of name and content */
	unsigned header_size;
};

enum { HEAD_BINARY = 26, HEAD_ODC = 76, HEAD_NEWC = 110, HEAD_STRIPPED = 14, MAGIC_SIZE = 6 };

static bool is_binary(const uint8_t *p)
{
	return (p[0] == 0xc7 && p[1] == 0x71) || (p[0] == 0x71 && p[1] == 0xc7);
}

static bool is_text(const uint8_t *p, const char *last)
{
	return memcmp(p, "07070", 5) == 0 && strchr(last, p[5]) && p[5];
}

bool cpio_detect(struct bytes head)
{
	if (head.size >= HEAD_BINARY && is_binary(head.p)) {
		/* Two bytes are little proof: there must also be a name that ends where the header says. */
		bool big = head.p[0] == 0x71;
		struct cursor c = cursor_at(head, big, 0);
		uint16_t name_size;

		cursor_skip(&c, 20);
		name_size = cursor_u16(&c);
		cursor_skip(&c, 4);
		return name_size > 1 && cursor_left(&c) >= name_size && !memchr(c.p, 0, name_size - 1u) &&
		       c.p[name_size - 1] == 0;
	}
	return head.size >= HEAD_STRIPPED && is_text(head.p, "127X");
}

static bool parse_digits(const uint8_t *p, size_t n, unsigned shift, uint64_t *ret)
{
	uint64_t v = 0;

	for (size_t i = 0; i < n; i++) {
		int d = hex_digit((char)p[i], true);

		if (d < 0 || d >> shift)
			return false;
		v = v << shift | (unsigned)d;
	}
	*ret = v;
	return true;
}

static bool parse_newc(const uint8_t *p, struct cpio_head *h)
{
	uint64_t f[13];

	for (size_t i = 0; i < ARRAY_SIZE(f); i++)
		if (!parse_digits(p + 6 + 8 * i, 8, 4, &f[i]))
			return false;
	*h = (struct cpio_head){
		.ino = f[0],
		.mode = (uint32_t)f[1],
		.n_links = f[4],
		.mtime = (int64_t)f[5],
		.size = f[6],
		.dev = f[7] << 32 | f[8],
		.name_size = f[11],
		.align = 4,
		.header_size = HEAD_NEWC,
	};
	return true;
}

static bool parse_odc(const uint8_t *p, struct cpio_head *h)
{
	static const uint8_t sizes[] = { 6, 6, 6, 6, 6, 6, 6, 11, 6, 11 };
	uint64_t f[ARRAY_SIZE(sizes)];

	p += MAGIC_SIZE;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		if (!parse_digits(p, sizes[i], 3, &f[i]))
			return false;
		p += sizes[i];
	}
	*h = (struct cpio_head){
		.dev = f[0],
		.ino = f[1],
		.mode = (uint32_t)f[2],
		.n_links = f[5],
		.mtime = (int64_t)f[7],
		.name_size = f[8],
		.size = f[9],
		.align = 1,
		.header_size = HEAD_ODC,
	};
	return true;
}

/* 16-bit words; 32-bit values are two of them, the upper one first, in either byte order. */
static void parse_binary(const uint8_t *p, struct cpio_head *h)
{
	struct cursor c = cursor_at(bytes_of(p, HEAD_BINARY), p[0] == 0x71, 0);
	uint32_t w[13];

	for (size_t i = 0; i < ARRAY_SIZE(w); i++)
		w[i] = cursor_u16(&c);
	*h = (struct cpio_head){
		.dev = w[1],
		.ino = w[2],
		.mode = w[3],
		.n_links = w[6],
		.mtime = (int32_t)(w[8] << 16 | w[9]),
		.name_size = w[10],
		.size = w[11] << 16 | w[12],
		.align = 2,
		.header_size = HEAD_BINARY,
	};
}

static unsigned pad_size(uint64_t n, unsigned align)
{
	return (unsigned)(-n & (align - 1));
}

static int cpio_read_name(struct cpio_reader *c, const struct cpio_head *h, struct err *err)
{
	struct buffered_reader *f = &c->r.in;
	size_t n = (size_t)h->name_size;

	if (h->name_size == 0 || h->name_size > PKG_MAX_NAME)
		return err_set(err, ERR_INVALID, "a name of %llu bytes", (unsigned long long)h->name_size);
	c->name.size = 0;
	if (buffered_read(f, buf_reserve(&c->name, n), n, "a member's name", err) < 0)
		return -1;
	c->name.size = n;
	return buffered_skip(f, pad_size(h->header_size + h->name_size, h->align), "a member's name", err);
}

/* rpm's stripped header: the attributes are in the rpm's header. */
static int read_stripped(struct cpio_reader *c, const uint8_t *p, struct cpio_head *h, struct err *err)
{
	const struct pkg_info *info = c->r.info;
	const struct pkg_header_file *file;
	uint64_t i;

	if (!parse_digits(p + MAGIC_SIZE, 8, 4, &i))
		return err_set(err, ERR_INVALID, "not a number in the header");
	if (i >= info->n_files)
		return err_set(err, ERR_INVALID, "file number %llu, but the package's header has %zu",
			       (unsigned long long)i, info->n_files);
	file = &info->files[i];
	*h = (struct cpio_head){
		.ino = file->content,
		.mode = file->mode,
		.n_links = file->n_links,
		.mtime = file->mtime,
		.size = file->content == i ? file->size : 0,
		.align = 4,
		.header_size = HEAD_STRIPPED,
	};
	c->name.size = 0;
	buf_add_str(&c->name, file->path);
	return buffered_skip(&c->r.in, pad_size(HEAD_STRIPPED, 4), "a member's header", err);
}

static int cpio_read_head(struct cpio_reader *c, struct cpio_head *ret, struct err *err)
{
	struct buffered_reader *f = &c->r.in;
	struct bytes magic;
	const uint8_t *p;
	unsigned size;
	bool ok = true;

	if (buffered_peek(f, MAGIC_SIZE, &magic, err) < 0)
		return -1;
	if (magic.size < MAGIC_SIZE)
		return err_set(err, ERR_INVALID, "cpio ends without its trailer");
	if (is_binary(magic.p))
		size = HEAD_BINARY;
	else if (is_text(magic.p, "7"))
		size = HEAD_ODC;
	else if (is_text(magic.p, "12"))
		size = HEAD_NEWC;
	else if (is_text(magic.p, "X"))
		size = HEAD_STRIPPED;
	else
		return err_set(err, ERR_INVALID, "no cpio header");
	if (buffered_block(f, size, "a cpio header", &p, err) < 0)
		return -1;
	if (size == HEAD_STRIPPED)
		return read_stripped(c, p, ret, err);
	if (size == HEAD_BINARY)
		parse_binary(p, ret);
	else
		ok = size == HEAD_ODC ? parse_odc(p, ret) : parse_newc(p, ret);
	if (!ok)
		return err_set(err, ERR_INVALID, "not a number in the header");
	return cpio_read_name(c, ret, err);
}

static struct inode_group *inode_group(struct cpio_reader *c, const struct cpio_head *h)
{
	uint64_t id[2] = { h->dev, h->ino };
	struct bytes key = bytes_of(id, sizeof(id));
	struct inode_group *g = map_get(&c->groups, key);

	if (g)
		return g;
	g = NEW(struct inode_group);
	g->last = &g->first;
	map_put(&c->groups, key, g);
	if (!c->tail)
		c->tail = &c->list;
	*c->tail = g;
	c->tail = &g->next;
	return g;
}

static int waiting_account(struct cpio_reader *c, size_t size, struct err *err)
{
	c->waiting_size += size;
	if (c->waiting_size > WAITING_MAX)
		return err_set(err, ERR_LIMIT, "names of hard links of more than %zu bytes", WAITING_MAX);
	return 0;
}

static int wait_for_content(struct cpio_reader *c, struct inode_group *g, const struct cpio_head *h,
			    struct str name, struct err *err)
{
	struct waiting_name *w;

	if (waiting_account(c, sizeof(*w) + sizeof(*g) + name.size, err) < 0)
		return -1;
	w = mem_alloc(sizeof(*w) + name.size);
	*w = (struct waiting_name){ .mode = h->mode,
				    .mtime = h->mtime,
				    .name = { (char *)(w + 1), name.size } };
	if (name.size)
		memcpy(w + 1, name.p, name.size);
	*g->last = w;
	g->last = &w->next;
	return 0;
}

static void link_member(const struct inode_group *g, uint32_t mode, int64_t mtime, struct str name,
			struct raw_member *ret)
{
	*ret = (struct raw_member){
		.name = name,
		.link = g->content_name,
		.type = g->has_content ? PKG_HARDLINK : PKG_FILE,
		.mode = mode,
		.mtime = mtime,
		.off = PKG_NO_OFF,
	};
}

/* The next of the names that waited for the content that was just returned; false: none is left. */
static bool waiting_next(struct cpio_reader *c, struct raw_member *ret)
{
	free(TAKE(c->told));
	while (c->emit && !c->emit->first)
		/* At the end of the archive go through all groups, else only this one. */
		c->emit = c->at_trailer ? c->emit->next : NULL;
	if (!c->emit)
		return false;
	c->told = c->emit->first;
	c->emit->first = c->told->next;
	if (!c->emit->first)
		c->emit->last = &c->emit->first;
	link_member(c->emit, c->told->mode, c->told->mtime, c->told->name, ret);
	c->waiting_size -= MIN(c->waiting_size, sizeof(*c->told) + c->told->name.size);
	return true;
}

/* A regular file with several names. 0: returned in @ret; 1: it waits. */
static int linked_file(struct cpio_reader *c, const struct cpio_head *h, struct raw_member *m,
		       struct err *err)
{
	struct inode_group *g = inode_group(c, h);

	if (h->size == 0 && g->has_content) {
		link_member(g, h->mode, h->mtime, m->name, m);
		return 0;
	}
	if (h->size == 0)
		return wait_for_content(c, g, h, m->name, err) < 0 ? -1 : 1;
	/* odc stores the content with each name: then each is a file of its own. */
	if (!g->has_content) {
		if (waiting_account(c, sizeof(*g) + m->name.size, err) < 0)
			return -1;
		g->content_name = (struct str){ mem_strndup(m->name.size ? m->name.p : "", m->name.size),
						m->name.size };
		g->has_content = true;
		c->emit = g;
	}
	return 0;
}

static int read_symlink(struct cpio_reader *c, struct raw_member *m, struct err *err)
{
	if (c->left > PKG_MAX_NAME)
		return err_set(err, ERR_LIMIT, "a link of %llu bytes", (unsigned long long)c->left);
	c->link.size = 0;
	if (buffered_read(&c->r.in, buf_reserve(&c->link, (size_t)c->left), (size_t)c->left, "a link", err) <
	    0)
		return -1;
	c->link.size = (size_t)c->left;
	c->left = 0;
	m->link = str_until_nul(buf_str(&c->link));
	return 0;
}

/* 0: returned; 1: it waits; PKG_END. */
static int cpio_read_member(struct cpio_reader *c, struct raw_member *m, struct err *err)
{
	struct cpio_head h;

	if (cpio_read_head(c, &h, err) < 0)
		return -1;
	*m = (struct raw_member){
		.name = str_until_nul(buf_str(&c->name)),
		.mode = h.mode,
		.mtime = h.mtime,
		.off = PKG_NO_OFF,
		.type = PKG_SPECIAL,
	};
	if (h.header_size != HEAD_STRIPPED && str_eq(m->name, TRAILER))
		return PKG_END;
	c->left = h.size;
	c->pad = pad_size(h.size, h.align);
	switch (h.mode & S_IFMT) {
	case S_IFREG:
		m->type = PKG_FILE;
		m->size = h.size;
		if (h.size)
			m->off = c->r.in.off;
		return h.n_links > 1 ? linked_file(c, &h, m, err) : 0;
	case S_IFDIR:
		m->type = PKG_DIR;
		return 0;
	case S_IFLNK:
		m->type = PKG_SYMLINK;
		return read_symlink(c, m, err);
	default:
		return 0;
	}
}

static int cpio_next(struct pkg_reader *r, struct raw_member *ret, struct err *err)
{
	struct cpio_reader *c = (struct cpio_reader *)r;
	uint64_t at;
	int res;

	if (buffered_skip(&r->in, c->left, "the content of a member", err) < 0 ||
	    buffered_skip(&r->in, c->pad, "the padding of a member", err) < 0)
		return -1;
	c->left = c->pad = 0;
	do {
		if (waiting_next(c, ret))
			return 0;
		if (c->at_trailer)
			return PKG_END;
		at = r->in.off;
		res = cpio_read_member(c, ret, err);
		if (res < 0)
			return err_in(err, "cpio header at %llu", (unsigned long long)at);
		if (res == 1 && buffered_skip(&r->in, c->pad, "the padding of a member", err) < 0)
			return -1;
		if (res == PKG_END) {
			/* Names whose content never came are empty files. */
			c->at_trailer = true;
			c->left = c->pad = 0;
			c->emit = c->list;
		}
	} while (res != 0);
	return 0;
}

static int cpio_data(struct pkg_reader *r, struct bytes *ret, struct err *err)
{
	struct cpio_reader *c = (struct cpio_reader *)r;

	*ret = (struct bytes){ 0 };
	if (c->left == 0)
		return 0;
	if (buffered_chunk(&r->in, c->left, ret, err) < 0)
		return -1;
	if (!ret->size)
		return err_set(err, ERR_INVALID, "cpio ends %llu bytes before the end of a member's content",
			       (unsigned long long)c->left);
	c->left -= ret->size;
	return 0;
}

static void cpio_close(struct pkg_reader *r)
{
	struct cpio_reader *c = (struct cpio_reader *)r;

	while (c->list) {
		struct inode_group *g = c->list;

		c->list = g->next;
		while (g->first) {
			struct waiting_name *w = g->first;

			g->first = w->next;
			free(w);
		}
		free((void *)g->content_name.p);
		free(g);
	}
	free(c->told);
	map_done(&c->groups);
	buf_done(&c->name);
	buf_done(&c->link);
}

static const struct reader_ops cpio_ops = { cpio_next, cpio_data, cpio_close };

struct pkg_reader *cpio_reader_new(void)
{
	struct cpio_reader *c = NEW(struct cpio_reader);

	c->r.ops = &cpio_ops;
	return &c->r;
}
