/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection of HTTP/2, from bytes to streams and back.
 *
 * libnghttp2 checks frames, headers and windows. Costs that it does not limit are counted here: a client's frames that cost
 * more than they bring (credit), header blocks without an end, headers that unpack to much.
 */
#include "http/h2.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include "http/request.h"

void h2_conn_touch(struct h2_conn *c)
{
	if (c->touched)
		return;
	c->touched = true;
	c->next_touched = c->thread->touched;
	c->thread->touched = c;
}

/* ---- credit ---- */

void h2_conn_earn(struct h2_conn *c, int64_t credit)
{
	c->credit = MIN(c->credit + credit, H2_CREDIT);
}

bool h2_conn_spend(struct h2_conn *c, int64_t cost)
{
	int64_t now_ms;

	c->credit -= cost;
	if (c->credit >= 0)
		return true;
	/* The clock is read when it matters. */
	now_ms = clock_mono_ms();
	h2_conn_earn(c, MIN(now_ms - c->credit_ms, 60000) * H2_CREDIT_S / 1000);
	c->credit_ms = now_ms;
	if (c->credit >= 0)
		return true;
	counters_refused("http2 flood");
	return false;
}

static int64_t frame_cost(const nghttp2_frame_hd *hd)
{
	switch (hd->type) {
	case NGHTTP2_DATA:
		return !hd->length && !(hd->flags & NGHTTP2_FLAG_END_STREAM);
	case NGHTTP2_RST_STREAM:
		return H2_COST_RESET;
	case NGHTTP2_SETTINGS:
	case NGHTTP2_PING:
		return H2_COST_SLOW;
	default:
		return 1;
	}
}

/* ---- nghttp2's calls ---- */

static struct h2_stream *stream_of(nghttp2_session *session, int32_t id)
{
	return id > 0 ? nghttp2_session_get_stream_user_data(session, id) : NULL;
}

static int h2_on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *arg)
{
	struct h2_conn *c = arg;

	c->n_continuations = hd->type == NGHTTP2_CONTINUATION ? c->n_continuations + 1 : 0;
	if (c->n_continuations > H2_CONTINUATIONS) {
		counters_refused("http2 headers");
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	return h2_conn_spend(c, frame_cost(hd)) ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int h2_on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct h2_conn *c = arg;
	int32_t id = frame->hd.stream_id;
	struct h2_stream *s;
	uint32_t code;

	if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	s = h2_stream_new(c, id, &code);
	if (s)
		nghttp2_session_set_stream_user_data(session, id, s);
	else
		nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, code);
	return 0;
}

static int h2_on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
			size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags, void *arg)
{
	struct h2_stream *s = stream_of(session, frame->hd.stream_id);

	return s ? h2_stream_header(s, (struct str){ (const char *)name, name_size },
				    (struct str){ (const char *)value, value_size })
		 : 0;
}

static int h2_on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct h2_stream *s;
	bool ended = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

	if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
		return 0;
	s = stream_of(session, frame->hd.stream_id);
	if (!s || s->closed)
		return 0;
	if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
		h2_stream_begin(s, ended);
	else if (ended)
		h2_stream_body_end(s);
	return 0;
}

static int h2_on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t size,
		      void *arg)
{
	struct h2_stream *s = stream_of(session, id);

	if (s && !s->closed)
		h2_stream_body(s, (struct bytes){ data, size });
	else
		nghttp2_session_consume(session, id, size);
	return 0;
}

/* The reply is out before the client has sent its body: it need not send the rest (RFC 9113, section 8.1). */
static int h2_on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct h2_stream *s;

	if ((frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) ||
	    !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		return 0;
	s = stream_of(session, frame->hd.stream_id);
	if (s && !s->body_ended)
		h2_stream_reset(s, NGHTTP2_NO_ERROR);
	return 0;
}

static int h2_on_close(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
	struct h2_stream *s = stream_of(session, id);

	if (s) {
		nghttp2_session_set_stream_user_data(session, id, NULL);
		h2_stream_closed(s, code == NGHTTP2_NO_ERROR);
	}
	return 0;
}

/* ---- memory ---- */

/*
 * A session has a buffer of 16 KiB for the frame that it makes. It is empty between frames, so that of an idle connection
 * is given back to the kernel: with thousands of these it is half of their memory. Every other request is libc's.
 */
#define FRAME_BUFFER KIB(16)
#define TRIM_MS      1000 /* idle for so long */

static void *trimmed_malloc(size_t size, void *arg)
{
	return malloc(size);
}

static void *trimmed_calloc(size_t n, size_t size, void *arg)
{
	return calloc(n, size);
}

static void trimmed_free(void *p, void *arg)
{
	struct h2_conn *c = arg;

	if (!p || p != c->frames)
		free(p);
	else
		munmap(TAKE(c->frames), c->frames_size);
}

static void *trimmed_realloc(void *p, size_t size, void *arg)
{
	struct h2_conn *c = arg;
	void *room;

	if (!p && !c->frames && size >= FRAME_BUFFER) {
		room = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (room == MAP_FAILED)
			return NULL;
		c->frames = room;
		c->frames_size = size;
		return room;
	}
	if (!p || p != c->frames)
		return realloc(p, size);
	room = malloc(size);
	if (room) {
		memcpy(room, p, MIN(size, c->frames_size));
		trimmed_free(p, c);
	}
	return room;
}

static void conn_trim(struct h2_conn *c)
{
	if (c->trimmed || c->out.size || !c->frames || nghttp2_session_want_write(c->session))
		return;
	(void)madvise(c->frames, c->frames_size, MADV_DONTNEED);
	c->trimmed = true;
}

/* ---- a connection ---- */

static void session_open(struct h2_conn *c)
{
	const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, H2_STREAMS },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_STREAM_WINDOW },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, H2_HEADERS },
	};
	nghttp2_mem memory = { c, trimmed_malloc, trimmed_free, trimmed_calloc, trimmed_realloc };
	nghttp2_session_callbacks *calls;
	nghttp2_option *option;

	if (nghttp2_session_callbacks_new(&calls) != 0 || nghttp2_option_new(&option) != 0)
		mem_none(1, sizeof(*c));
	nghttp2_session_callbacks_set_on_begin_frame_callback(calls, h2_on_begin_frame);
	nghttp2_session_callbacks_set_on_begin_headers_callback(calls, h2_on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(calls, h2_on_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(calls, h2_on_frame);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, h2_on_data);
	nghttp2_session_callbacks_set_on_frame_send_callback(calls, h2_on_sent);
	nghttp2_session_callbacks_set_on_stream_close_callback(calls, h2_on_close);
	/* A window opens when the receiver has taken the bytes. */
	nghttp2_option_set_no_auto_window_update(option, 1);
	nghttp2_option_set_no_closed_streams(option, 1);
	if (nghttp2_session_server_new3(&c->session, calls, c, option, &memory) != 0)
		mem_none(1, sizeof(*c));
	nghttp2_session_callbacks_del(calls);
	nghttp2_option_del(option);
	nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings, ARRAY_SIZE(settings));
	nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0, H2_WINDOW);
}

struct h2_conn *h2_conn_new(struct h2_thread *t, int fd, const struct sockaddr *addr)
{
	struct h2_conn *c = NEW(struct h2_conn);

	c->thread = t;
	c->fd = fd;
	memcpy(&c->addr, addr,
	       addr->sa_family == AF_INET6  ? sizeof(struct sockaddr_in6)
	       : addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
					    : sizeof(addr->sa_family));
	c->credit = H2_CREDIT;
	c->credit_ms = c->idle_ms = clock_mono_ms();
	c->next = t->first;
	if (c->next)
		c->next->prev = c;
	t->first = c;
	if (fd >= 0)
		slow_add(t->h2->shared->slow, &c->slow, fd, (const struct sockaddr *)&c->addr);
	session_open(c);
	atomic_fetch_add_explicit(&t->h2->shared->n_connections, 1, memory_order_relaxed);
	return c;
}

void h2_conn_fail(struct h2_conn *c, uint32_t code)
{
	c->failed = true;
	nghttp2_session_terminate_session(c->session, code);
}

bool h2_conn_feed(struct h2_conn *c, struct bytes in)
{
	ssize_t n = nghttp2_session_mem_recv(c->session, in.p, in.size);

	if (n == (ssize_t)in.size)
		return true;
	h2_conn_fail(c, n == NGHTTP2_ERR_CALLBACK_FAILURE || n == NGHTTP2_ERR_FLOODED
				? NGHTTP2_ENHANCE_YOUR_CALM
				: NGHTTP2_PROTOCOL_ERROR);
	return false;
}

void h2_conn_make(struct h2_conn *c, size_t max)
{
	size_t start = c->out.size;
	const uint8_t *p;
	ssize_t n;

	while (c->out.size - start < max && (n = nghttp2_session_mem_send(c->session, &p)) > 0)
		buf_add(&c->out, p, (size_t)n);
}

/* Granted while it waits, not while it is made: of most replies the socket takes everything at once. */
bool h2_conn_keep(struct h2_conn *c)
{
	size_t size = c->out.room + (c->frames ? c->frames_size : 0);

	if (size <= c->out_granted)
		return true;
	if (!budget_try(c->thread->h2->shared->opts.memory, BUDGET_REPLY, size - c->out_granted)) {
		if (!c->starved_ms)
			c->starved_ms = clock_mono_ms();
		if (clock_mono_ms() - c->starved_ms < H2_STARVED_MS)
			return true;
		counters_refused("memory");
		return false;
	}
	c->out_granted = size;
	c->starved_ms = 0;
	return true;
}

void h2_conn_drop_out(struct h2_conn *c)
{
	buf_done(&c->out);
	c->out_at = 0;
	c->starved_ms = 0;
	budget_return(c->thread->h2->shared->opts.memory, BUDGET_REPLY, c->out_granted);
	c->out_granted = 0;
}

bool h2_conn_is_over(const struct h2_conn *c)
{
	if (c->failed)
		return !nghttp2_session_want_write(c->session);
	return (c->leaving && !c->n_streams && !nghttp2_session_want_write(c->session)) ||
	       (!nghttp2_session_want_read(c->session) && !nghttp2_session_want_write(c->session));
}

void h2_conn_leave(struct h2_conn *c)
{
	if (c->leaving || c->dead)
		return;
	c->leaving = true;
	nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE,
			      nghttp2_session_get_last_proc_stream_id(c->session), NGHTTP2_NO_ERROR, NULL, 0);
	for (struct h2_stream *s = c->first; s; s = s->next)
		h2_stream_leave(s);
}

void h2_conn_kill(struct h2_conn *c)
{
	if (c->dead)
		return;
	c->dead = true;
	for (struct h2_stream *s = c->first, *next; s; s = next) {
		next = s->next;
		if (!s->closed)
			h2_stream_closed(s, false);
	}
	nghttp2_session_del(TAKE(c->session));
	h2_conn_drop_out(c);
}

void h2_conn_free(struct h2_conn *c)
{
	struct h2_thread *t = c->thread;

	h2_conn_kill(c);
	*(c->prev ? &c->prev->next : &t->first) = c->next;
	if (c->next)
		c->next->prev = c->prev;
	h2_tls_close(c->tls);
	if (c->fd >= 0) {
		slow_del(t->h2->shared->slow, &c->slow);
		close(c->fd);
	}
	atomic_fetch_sub_explicit(&t->h2->shared->n_connections, 1, memory_order_relaxed);
	free(c);
}

void h2_conn_sweep(struct h2_conn *c, int64_t now_ms)
{
	int64_t idle_ms = (int64_t)c->thread->h2->shared->opts.idle_timeout_s * 1000;

	if (c->dead)
		return;
	for (struct h2_stream *s = c->first; s; s = s->next)
		h2_stream_sweep(s, now_ms);
	if (!c->n_streams && now_ms - c->idle_ms >= idle_ms)
		h2_conn_leave(c);
	else if (!c->n_streams && now_ms - c->idle_ms >= TRIM_MS)
		conn_trim(c);
}
