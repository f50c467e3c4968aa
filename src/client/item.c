/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request: looked up here, else fetched into a file beside its final name, checked, and renamed.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include "client/internal.h"
#include "net/net.h"

#define NAME_MAX_SIZE 4096u
#define SOURCE_MAX    MIB(256)
#define ARTIFACT_MAX  (UINT64_C(16) << 30)

void item_done(struct item *it)
{
	net_fetch_unref(TAKE(it->fetch));
	put_done(&it->put);
	entry_done(&it->entry);
	hit_done(&it->suspect);
}

static void item_finish(struct item *it)
{
	item_done(it);
	it->done = true;
	find_item_is_done(it);
}

/* For callers of libdebuginfod: ENOEXEC is between the check and lookup. */
static int errno_of(const struct err *err)
{
	return err->os && err->os != ENOEXEC ? err->os : EIO;
}

static void item_finish_as(struct item *it, enum client_outcome outcome, int os)
{
	result_fail(it->result, outcome, os);
	item_finish(it);
}

/* Takes the contents of @h. */
static void item_finish_found(struct item *it, struct cache_hit *h, bool cached)
{
	struct client_result *r = it->result;

	r->outcome = CLIENT_FOUND;
	r->cached = cached;
	r->path = TAKE(h->path);
	r->size = h->size;
	r->fd = it->request->open ? TAKE_FD(h->fd) : -1;
	r->headers = r->headers ? r->headers : TAKE(h->headers);
	r->err = (struct err){ 0 };
	hit_done(h);
	item_finish(it);
}

/* ---- here ---- */

/* Check the cached file. One that fails is fetched again. */
static bool item_believe_hit(struct item *it, struct cache_hit *h)
{
	struct err err = { 0 };

	if (check_whole(it->request, h->fd, h->size, &err) == 0)
		return true;
	result_why(it->result, it->find->watch, "%s: %s: it is fetched again", h->path, err.text);
	it->suspect = *h;
	*h = (struct cache_hit){ .fd = -1 };
	return false;
}

static enum lookup item_lookup(struct item *it, struct cache_hit *h)
{
	struct find *f = it->find;
	enum lookup l = lookup(&f->folder, &it->entry, h);

	/* A file that could not be put into the folder last time is in the spare one. */
	if (l == LOOKUP_MISS && f->spare.path)
		l = lookup(&f->spare, &it->entry, h);
	return l;
}

/* true: the item is done. */
static bool item_start_here(struct item *it)
{
	struct find *f = it->find;
	struct cache_hit h = { .fd = -1 };
	enum lookup l = item_lookup(it, &h);
	struct err err = { 0 };
	enum slice s;

	if (l == LOOKUP_HIT && item_believe_hit(it, &h)) {
		result_why(it->result, f->watch, "%s: found", h.path);
		item_finish_found(it, &h, true);
		return true;
	}
	/* The note does not say which servers were asked. */
	if (l == LOOKUP_ABSENT && !(f->client->ignore_misses && f->env.n_urls)) {
		err_set(&it->result->err, ERR_INVALID,
			"no server has it, by their answers of the last %lld s (%s/" CONTROL_MISS ")",
			(long long)folder_control(&f->folder, CONTROL_MISS, USUAL_MISS_S, NULL),
			f->folder.path);
		result_why(it->result, f->watch, "%s/%s/%s: %s", f->folder.path, it->entry.id,
			   it->entry.names[0], it->result->err.text);
		item_finish_as(it, CLIENT_ABSENT, ENOENT);
		return true;
	}
	result_why(it->result, f->watch, "%s/%s/%s: not there", f->folder.path, it->entry.id,
		   it->entry.names[0]);
	if (it->request->kind != CLIENT_SECTION)
		return false;
	s = slice((struct put_folders){ &f->folder, &f->spare }, it->request, &h, &err);
	if (s == SLICE_UNKNOWN && f->spare.path)
		s = slice((struct put_folders){ &f->spare, NULL }, it->request, &h, &err);
	if (s == SLICE_FOUND) {
		result_why(it->result, f->watch, "%s: cut out of the cached file", h.path);
		f->added += h.size;
		item_finish_found(it, &h, true);
		return true;
	}
	if (s == SLICE_NONE) {
		err_set(&it->result->err, ERR_INVALID,
			"the cached file of this build ID has no such section");
		result_why(it->result, f->watch, "%s", it->result->err.text);
		item_finish_as(it, CLIENT_ABSENT, ENOENT);
		return true;
	}
	if (err.kind != ERR_NONE)
		result_why(it->result, f->watch, "cut out of the cached file: %s", err.text);
	return false;
}

/* ---- from servers ---- */

static int item_on_check(void *arg, const struct net_reply *reply, struct bytes head, bool all,
			 struct err *err)
{
	struct item *it = arg;
	int r = check_head(&it->fetched, head, all, err);

	return r == CHECK_MORE ? NET_MORE : r;
}

static void say_headers(const struct client_watch *w, struct str headers)
{
	while (headers.size) {
		struct str line = str_trim(str_cut(&headers, '\n'));

		if (line.size)
			client_say(w, "header " STR_FMT, STR_ARG(line));
	}
}

static int item_on_begin(void *arg, const struct net_reply *reply, struct err *err)
{
	struct item *it = arg;
	struct find *f = it->find;
	int r;

	client_say(f->watch, "committed to url %s", reply->url);
	say_headers(f->watch, reply->headers);
	if (it->put.fd >= 0)
		return put_restart(&it->put, err);
	r = put_begin(&it->put, (struct put_folders){ &f->folder, &f->spare }, it->entry.id,
		      it->entry.names[0], reply->size_known ? reply->size : 0, err);
	/* A size is only a claim: another server may have a smaller file. */
	return r < 0 && err->os == ENOSPC ? NET_NO_ROOM : r;
}

static int item_on_write(void *arg, struct bytes piece, struct err *err)
{
	struct item *it = arg;

	return put_write(&it->put, piece.p, piece.size, it->put.size, err);
}

static int item_on_verify(void *arg, struct err *err)
{
	struct item *it = arg;

	if (check_whole(&it->fetched, it->put.fd, it->put.size, err) < 0)
		return -1;
	return it->fetched.kind == CLIENT_SECTION
		       ? slice_check(&it->find->folder, &it->fetched, it->put.size, err)
		       : 0;
}

static void item_fetch(struct item *it, enum item_stage stage);

/* The file is here: it is the request, or has the section. */
static void item_fetched(struct item *it)
{
	const struct net_reply *reply = net_fetch_reply(it->fetch);
	AUTO(mem_freep) char *headers = reply ? mem_strndup(reply->headers.p, reply->headers.size) : NULL;
	struct client_result *r = it->result;
	struct find *f = it->find;
	struct cache_hit h = { .fd = -1 };
	struct err err = { 0 };
	enum slice s;

	if (reply) {
		free(r->url);
		r->url = mem_strdup(reply->url);
		free(f->last_url);
		f->last_url = mem_strdup(reply->url);
	}
	if (put_commit(&it->put, &it->entry, reply ? reply->mtime : 0, headers, &h.path, &r->err) < 0) {
		result_why(r, f->watch, "%s", r->err.text);
		item_finish_as(it, CLIENT_FAILED, errno_of(&r->err));
		return;
	}
	if (it->put.moved)
		result_why(r, f->watch, "%s: kept there, since the cache folder cannot take it", h.path);
	else
		f->added += it->put.size;
	f->done_bytes += it->put.size;
	if (it->stage == STAGE_ASKED) {
		h.fd = TAKE_FD(it->put.fd);
		h.size = it->put.size;
		h.headers = TAKE(headers);
		item_finish_found(it, &h, false);
		return;
	}
	hit_done(&h);
	s = slice(it->put.moved ? (struct put_folders){ &f->spare, NULL }
				: (struct put_folders){ &f->folder, &f->spare },
		  it->request, &h, &err);
	if (s == SLICE_FOUND) {
		item_finish_found(it, &h, false);
	} else if (s == SLICE_NONE) {
		err_set(&r->err, ERR_INVALID, "the file of this build ID has no such section");
		item_finish_as(it, CLIENT_ABSENT, ENOENT);
	} else if (it->stage == STAGE_WHOLE_DEBUG) {
		item_fetch(it, STAGE_WHOLE_EXECUTABLE);
	} else {
		r->err = err;
		item_finish_as(it, CLIENT_FAILED, EIO);
	}
}

/* Old servers cannot cut out sections, and report that with various statuses. */
static bool knows_no_sections(struct item *it)
{
	const struct net_note *notes;
	size_t n = net_fetch_notes(it->fetch, &notes);

	if (it->stage != STAGE_ASKED || it->request->kind != CLIENT_SECTION)
		return false;
	for (size_t i = 0; i < n; i++)
		if (notes[i].unasked == NET_WHOLE_ONLY ||
		    (!notes[i].unread && (notes[i].status == 503 || notes[i].status == 501 ||
					  notes[i].status == 400 || notes[i].status == 405)))
			return true;
	return false;
}

static void item_report_notes(struct item *it)
{
	const struct net_note *notes;
	size_t n = net_fetch_notes(it->fetch, &notes);
	bool tried = false;

	for (size_t i = 0; i < n; i++) {
		/* elfutils logs this before each retry, and users search for it. Every try but the first is a
		 * retry. */
		if (!notes[i].missing && notes[i].status != 200)
			for (unsigned k = 0; k < notes[i].n_tries; k++) {
				if (tried)
					client_say(it->find->watch, "Retry failed query");
				tried = true;
			}
		result_why(it->result, it->find->watch, "%s: %s", notes[i].server, notes[i].message);
	}
}

/* A server was not asked since the name of the program is not known: another request may know it. */
static bool lacked_name(struct item *it)
{
	const struct net_note *notes;
	size_t n = net_fetch_notes(it->fetch, &notes);

	for (size_t i = 0; i < n; i++)
		if (notes[i].unasked == NET_NEEDS_NAME)
			return true;
	return false;
}

static void item_missing(struct item *it)
{
	struct client_result *r = it->result;
	bool nameless;

	if (it->stage == STAGE_WHOLE_DEBUG) {
		item_fetch(it, STAGE_WHOLE_EXECUTABLE);
		return;
	}
	/* No server has it, so the cached file may have been put here by hand. It is used as it is, unless it
	 * is an ELF file, which has failed its check. */
	if (it->suspect.fd >= 0 && it->stage == STAGE_ASKED && check_is_not_elf(it->suspect.fd)) {
		result_why(r, it->find->watch, "%s: no server has it; the cached file is used as it is",
			   it->suspect.path);
		item_finish_found(it, &it->suspect, true);
		return;
	}
	nameless = lacked_name(it);
	/* A note counts for whatever servers are asked later: those that the user named for this call say nothing about them. */
	if (it->stage == STAGE_ASKED && it->suspect.fd < 0 && !nameless && !it->find->client->ignore_misses)
		lookup_note_absent(&it->find->folder, &it->entry);
	err_set(&r->err, ERR_INVALID,
		nameless ? "no server has it by its build ID alone; those of ssqp+ need the name of its file"
		: it->find->env.n_urls == 1 ? "the server does not have it"
					    : "no server has it");
	item_finish_as(it, CLIENT_ABSENT, ENOENT);
}

static void item_on_done(void *arg, struct net_fetch *nf, int outcome, const struct err *err)
{
	struct item *it = arg;
	struct client_result *r = it->result;

	/* It may be called before net_fetch_start() has returned. */
	if (!it->fetch)
		it->fetch = net_fetch_ref(nf);
	item_report_notes(it);
	if (it->find->cancelled) {
		err_set(&r->err, ERR_CANCELLED, "cancelled");
		item_finish_as(it, CLIENT_CANCELLED, ECANCELED);
	} else if (outcome == 0) {
		item_fetched(it);
	} else if (outcome && knows_no_sections(it)) {
		result_why(r, it->find->watch, "the whole file is fetched, and the section cut out of it");
		item_fetch(it, STAGE_WHOLE_DEBUG);
	} else if (outcome == NET_MISSING) {
		item_missing(it);
	} else if (outcome == NET_TOO_LARGE) {
		err_set(&r->err, ERR_LIMIT, "larger than %llu bytes (DEBUGINFOD_MAXSIZE)",
			(unsigned long long)it->find->env.max_size);
		result_why(r, it->find->watch, "%s", r->err.text);
		item_finish_as(it, CLIENT_FAILED, EFBIG);
	} else {
		r->err = *err;
		item_finish_as(it, CLIENT_FAILED, errno_of(err));
	}
}

/* false: no server may be asked for a name that leads out of its folder. */
static bool item_url_path(struct buf *b, const struct client_request *w)
{
	char hex[BUILD_ID_HEX_SIZE];

	buf_printf(b, "buildid/%s/%s", build_id_hex(&w->id, hex), client_kind_name(w->kind));
	if (w->kind != CLIENT_SOURCE && w->kind != CLIENT_SECTION)
		return true;
	/* The slash before a source's name is that of an absolute path. */
	buf_add_char(b, '/');
	if (w->kind == CLIENT_SOURCE)
		return net_escape_source(b, str_of(w->name));
	net_escape(b, str_of(w->name), false);
	return net_path_is_inside(buf_str(b));
}

/* The same for servers of other kinds. */
static struct net_file item_file(const struct item *it, char hex[BUILD_ID_HEX_SIZE])
{
	const struct client_request *w = &it->fetched;
	struct net_file f = { NET_FILE_OTHER, .id = str_of(build_id_hex(&w->id, hex)) };

	if (w->kind == CLIENT_DEBUGINFO)
		f.kind = NET_FILE_DEBUGINFO;
	if (w->kind == CLIENT_EXECUTABLE)
		f.kind = NET_FILE_EXECUTABLE;
	/* Of a program that is fetched for a section, the name is that of the section. */
	if (it->request->kind == CLIENT_EXECUTABLE && w->name)
		f.name = path_basename(str_of(w->name));
	return f;
}

static uint64_t item_max_size(const struct item *it)
{
	uint64_t usual = it->fetched.kind == CLIENT_SOURCE ? SOURCE_MAX : ARTIFACT_MAX;

	return it->find->env.max_size && it->find->env.max_size < usual ? it->find->env.max_size : usual;
}

/* 0: no time limit that anybody would reach. */
static unsigned patience_ms(int64_t ms)
{
	return ms > 0 && ms < UINT32_MAX ? (unsigned)ms : UINT32_MAX;
}

/* In the form of struct net_patience, where 0 is the default. */
static unsigned unread_patience_ms(int64_t ms)
{
	return ms < 0 ? UINT32_MAX : (unsigned)MIN(ms, (int64_t)INT32_MAX);
}

static void item_fetch(struct item *it, enum item_stage stage)
{
	static const enum client_kind kinds[] = { 0, CLIENT_DEBUGINFO, CLIENT_EXECUTABLE };
	AUTO(buf_done) struct buf path = { 0 };
	struct find *f = it->find;
	struct net_fetch *handle = NULL;
	struct net_file file;
	char hex[BUILD_ID_HEX_SIZE];
	struct net *net = client_net(f->client, &f->folder, &it->result->err);

	if (!net) {
		item_finish_as(it, CLIENT_FAILED, ENOMEM);
		return;
	}
	/* The state of the last stage. */
	net_fetch_unref(TAKE(it->fetch));
	put_done(&it->put);
	entry_done(&it->entry);
	it->stage = stage;
	it->fetched = *it->request;
	if (stage != STAGE_ASKED)
		it->fetched.kind = kinds[stage];
	entry_init(&it->entry, &it->fetched);
	if (!item_url_path(&path, &it->fetched)) {
		err_set(&it->result->err, ERR_INVALID,
			"no server is asked for a name that leads out of its folder");
		result_why(it->result, f->watch, "%s", it->result->err.text);
		item_finish_as(it, CLIENT_ABSENT, ENOENT);
		return;
	}
	file = item_file(it, hex);
	for (size_t i = 0; i < f->env.n_urls; i++) {
		client_say(f->watch, "init server %zu %s/buildid", i, f->env.urls[i]);
		client_say(f->watch, "url %zu %s/%s", i, f->env.urls[i], buf_cstr(&path));
	}
	net_fetch_start(net,
			&(struct net_request){
				.urls = (const char *const *)f->env.urls,
				.n_urls = f->env.n_urls,
				.path = buf_cstr(&path),
				.file = &file,
				.headers = f->headers,
				.n_headers = f->n_headers,
				.max_size = item_max_size(it),
				.patience = { .silent_ms = patience_ms(f->env.timeout_ms),
					      .deadline_ms = f->env.max_time_ms,
					      .connect_retries = f->env.connect_retries,
					      .unread_ms = unread_patience_ms(f->client->unread_wait_ms),
					      .retries = f->env.retries ? f->env.retries : UINT32_MAX },
				.compressed = true,
				.sink = { it, item_on_check, item_on_begin, item_on_write, item_on_verify,
					  item_on_done },
			},
			&handle);
	/* If it is done already, the handle was stored by on_done, or is that of the next stage. */
	if (it->done || it->fetch)
		net_fetch_unref(handle);
	else
		it->fetch = handle;
}

/* ---- the beginning ---- */

static int check_request(const struct client_request *w, struct err *err)
{
	bool named = w->kind == CLIENT_SOURCE || w->kind == CLIENT_SECTION;

	if (w->id.size == 0)
		return err_set(err, ERR_INVALID, "no build ID");
	if (named && (!w->name || !w->name[0]))
		return err_set(err, ERR_INVALID, "no name of the %s", client_kind_name(w->kind));
	if (named && strlen(w->name) > NAME_MAX_SIZE)
		return err_set(err, ERR_LIMIT, "a name of more than %u bytes", NAME_MAX_SIZE);
	return 0;
}

void item_start(struct item *it)
{
	struct find *f = it->find;
	struct item *leader;
	AUTO(mem_freep) char *key = NULL;

	if (check_request(it->request, &it->result->err) < 0) {
		item_finish_as(it, CLIENT_FAILED, EINVAL);
		return;
	}
	entry_done(&it->entry); /* an item that waited for the same file has one */
	entry_init(&it->entry, it->request);
	key = mem_printf("%s/%s", it->entry.id, it->entry.names[0]);
	leader = map_get(&f->leaders, bytes_of(key, strlen(key)));
	if (leader && !leader->done) {
		it->next = leader->next;
		leader->next = it;
		return;
	}
	if (item_start_here(it))
		return;
	if (f->env.n_urls == 0) {
		client_no_servers(&f->env, it->result);
		result_why(it->result, f->watch, "%s", it->result->err.text);
		item_finish(it);
		return;
	}
	if (f->env.nonsense)
		result_why(it->result, f->watch, "DEBUGINFOD_URLS: %s", f->env.nonsense);
	map_put(&f->leaders, bytes_of(key, strlen(key)), it);
	item_fetch(it, STAGE_ASKED);
}
