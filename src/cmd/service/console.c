/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The console: events above, one line at the bottom that is written over.
 *
 * Events that can come in floods are summed up: pushes until none came for a while, failed files after the
 * first few.
 */
#include "cmd/service/console.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define FAILURES_SHOWN 5u
#define PUSHES_END_MS  1500 /* without a push: then those before are reported */
#define POLL_MS        1000 /* of profiles and other servers */

struct console {
	pthread_mutex_t lock;
	struct console_sources from; /* of the ticking thread */
	bool scanned;                /* the first scan is over */
	int64_t polled_ms;
	uint64_t breakers_epoch, n_profiles;
	struct map services; /* names of those whose profiles are known; of the ticking thread */
	struct map broken;   /* URLs of the servers whose breakers are open */
	/* under the lock */
	struct buf bottom; /* the line at the bottom; empty: none */
	unsigned n_failures;
	unsigned n_pushed; /* since the last report */
	uint64_t pushed_bytes;
	int64_t pushed_ms;
	char *pushed; /* name and kind of the last one */
};

/* ---- lines ---- */

/* Print one line above the one at the bottom. Under the lock. */
static void print_above(struct console *c, const char *area, const char *text)
{
	if (c->bottom.size)
		progress_clear();
	fprintf(stderr, "lode: ");
	if (area)
		fprintf(stderr, "%s: ", area);
	print_text(stderr, str_of(text));
	putc('\n', stderr);
	if (c->bottom.size)
		progress_show(&c->bottom);
}

/* Takes @text. */
static void print_event(struct console *c, char *text)
{
	pthread_mutex_lock(&c->lock);
	print_above(c, NULL, text);
	pthread_mutex_unlock(&c->lock);
	free(text);
}

/* Takes the content of @line. */
static void set_bottom(struct console *c, struct buf *line)
{
	pthread_mutex_lock(&c->lock);
	if (!str_eq(buf_str(line), buf_str(&c->bottom))) {
		struct buf before = c->bottom;

		c->bottom = *line;
		*line = before;
		progress_show(&c->bottom);
	}
	pthread_mutex_unlock(&c->lock);
}

static void clear_bottom(struct console *c)
{
	pthread_mutex_lock(&c->lock);
	c->bottom.size = 0;
	progress_clear();
	pthread_mutex_unlock(&c->lock);
}

/* The log's sink. */
static void show_log_line(void *arg, enum log_level level, const char *area, const char *text)
{
	struct console *c = arg;
	bool is_scan = strcmp(area, "scan") == 0;

	if (level > LOG_WARN)
		return;
	pthread_mutex_lock(&c->lock);
	if (!is_scan || c->n_failures++ < FAILURES_SHOWN)
		print_above(c, area, text);
	else if (c->n_failures == FAILURES_SHOWN + 1)
		print_above(c, area, "more files failed; lode stat lists them all, with reasons");
	pthread_mutex_unlock(&c->lock);
}

/* ---- the scan ---- */

static void show_progress(struct console *c, const struct scan_progress *p)
{
	AUTO(buf_done) struct buf line = { 0 };

	scan_progress_line(p, &line);
	set_bottom(c, &line);
}

static void show_where(struct console *c)
{
	AUTO(buf_done) struct buf line = { 0 };

	if (c->from.url)
		buf_printf(&line, "lode: look at %s/ (Ctrl-C stops the service)", c->from.url);
	set_bottom(c, &line);
}

static void add_count(struct buf *text, uint64_t n, const char *what)
{
	buf_printf(text, "%llu %s%s", (unsigned long long)n, what, n == 1 ? "" : "s");
}

static void report_scan(struct console *c, const struct scan_progress *p)
{
	double took_s = (double)(clock_mono_ms() - p->started_mono_ms) / 1000.0;
	uint64_t n_files = p->n_seen - MIN(p->n_packages, p->n_seen);
	AUTO(buf_done) struct buf text = { 0 };
	char size[32];

	if (p->passive) {
		buf_printf(&text, "--passive: the index is served as it is, nothing is scanned");
	} else if (!p->n_packages && !p->n_files_done) {
		buf_printf(&text, "the first scan is finished: it found no ELF file and no package");
	} else {
		buf_printf(&text, "the first scan is finished: ");
		if (p->n_packages) {
			add_count(&text, p->n_packages, "package");
			buf_printf(&text, " (%s)%s", size_text(p->bytes_total, size), n_files ? " and " : "");
		}
		if (n_files)
			add_count(&text, n_files, p->n_packages ? "other file" : "file");
		buf_printf(&text, " in %.1f s", took_s);
		if (p->n_failed)
			buf_printf(&text, "; %llu failed, lode stat lists them",
				   (unsigned long long)p->n_failed);
	}
	print_event(c, mem_strdup(buf_cstr(&text)));
}

static void follow_scan(struct console *c)
{
	struct scan_progress p;

	if (c->scanned)
		return;
	scan_progress(c->from.scan, &p);
	c->scanned = p.passive || scan_wait_idle(c->from.scan, 0);
	if (!c->scanned) {
		show_progress(c, &p);
		return;
	}
	scan_progress(c->from.scan, &p);
	clear_bottom(c);
	report_scan(c, &p);
	show_where(c);
}

/* ---- pushes ---- */

void console_pushed(struct console *c, const struct store_key *key, const struct store_meta *meta)
{
	char id[BUILD_ID_HEX_SIZE];

	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->n_pushed++;
	c->pushed_bytes += meta->size;
	c->pushed_ms = clock_mono_ms();
	free(c->pushed);
	c->pushed = meta->file.size
			    ? mem_printf("%s of " STR_FMT, store_kind_name(key->kind), STR_ARG(meta->file))
			    : mem_printf("%s of build ID %s", store_kind_name(key->kind),
					 build_id_hex(&key->id, id));
	pthread_mutex_unlock(&c->lock);
}

static void report_pushes(struct console *c, int64_t now_ms)
{
	AUTO(mem_freep) char *text = NULL;
	char size[32];

	pthread_mutex_lock(&c->lock);
	if (c->n_pushed && now_ms - c->pushed_ms >= PUSHES_END_MS) {
		size_text(c->pushed_bytes, size);
		text = c->n_pushed == 1 ? mem_printf("pushed: %s, %s", c->pushed, size)
					: mem_printf("pushed: %u files, %s", c->n_pushed, size);
		print_above(c, NULL, text);
		c->n_pushed = 0;
		c->pushed_bytes = 0;
	}
	pthread_mutex_unlock(&c->lock);
}

/* ---- profiles ---- */

static struct profilestore_list *service_names(struct profilestore *profiles)
{
	const struct profilestore_range all = { .to_ms = INT64_MAX };
	struct profilestore_list *list = NULL;
	struct err ignored = { 0 };

	return profilestore_label_values(profiles, &all, STR("service"), &list, &ignored) < 0 ? NULL : list;
}

/* Report, unless not @shown, services that were not there before. */
static void follow_services(struct console *c, bool shown)
{
	struct profilestore_stats stats;
	struct profilestore_list *list;

	if (!c->from.profiles)
		return;
	profilestore_stats(c->from.profiles, &stats);
	if (stats.n_profiles == c->n_profiles)
		return;
	c->n_profiles = stats.n_profiles;
	list = service_names(c->from.profiles);
	for (size_t i = 0; list && i < list->n; i++) {
		struct str name = list->v[i];

		if (!map_put(&c->services, bytes_of(name.p, name.size), c) && shown)
			print_event(c, mem_printf("first profile of service " STR_FMT, STR_ARG(name)));
	}
	free(list);
}

/* ---- other servers ---- */

static void follow_server(void *arg, const struct net_server_state *s)
{
	struct console *c = arg;
	struct bytes key = bytes_of(s->url, strlen(s->url));
	bool was_open = map_get(&c->broken, key) != NULL;

	if (s->open == was_open)
		return;
	if (s->open) {
		map_put(&c->broken, key, c);
		print_event(c, mem_printf("%s is not asked for %lld s: %s", s->url, (long long)s->again_s,
					  s->message));
	} else {
		map_del(&c->broken, key);
		print_event(c, mem_printf("%s is asked again", s->url));
	}
}

static void follow_servers(struct console *c)
{
	uint64_t epoch;

	if (!c->from.net)
		return;
	epoch = net_breakers_epoch(c->from.net);
	if (epoch == c->breakers_epoch)
		return;
	c->breakers_epoch = epoch;
	net_each_server(c->from.net, follow_server, c);
}

/* ---- */

void console_stopping(struct console *c)
{
	AUTO(buf_done) struct buf line = { 0 };

	if (!c)
		return;
	buf_printf(&line, "lode: stopping");
	set_bottom(c, &line);
}

struct console *console_new(bool verbose)
{
	struct console *c;

	if (verbose || !isatty(STDERR_FILENO))
		return NULL;
	c = NEW(struct console);
	pthread_mutex_init(&c->lock, NULL);
	log_set_sink(show_log_line, c);
	return c;
}

void console_started(struct console *c, const struct console_sources *from)
{
	if (!c)
		return;
	c->from = *from;
	if (from->net)
		c->breakers_epoch = net_breakers_epoch(from->net);
	follow_services(c, false);
	console_tick(c);
}

void console_tick(struct console *c)
{
	int64_t now_ms = clock_mono_ms();

	if (!c)
		return;
	follow_scan(c);
	report_pushes(c, now_ms);
	if (now_ms - c->polled_ms < POLL_MS)
		return;
	c->polled_ms = now_ms;
	follow_services(c, true);
	follow_servers(c);
}

void console_free(struct console *c)
{
	if (!c)
		return;
	log_set_sink(NULL, NULL);
	if (c->bottom.size)
		fputc('\n', stderr);
	buf_done(&c->bottom);
	map_done(&c->services);
	map_done(&c->broken);
	free(c->pushed);
	pthread_mutex_destroy(&c->lock);
	free(c);
}
