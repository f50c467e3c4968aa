/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page: replies made of the files of web/, which are built in or in a folder.
 */
#include "server/status/status.h"

#include <errno.h>
#include <stdlib.h>
#include "server/status/page_files.h"

#define MAX_FILES     96u
#define MAX_FILE_SIZE MIB(4)

/* The page loads everything from this server, and never parses HTML: nothing that it shows can be code. */
#define POLICY                                                                                              \
	"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "     \
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; " \
	"trusted-types 'none'"

struct page {
	struct {
		const char *name; /* "" is "/" */
		struct http_canned canned;
	} files[MAX_FILES];
	size_t n;
};

static const char *page_type(const char *name)
{
	static const struct {
		struct str suffix;
		const char *type;
	} types[] = {
		{ STR(".html"), "text/html; charset=utf-8" },
		{ STR(".js"), "text/javascript; charset=utf-8" },
		{ STR(".css"), "text/css; charset=utf-8" },
		{ STR(".svg"), "image/svg+xml" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (str_ends(str_of(name), types[i].suffix))
			return types[i].type;
	return "application/octet-stream";
}

/* Takes @reply. */
static void page_add(struct page *p, const char *name, unsigned status, size_t size, struct http_reply *reply)
{
	if (p->n == MAX_FILES)
		abort();
	p->files[p->n].name = name;
	p->files[p->n++].canned = (struct http_canned){ status, size, reply };
}

static void page_headers(struct http_reply *r, const char *type)
{
	http_reply_header(r, "Content-Type", type);
	http_reply_header(r, "Cache-Control", "private, no-cache");
	http_reply_header(r, "X-Content-Type-Options", "nosniff");
	http_reply_header(r, "Referrer-Policy", "no-referrer");
}

static int page_add_from_disk(struct page *p, const char *name, const char *path, bool policy,
			      struct err *err)
{
	struct buf b = { 0 };
	struct http_reply *reply;
	int r = file_read(path, MAX_FILE_SIZE, &b, err);

	if (r == FILE_MISSING)
		r = err_os(err, ENOENT, "%s", path);
	if (r == 0) {
		reply = http_reply_copy(b.p ? (const void *)b.p : "", b.size);
		page_headers(reply, page_type(path));
		if (policy)
			http_reply_header(reply, "Content-Security-Policy", POLICY);
		page_add(p, name, 200, b.size, reply);
	}
	buf_done(&b);
	return r;
}

static int page_add_files(struct server *s, struct page *p, struct err *err)
{
	for (const struct embedded *f = page_files; f->name; f++) {
		const char *name = strcmp(f->name, "index.html") == 0 ? "" : f->name;
		struct http_reply *reply;

		if (s->opts.web_dir) {
			AUTO(mem_freep) char *path = mem_printf("%s/%s", s->opts.web_dir, f->name);

			if (page_add_from_disk(p, name, path, true, err) < 0)
				return -1;
			continue;
		}
		reply = http_reply_mem(f->data.p, f->data.size, NULL, NULL);
		page_headers(reply, page_type(f->name));
		http_reply_header(reply, "Content-Security-Policy", POLICY);
		page_add(p, name, 200, f->data.size, reply);
	}
	return 0;
}

int page_new(struct server *s, struct page **ret, struct err *err)
{
	struct page *p = NEW(struct page);
	struct err missing = { 0 };

	/*
	 * The first entry of a name is used. As in elfutils' server, the server starts without a home page
	 * that is missing.
	 */
	if (s->opts.home_redirect) {
		struct http_reply *r = http_reply_copy("", 0);

		http_reply_header(r, "Location", s->opts.home_redirect);
		page_add(p, "", 302, 0, r);
	} else if (s->opts.home_html && page_add_from_disk(p, "", s->opts.home_html, false, &missing) < 0) {
		log_warn("server", "%s", missing.text);
	}
	if (page_add_files(s, p, err) < 0) {
		page_free(p);
		return -1;
	}
	*ret = p;
	return 0;
}

void page_free(struct page *p)
{
	for (size_t i = 0; p && i < p->n; i++)
		http_reply_unref(p->files[i].canned.reply);
	free(p);
}

static const struct http_canned *page_find(const struct page *p, struct str file)
{
	for (size_t i = 0; i < p->n; i++)
		if (str_eq(file, str_of(p->files[i].name)))
			return &p->files[i].canned;
	return NULL;
}

/* "/" has no part; that of "/web/FILE" begins with its slash. */
static const struct http_canned *page_canned(struct server *s, const struct http_match *m)
{
	struct str file = m->parts[0];

	return page_find(s->page, file.size ? (struct str){ file.p + 1, file.size - 1 } : STR(""));
}

static void page_begin(struct request *req)
{
	request_refuse(req, 404, "no such path");
}

const struct http_handler page_get = { .canned = page_canned, .begin = page_begin };
