/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads: at once, in small chunks, interrupted, and while the server stops. */
#include "fixture.h"

#include <pthread.h>
#include <sys/socket.h>
#include "elf_writer.h"
#include "base/sha256.h"

#define ID   "00112233445566778899aabbccddeeff00112233"
#define SIZE (3 * CODEC_FRAME_SIZE + 12345)

static struct server_fixture f;
static struct store *st;
static struct resolver *from_store;
static char store_dir[TEST_PATH_SIZE + 8];
static struct buf elf;

static int set_up(void **state)
{
	struct err err = { 0 };

	fixture_init(&f);
	snprintf(store_dir, sizeof(store_dir), "%s/store", f.dir);
	assert_done(store_open(store_dir, &(struct store_options){ .create = true, .object_list = true }, &st,
			       &err));
	from_store = resolve_store_new(st);
	f.opts.resolver = from_store;
	f.opts.store = st;
	fixture_start(&f);
	elf_writer_debug_file(&elf, ET_DYN, ID, SIZE);
	return 0;
}

static int tear_down(void **state)
{
	fixture_stop(&f);
	resolve_close(from_store);
	store_close(st);
	fixture_done(&f);
	buf_done(&elf);
	return 0;
}

static const char *sum_of(struct bytes b, char out[65])
{
	uint8_t sum[32];
	struct err err = { 0 };

	assert_done(sha256_load(&err));
	sha256_of(b, sum);
	return hex_encode(bytes_of(sum, sizeof(sum)), out);
}

/*
 * Send [@first, @end) of the file in chunks; the connection stays open. @cut: send only so many bytes, once the
 * server has accepted the request: it cannot tell who owns a connection that is closed already.
 */
static void send_part(struct http_client *c, size_t first, size_t end, size_t cut, size_t piece)
{
	bool is_cut = cut < end - first;
	char head[512], sum[65], reply[256];

	snprintf(head, sizeof(head),
		 "PUT /buildid/" ID "/debuginfo HTTP/1.1\r\nHost: localhost\r\nX-LODE-SHA256: "
		 "%s\r\nContent-Range: bytes %zu-%zu/%zu\r\n"
		 "Content-Length: %zu\r\n%s\r\n",
		 sum_of(buf_bytes(&elf), sum), first, end - 1, elf.size, end - first,
		 is_cut ? "Expect: 100-continue\r\n" : "");
	http_client_open(c, f.url);
	http_client_send(c, head);
	if (is_cut)
		assert_true(recv(c->fd, reply, sizeof(reply), 0) > 0);
	for (size_t at = first; at < first + cut; at += piece)
		if (send(c->fd, elf.p + at, MIN(piece, first + cut - at), MSG_NOSIGNAL) < 0)
			return;
}

static int put_part(size_t first, size_t end, size_t piece)
{
	struct http_client c;
	struct http_answer a;
	int status;

	send_part(&c, first, end, end - first, piece);
	a = http_client_answer(&c, false);
	status = a.status;
	http_answer_done(&a);
	http_client_close(&c);
	return status;
}

static void assert_served(void)
{
	struct http_answer a = http_fetch(f.url, "GET", "/buildid/" ID "/debuginfo", NULL);

	assert_int_equal(a.status, 200);
	assert_body(&a, buf_bytes(&elf));
	http_answer_done(&a);
}

static void parts_of_any_size_make_a_file(void **state)
{
	assert_int_equal(put_part(0, 100000, 777), 202);
	assert_int_equal(put_part(100000, 100001, 1), 202);
	assert_int_equal(put_part(100002, elf.size, 65536), 409);
	assert_int_equal(put_part(100001, 600000, 300000), 202);
	assert_status(&f, "/buildid/" ID "/debuginfo", 404);
	assert_int_equal(put_part(600000, elf.size, 4096), 201);
	assert_served();
	assert_int_equal(put_part(0, elf.size, elf.size), 200);
}

static void *put_all(void *arg)
{
	size_t piece = (size_t)(uintptr_t)arg;

	return (void *)(uintptr_t)put_part(0, elf.size, piece);
}

static void concurrent_uploads_of_one_file_are_stored_once(void **state)
{
	static const size_t pieces[] = { 1000, 30000, 1000000, 5000, 100000, 262144, 262145, 7777 };
	pthread_t threads[ARRAY_SIZE(pieces)];
	unsigned n_stored = 0;

	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, put_all, (void *)(uintptr_t)pieces[i]), 0);
	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		void *status;

		pthread_join(threads[i], &status);
		assert_true((uintptr_t)status == 200 || (uintptr_t)status == 201);
		n_stored += (uintptr_t)status == 201;
	}
	assert_int_equal(n_stored, 1);
	assert_served();
}

static int offset_wanted(void)
{
	char request[1024], body[512], sum[65];
	struct http_client c;
	struct http_answer a;
	const char *at;
	int off = -1;

	snprintf(body, sizeof(body),
		 "{\"objects\": [{\"id\": \"" ID
		 "\", \"kind\": \"debuginfo\", \"size\": %zu, \"sha256\": \"%s\"}]}",
		 elf.size, sum_of(buf_bytes(&elf), sum));
	snprintf(request, sizeof(request),
		 "POST /push/want HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s", strlen(body),
		 body);
	http_client_open(&c, f.url);
	http_client_send(&c, request);
	a = http_client_answer(&c, false);
	assert_int_equal(a.status, 200);
	buf_add_char(&a.body, '\0');
	at = strstr((char *)a.body.p, "\"offset\":");
	if (at && !strstr((char *)a.body.p, "busy"))
		off = atoi(at + 9);
	http_answer_done(&a);
	http_client_close(&c);
	return off;
}

static void an_interrupted_upload_loses_only_bytes_in_transit(void **state)
{
	size_t off = 0;

	for (unsigned i = 0; i < 4; i++) {
		struct http_client c;
		int now;

		send_part(&c, off, elf.size, MIN((size_t)(300000 + 1000 * i), elf.size - off - 1), 50000);
		http_client_close(&c);
		while ((now = offset_wanted()) < 0)
			usleep(1000);
		assert_true((size_t)now >= off);
		off = (size_t)now;
	}
	assert_true(off > 0);
	assert_int_equal(put_part(off, elf.size, 100000), 201);
	assert_served();
}

static void a_server_that_stops_keeps_received_bytes(void **state)
{
	struct http_client c;

	send_part(&c, 0, elf.size, 2 * CODEC_FRAME_SIZE + 1000, 50000);
	/* Any part of it may have been read by then. */
	fixture_stop(&f);
	http_client_close(&c);
	fixture_start(&f);
	assert_true(offset_wanted() >= 0);
	assert_int_equal(put_part((size_t)offset_wanted(), elf.size, 100000), 201);
	assert_served();
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(parts_of_any_size_make_a_file),
		T(concurrent_uploads_of_one_file_are_stored_once),
		T(an_interrupted_upload_loses_only_bytes_in_transit),
		T(a_server_that_stops_keeps_received_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
