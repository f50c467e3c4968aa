/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call: all requests begin, the network runs until all are done, the callbacks are called, and at the end
 * the cache folder is cleaned for a few milliseconds.
 */
#include <errno.h>
#include <stdlib.h>
#include "client/internal.h"
#include "net/net.h"

#define CLEAN_MS 10

/* ---- progress ---- */

static void sum_running(const struct find *f, struct client_progress *p)
{
	for (size_t i = 0; i < f->n; i++) {
		struct net_progress np;

		if (f->items[i].done)
			continue;
		if (!f->items[i].fetch) {
			p->n_unsized++;
			continue;
		}
		net_fetch_progress(f->items[i].fetch, &np);
		p->n_unsized += !np.size_known;
		p->bytes += np.have;
		p->bytes_expected += np.size_known ? np.size : 0;
		if (np.have && np.server)
			p->url = np.server;
		if (np.reading) {
			p->n_waiting++;
			p->reading = np.reading;
			p->reading_at = np.server;
		}
	}
}

static void find_cancel(struct find *f)
{
	f->cancelled = true;
	for (size_t i = 0; i < f->n; i++)
		if (!f->items[i].done && f->items[i].fetch)
			net_fetch_cancel(f->items[i].fetch);
}

static void find_tick(struct find *f)
{
	struct client_progress p = { .n = f->n,
				     .n_done = f->n_done,
				     .n_found = f->n_found,
				     .bytes = f->done_bytes,
				     .bytes_expected = f->done_bytes,
				     .url = f->last_url };

	if (!f->watch || !f->watch->progress || f->cancelled)
		return;
	sum_running(f, &p);
	if (f->watch->progress(f->watch->arg, &p))
		find_cancel(f);
}

/* ---- the end of an item ---- */

/* Complete the items that waited for this one: with a file here now, they look it up; a failure is theirs
 * too. */
static void item_wake_followers(struct item *it)
{
	struct item *next;

	for (struct item *w = TAKE(it->next); w; w = next) {
		next = TAKE(w->next);
		if (it->result->outcome == CLIENT_FOUND) {
			item_start(w);
			continue;
		}
		w->result->outcome = it->result->outcome;
		w->result->os = it->result->os;
		w->result->err = it->result->err;
		buf_add(&w->result->why, it->result->why.p, it->result->why.size);
		w->done = true;
		find_item_is_done(w);
	}
}

void find_item_is_done(struct item *it)
{
	struct find *f = it->find;
	struct client_result *r = it->result;

	f->n_done++;
	if (r->outcome == CLIENT_FOUND) {
		f->n_found++;
		client_say(f->watch, "found %s", r->path);
	} else {
		client_say(f->watch, "not found %s (err=%d)", strerror(r->os), -r->os);
	}
	item_wake_followers(it);
	if (f->watch && f->watch->done)
		f->watch->done(f->watch->arg, (size_t)(it - f->items), r);
}

/* ---- the call ---- */

void find_open(struct find *f, struct client *c, const struct client_watch *watch)
{
	*f = (struct find){ .client = c, .watch = watch };
	client_env_read(&f->env, c->urls, watch);
	f->n_headers = f->env.n_headers + c->n_headers;
	f->headers = f->n_headers ? NEW_N(const char *, f->n_headers) : NULL;
	for (size_t i = 0; i < f->env.n_headers; i++)
		f->headers[i] = f->env.headers[i];
	for (size_t i = 0; i < c->n_headers; i++)
		f->headers[f->env.n_headers + i] = c->headers[i];
	folder_open(&f->folder, folder_usual(c->cache_path));
	client_say(watch, "checking cache dir %s", f->folder.path);
	if (f->folder.read_only)
		client_say(watch, "%s", f->folder.read_only_why.text);
	/* Even when the folder itself is writable: the subfolder of a build ID may be another user's, or the
	 * folder was full before. */
	(void)!folder_open_spare(&f->spare, f->folder.read_only);
}

void find_close(struct find *f)
{
	client_save_breakers(f->client, &f->folder);
	clean_step(&f->folder, f->added, CLEAN_MS);
	clean_step(&f->spare, 0, CLEAN_MS);
	client_forget_headers(f->client);
	free(f->headers);
	free(f->last_url);
	folder_done(&f->folder);
	folder_done(&f->spare);
	client_env_done(&f->env);
	map_done(&f->leaders);
}

static void find_run(struct find *f)
{
	int64_t next_ms = 0;

	for (size_t i = 0; i < f->n && !f->cancelled; i++) {
		item_start(&f->items[i]);
		/* Looking up thousands of files takes a while too. */
		if (clock_mono_ms() >= next_ms) {
			find_tick(f);
			next_ms = clock_mono_ms() + FIND_TICK_MS;
		}
	}
	while (f->n_done < f->n && f->client->net) {
		size_t left = net_run(f->client->net, MAX(next_ms - clock_mono_ms(), (int64_t)1));

		if (clock_mono_ms() >= next_ms) {
			find_tick(f);
			next_ms = clock_mono_ms() + FIND_TICK_MS;
		}
		if (left == 0)
			break;
	}
	/* Items that were cancelled before they began. */
	for (size_t i = 0; i < f->n; i++) {
		struct item *it = &f->items[i];

		if (it->done)
			continue;
		err_set(&it->result->err, ERR_CANCELLED, "cancelled");
		result_fail(it->result, CLIENT_CANCELLED, ECANCELED);
		it->next = NULL;
		it->done = true;
		find_item_is_done(it);
	}
	find_tick(f);
}

int client_find(struct client *c, const struct client_request *requests, size_t n,
		const struct client_watch *watch, struct client_result *results)
{
	AUTO(mem_freep) struct item *items = n ? mem_realloc(NULL, n, sizeof(*items)) : NULL;
	struct find f;
	bool stopped;

	find_open(&f, c, watch);
	f.items = items;
	f.n = n;
	for (size_t i = 0; i < n; i++) {
		results[i] = (struct client_result){ .fd = -1 };
		items[i] = (struct item){ .find = &f,
					  .request = &requests[i],
					  .result = &results[i],
					  .put.fd = -1,
					  .suspect.fd = -1 };
	}
	find_run(&f);
	for (size_t i = 0; i < n; i++)
		item_done(&items[i]);
	stopped = f.cancelled;
	find_close(&f);
	return stopped ? CLIENT_STOPPED : 0;
}

void client_cut(struct client *c, const struct client_request *request, const struct elf_image *img,
		struct source *src, int64_t mtime, struct client_result *ret)
{
	AUTO(entry_done) struct cache_entry e = { 0 };
	struct cache_hit h = { .fd = -1 };
	struct find f;
	bool cached;
	enum slice s;

	*ret = (struct client_result){ .fd = -1 };
	find_open(&f, c, NULL);
	entry_init(&e, request);
	cached = lookup(&f.folder, &e, &h) == LOOKUP_HIT;
	s = cached ? SLICE_FOUND
		   : slice_of((struct put_folders){ &f.folder, &f.spare }, request,
			      &(struct slice_file){ src, img, mtime }, &h, &ret->err);
	if (s == SLICE_FOUND) {
		ret->outcome = CLIENT_FOUND;
		ret->path = TAKE(h.path);
		ret->size = h.size;
		ret->fd = request->open ? TAKE_FD(h.fd) : -1;
		ret->cached = true;
		f.added += cached ? 0 : h.size;
	} else if (s == SLICE_NONE) {
		err_set(&ret->err, ERR_INVALID, "the file has no such section with contents");
		result_fail(ret, CLIENT_ABSENT, ENOENT);
	} else {
		result_fail(ret, CLIENT_FAILED, ret->err.os ? ret->err.os : EIO);
	}
	hit_done(&h);
	find_close(&f);
}
