/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"
#include "sink.h"

#include <errno.h>

#define SIZE       300000u
#define DEADLINE_S 60

struct bytes sink_artifact(void)
{
	static uint8_t artifact[SIZE];

	if (!artifact[0]) {
		test_fill(artifact, SIZE, 7);
		memcpy(artifact,
		       "\x7f"
		       "ELF",
		       4);
	}
	return bytes_of(artifact, SIZE);
}

struct fault_rule sink_good(void)
{
	return (struct fault_rule){ .body = sink_artifact() };
}

struct net *sink_net(void)
{
	const struct net_options opts = { .breaker_first_ms = 30000 };
	struct net *n;
	struct err err = { 0 };

	assert_done(net_new(&opts, &n, &err));
	return n;
}

static int check(void *arg, const struct net_reply *reply, struct bytes head, bool all, struct err *err)
{
	struct sink *s = arg;

	if (s->html_is_fine)
		return 0;
	if (head.size < 4 && !all)
		return NET_MORE;
	if (head.size < 4 || memcmp(head.p,
				    "\x7f"
				    "ELF",
				    4) != 0)
		return err_set(err, ERR_INVALID, "it is no ELF file");
	return 0;
}

static int begin(void *arg, const struct net_reply *reply, struct err *err)
{
	struct sink *s = arg;

	if (s->n_begun && s->no_again)
		return NET_REFUSED;
	if (s->no_room) {
		s->no_room = false;
		(void)err_os(err, ENOSPC, "the disk");
		return NET_NO_ROOM;
	}
	s->n_begun++;
	s->got.size = 0;
	return 0;
}

static int write_piece(void *arg, struct bytes piece, struct err *err)
{
	struct sink *s = arg;

	if (s->fail_at && s->got.size + piece.size > s->fail_at)
		return err_set(err, ERR_IO, "disk full");
	buf_add(&s->got, piece.p, piece.size);
	if (s->cancel_at && s->got.size > s->cancel_at)
		net_fetch_cancel(s->fetch);
	return 0;
}

static int verify(void *arg, struct err *err)
{
	struct sink *s = arg;

	if (s->want.size && !bytes_eq(s->want, buf_bytes(&s->got)))
		return err_set(err, ERR_INVALID, "it is another file");
	return 0;
}

static void done(void *arg, struct net_fetch *f, int outcome, const struct err *err)
{
	struct sink *s = arg;

	s->n_done++;
	s->outcome = outcome;
	if (err)
		s->err = *err;
}

static void start(struct net *n, struct sink *s, const struct net_request *like)
{
	struct net_request req = *like;

	req.sink = (struct net_sink){ s, check, begin, write_piece, verify, done };
	net_fetch_start(n, &req, &s->fetch);
}

void sink_start(struct net *n, struct sink *s, const struct net_patience *p, const char *const *urls,
		size_t n_urls)
{
	const struct net_request req = {
		.urls = urls,
		.n_urls = n_urls,
		.path = "buildid/ab/debuginfo",
		.patience = p ? *p : (struct net_patience){ 0 },
	};

	start(n, s, &req);
}

void sink_wait(struct net *n, struct sink *s)
{
	int64_t end_ms = clock_mono_ms() + DEADLINE_S * 1000;

	while (!s->n_done) {
		if (clock_mono_ms() > end_ms)
			fail_msg("it does not end");
		net_run(n, 1000);
	}
	assert_int_equal(s->n_done, 1);
}

void sink_fetch(struct net *n, struct sink *s, const struct net_patience *p, const char *const *urls,
		size_t n_urls)
{
	sink_start(n, s, p, urls, n_urls);
	sink_wait(n, s);
}

void sink_custom(struct net *n, struct sink *s, const struct net_request *like)
{
	start(n, s, like);
	sink_wait(n, s);
}

void sink_done(struct sink *s)
{
	net_fetch_unref(s->fetch);
	buf_done(&s->got);
	*s = (struct sink){ 0 };
}

const char *sink_said(const struct sink *s, const char *url)
{
	const struct net_note *notes;
	size_t n = net_fetch_notes(s->fetch, &notes);

	for (size_t i = 0; i < n; i++)
		if (strcmp(notes[i].server, url) == 0)
			return notes[i].message;
	return "";
}

struct pair pair_of(struct fault_rule a, struct fault_rule b)
{
	struct pair p = { sink_net(), fault_http_new(&a, 1), fault_http_new(&b, 1), { 0 } };

	p.urls[0] = fault_http_url(p.a);
	p.urls[1] = fault_http_url(p.b);
	return p;
}

void pair_done(struct pair *p, struct sink *s)
{
	sink_done(s);
	net_free(p->n);
	fault_http_free(p->a);
	fault_http_free(p->b);
}
