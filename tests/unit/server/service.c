/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server about itself: health, figures, metadata, its page; connections, limits, addresses.
 */
#include "fault_http.h"
#include "sample.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "stubs.h"

static void health_and_readiness_are_answered(void **state)
{
	struct http_answer a = sample_get("/healthz", NULL);

	assert_int_equal(a.status, 200);
	assert_header(&a, "Cache-Control", "no-store");
	http_answer_done(&a);
	assert_status(&sample, "/readyz", 200);
}

static void scanning(struct server_options *o)
{
	o->scan = STUB_SCAN;
	atomic_store(&stub_is_up, false);
}

static int setup_scanning(void **state)
{
	return sample_setup_with(scanning);
}

static void the_server_is_ready_after_the_first_scan(void **state)
{
	struct http_answer a = sample_get("/readyz", NULL);

	assert_int_equal(a.status, 503);
	assert_non_null(http_answer_header(&a, "Retry-After"));
	http_answer_done(&a);
	assert_status(&sample, "/healthz", 200);
	atomic_store(&stub_is_up, true);
	for (int i = 0; i < 1500; i++) {
		a = sample_get("/readyz", NULL);
		http_answer_done(&a);
		if (a.status == 200)
			return;
		usleep(20000);
	}
	fail();
}

static void metrics_have_both_vocabularies(void **state)
{
	unsigned n = 0;
	struct http_answer a;
	char *text, *line;

	assert_status(&sample, SAMPLE_PATH, 200);
	assert_status(&sample, "/buildid/ffff/debuginfo", 404);
	fixture_wait_for_metric(&sample, "thread_busy{role=\"http-buildid\"}", 0, 0);
	fixture_wait_for_metric(&sample, "thread_busy{role=\"http-metrics\"}", 1, 1);
	/* What a reply adds to last. */
	fixture_wait_for_metric(&sample, "http_responses_total{result=\"error\"}", 1, 1);
	a = sample_get("/metrics", NULL);
	assert_header(&a, "Content-Type", "text/plain; version=0.0.4; charset=utf-8");
	assert_header(&a, "Cache-Control", "no-store");
	text = (char *)buf_cstr(&a.body);
	/* Scripts take the last word of every line with that name. */
	for (line = text; (line = strstr(line, "ready")); line++)
		n++;
	assert_int_equal(n, 1);
	assert_non_null(strstr(text, "\nready 1\n"));
	assert_non_null(
		strstr(text, "http_responses_transfer_bytes_count{code=\"200\",type=\"debuginfo\"} "));
	assert_non_null(
		strstr(text, "http_responses_duration_milliseconds_sum{code=\"404\",type=\"debuginfo\"} "));
	assert_non_null(strstr(text, "http_requests_total{type=\"debuginfo\"} "));
	assert_non_null(strstr(text, "# TYPE lode_http_connections gauge\n"));
	http_answer_done(&a);
}

static void metadata_is_json(void **state)
{
	struct http_answer a = sample_get("/metadata?key=file&value=/usr/bin/x", NULL);

	assert_int_equal(a.status, 200);
	assert_header(&a, "Content-Type", "application/json");
	assert_string_equal(buf_cstr(&a.body),
			    "{\"results\":[{\"type\":\"executable\",\"buildid\":\"" SAMPLE_ID
			    "\",\"file\":\"\\/usr\\/bin\\/x\",\"archive\":\"\\/srv\\/pool\\/x.deb\"}],"
			    "\"complete\":true}");
	http_answer_done(&a);
	a = sample_get("/metadata?key=glob&value=%2Fusr%2F*%2F*", NULL);
	assert_non_null(strstr(buf_cstr(&a.body), "\"results\":[{"));
	http_answer_done(&a);
	a = sample_get("/metadata?key=buildid&value=" SAMPLE_ID "&limit=1", NULL);
	assert_non_null(strstr(buf_cstr(&a.body), "\"complete\":false,\"next\":\"1\"}"));
	http_answer_done(&a);
	a = sample_get("/metadata?key=buildid&value=" SAMPLE_ID "&limit=1&cursor=1", NULL);
	assert_non_null(strstr(buf_cstr(&a.body), "\"complete\":true}"));
	assert_non_null(strstr(buf_cstr(&a.body), "\"type\":\"executable\""));
	http_answer_done(&a);
	a = sample_get("/metadata?key=file&value=nothing", NULL);
	assert_string_equal(buf_cstr(&a.body), "{\"results\":[],\"complete\":true}");
	http_answer_done(&a);
}

static void names_that_are_not_text_become_text_in_json(void **state)
{
	struct bytes want = fixture_put(&sample, RESOLVE_DEBUGINFO, "abab", "", 10, "/\xff\xc3\xa4\"<b>", "");
	struct http_answer a = sample_get("/metadata?key=buildid&value=abab", NULL);

	assert_non_null(strstr(buf_cstr(&a.body), "\"file\":\"\\/\xef\xbf\xbd\xc3\xa4\\\"<b>\""));
	http_answer_done(&a);
	free((void *)want.p);
}

static void redirect(struct server_options *o)
{
	o->home_redirect = "https://example.org/";
}

static int setup_redirect(void **state)
{
	return sample_setup_with(redirect);
}

static void the_home_page_may_be_elsewhere(void **state)
{
	struct http_answer a = sample_get("/", NULL);

	assert_int_equal(a.status, 302);
	assert_header(&a, "Location", "https://example.org/");
	http_answer_done(&a);
}

static struct net *hidden_net;
static struct fault_http *other;
static const char *other_url;

static void hide_clients(struct server_options *o)
{
	const struct fault_rule rule = { .body = bytes_of("{\"results\":[],\"complete\":true}", 30) };
	struct err err = { 0 };

	other = fault_http_new(&rule, 1);
	other_url = fault_http_url(other);
	assert_done(net_new(NULL, &o->net, &err));
	assert_done(net_start_thread(o->net, &err));
	o->upstreams = &other_url;
	o->n_upstreams = 1;
	o->forwarded_ttl_limit = 8;
	o->hide_clients = true;
	hidden_net = o->net;
}

static int setup_hidden(void **state)
{
	return sample_setup_with(hide_clients);
}

static void a_server_that_nobody_chose_learns_nothing_of_clients(void **state)
{
	struct http_answer a = sample_get("/metadata?key=glob&value=/x/*",
					  "X-Forwarded-For: 192.0.2.1\r\n"
					  "Via: 1.1 inner.example\r\n"
					  "User-Agent: gdb/13 of a user\r\n");
	const char *head;

	assert_int_equal(a.status, 200);
	http_answer_done(&a);
	head = fault_http_head(other, 0);
	assert_non_null(strstr(head, "\r\nX-Forwarded-For: unknown, unknown\r\n"));
	assert_non_null(strstr(head, "\r\nVia: 1.1 lode-"));
	assert_null(strstr(head, "192.0.2.1"));
	assert_null(strstr(head, "inner.example"));
	assert_null(strstr(head, "gdb/13"));
	net_free(TAKE(hidden_net));
	fault_http_free(other);
}

static void own_home(struct server_options *o)
{
	static char path[TEST_PATH_SIZE + 10];

	snprintf(path, sizeof(path), "%s/home.html", sample.dir);
	test_file_write(path, "<p>hello", 8);
	o->home_html = path;
}

static int setup_own_home(void **state)
{
	return sample_setup_with(own_home);
}

static void the_home_page_may_be_a_file(void **state)
{
	struct http_answer a = sample_get("/", NULL);

	assert_body(&a, bytes_of("<p>hello", 8));
	http_answer_done(&a);
}

static void missing_home(struct server_options *o)
{
	o->home_html = "/nowhere/home.html";
}

static int setup_missing_home(void **state)
{
	return sample_setup_with(missing_home);
}

static void a_missing_home_page_is_no_reason_not_to_start(void **state)
{
	assert_status(&sample, "/", 200);
}

static void slow_down(struct server_options *o)
{
	o->rate_per_ip = 1;
}

static int setup_rate(void **state)
{
	return sample_setup_with(slow_down);
}

static void too_many_requests_of_one_address_are_429(void **state)
{
	int n_ok = 0, n_refused = 0;

	for (int i = 0; i < 20; i++) {
		struct http_answer a = sample_get(SAMPLE_PATH, NULL);

		if (a.status == 429)
			assert_header(&a, "Retry-After", "5");
		n_ok += a.status == 200;
		n_refused += a.status == 429;
		http_answer_done(&a);
	}
	assert_true(n_ok >= 10 && n_refused >= 5);
}

static void few_connections(struct server_options *o)
{
	o->max_connections = 4;
}

static int setup_few_connections(void **state)
{
	return sample_setup_with(few_connections);
}

static void connections_have_a_limit(void **state)
{
	struct http_client c[12];
	struct http_answer a;
	int n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		http_client_open(&c[i], sample.url);
		http_client_ask(&c[i], "GET", "/healthz", NULL);
		a = http_client_answer(&c[i], false);
		n += a.status == 200;
		http_answer_done(&a);
	}
	/* Each newcomer costs the connection that has been idle longest. */
	assert_int_equal(n, ARRAY_SIZE(c));
	n = 0;
	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		http_client_ask(&c[i], "GET", "/healthz", NULL);
		a = http_client_answer(&c[i], false);
		n += a.status == 200;
		/*
		 * A thread that waits for the processor may count the end of an older one's reply late, but no one comes
		 * after the last.
		 */
		assert_true(a.status == 200 || i + 1 < ARRAY_SIZE(c));
		http_answer_done(&a);
	}
	assert_true(n >= 3 && n <= 4);
	for (size_t i = 0; i < ARRAY_SIZE(c); i++)
		http_client_close(&c[i]);
	/* Closed connections make room. */
	for (int i = 0; i < 1500; i++) {
		a = sample_get("/healthz", NULL);
		http_answer_done(&a);
		if (a.status == 200)
			return;
		usleep(20000);
	}
	fail();
}

static void idle_connections_are_closed(void **state)
{
	struct http_client c;

	http_client_open(&c, sample.url);
	http_client_send(&c, "GET / HTTP/1.1\r\nHos");
	assert_true(http_client_closed(&c));
	http_client_close(&c);
}

/* One byte now and then is neither silence nor a request. */
static void a_request_that_never_ends_is_closed(void **state)
{
	struct http_client c;
	int64_t end_ms = clock_mono_ms() + 30000;

	http_client_open(&c, sample.url);
	http_client_send(&c, "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: ");
	while (send(c.fd, "x", 1, MSG_NOSIGNAL) == 1) {
		assert_true(clock_mono_ms() < end_ms);
		usleep(100000);
	}
	http_client_close(&c);
}

static void urls_name_the_listening_sockets(void **state)
{
	static const struct str two[] = { STR("localhost:0"), STR("127.0.0.1:0") };
	static const struct str bad[] = { STR("127.0.0.1"), STR("127.0.0.1:99999"), STR("::1:80"),
					  STR("[::1:80") };
	struct server_options opts = { .resolver = sample.mem, .listen = two, .n_listen = 2 };
	struct server *s;
	struct err err;
	unsigned n = 0;

	assert_done(server_start(&opts, &s, &err));
	for (const char *const *url = server_urls(s); *url; url++) {
		if (strstr(*url, "127.0.0.1")) {
			struct http_answer a = http_fetch(*url, "GET", "/healthz", NULL);

			assert_int_equal(a.status, 200);
			http_answer_done(&a);
		}
		n++;
	}
	assert_true(n == 2 || n == 3);
	server_stop(s, 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		opts.listen = &bad[i];
		opts.n_listen = 1;
		assert_true(server_start(&opts, &s, &err) < 0);
		assert_non_null(strstr(err.text, "listen on"));
	}
}

static void a_port_in_use_is_reported(void **state)
{
	AUTO(buf_done) struct buf where = { 0 };
	struct server_options opts = { .resolver = sample.mem, .n_listen = 1 };
	struct str addr;
	struct server *s;
	struct err err;

	buf_printf(&where, "%s", sample.url + strlen("http://"));
	addr = buf_str(&where);
	opts.listen = &addr;
	assert_fails(server_start(&opts, &s, &err), ERR_IO, "Address already in use");
}

/* ---- requests that come while the server starts ---- */

#define N_LISTEN 31u

/* A client of its first socket, for as long as the others are opened. */
struct early {
	struct str listen[N_LISTEN];
	char where[TEST_PATH_SIZE];
	pthread_t thread;
	atomic_bool ended;
	_Atomic unsigned n_whole, n_other;
};

static bool ask_early(const struct early *e, const char *path, struct buf *ret)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	AUTO(mem_freep)
	char *ask = mem_printf("GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
	AUTO(fd_close) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ssize_t n = 1;

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", e->where + strlen("unix:"));
	if (connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		return false;
	(void)send(fd, ask, strlen(ask), MSG_NOSIGNAL);
	while (n > 0) {
		uint8_t *p = buf_reserve(ret, KIB(4));

		n = recv(fd, p, KIB(4), 0);
		ret->size += n > 0 ? (size_t)n : 0;
	}
	return true;
}

static void *early_run(void *arg)
{
	struct early *e = arg;

	while (!atomic_load(&e->ended)) {
		AUTO(buf_done) struct buf status = { 0 }, figures = { 0 };

		if (!ask_early(e, "/api/status", &status) || !ask_early(e, "/metrics", &figures)) {
			sched_yield();
			continue;
		}
		if (strstr(buf_cstr(&status), "\"connections\":") &&
		    strstr(buf_cstr(&figures), "\nlode_http_connections "))
			atomic_fetch_add(&e->n_whole, 1);
		else
			atomic_fetch_add(&e->n_other, 1);
	}
	return NULL;
}

static void early_start(struct early *e)
{
	memset(e, 0, sizeof(*e));
	snprintf(e->where, sizeof(e->where), "unix:%.*s/early.sock", (int)sizeof(sample.dir) - 20,
		 sample.dir);
	e->listen[0] = str_of(e->where);
	for (unsigned i = 1; i < N_LISTEN; i++)
		e->listen[i] = STR("127.0.0.1:0");
	assert_int_equal(pthread_create(&e->thread, NULL, early_run, e), 0);
}

static void early_end(struct early *e)
{
	atomic_store(&e->ended, true);
	pthread_join(e->thread, NULL);
}

static void requests_that_come_while_it_starts_are_answered(void **state)
{
	struct server_options opts = { .resolver = sample.mem, .n_listen = N_LISTEN, .http_threads = 4 };
	struct early e;
	struct server *s;
	struct err err;

	early_start(&e);
	opts.listen = e.listen;
	assert_done(server_start(&opts, &s, &err));
	while (!atomic_load(&e.n_whole) && !atomic_load(&e.n_other))
		usleep(1000);
	early_end(&e);
	assert_int_equal(atomic_load(&e.n_other), 0);
	server_stop(s, 2000);
}

static void requests_may_come_before_a_start_fails(void **state)
{
	struct server_options opts = {
		.resolver = sample.mem, .n_listen = N_LISTEN, .n_listen_grpc = 1, .http_threads = 4
	};
	struct str in_use = str_of(sample.url + strlen("http://"));
	struct server *s;
	struct err err;
	struct early e;

	early_start(&e);
	opts.listen = e.listen;
	opts.listen_grpc = &in_use;
	for (unsigned i = 0; i < 20; i++)
		assert_fails(server_start(&opts, &s, &err), ERR_IO, "Address already in use");
	early_end(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		sample_test(health_and_readiness_are_answered, sample_setup),
		sample_test(the_server_is_ready_after_the_first_scan, setup_scanning),
		sample_test(metrics_have_both_vocabularies, sample_setup),
		sample_test(metadata_is_json, sample_setup),
		sample_test(names_that_are_not_text_become_text_in_json, sample_setup),
		sample_test(the_home_page_may_be_elsewhere, setup_redirect),
		sample_test(a_server_that_nobody_chose_learns_nothing_of_clients, setup_hidden),
		sample_test(the_home_page_may_be_a_file, setup_own_home),
		sample_test(a_missing_home_page_is_no_reason_not_to_start, setup_missing_home),
		sample_test(too_many_requests_of_one_address_are_429, setup_rate),
		sample_test(connections_have_a_limit, setup_few_connections),
		sample_test(idle_connections_are_closed, sample_setup_impatient),
		sample_test(a_request_that_never_ends_is_closed, sample_setup_impatient),
		sample_test(urls_name_the_listening_sockets, sample_setup),
		sample_test(a_port_in_use_is_reported, sample_setup),
		sample_test(requests_that_come_while_it_starts_are_answered, sample_setup),
		sample_test(requests_may_come_before_a_start_fails, sample_setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
