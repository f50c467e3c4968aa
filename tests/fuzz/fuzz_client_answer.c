/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers to uploads. The first byte of the input is the status, the rest headers and body: success has its sign, whatever else
 * is in the answer, and a failure its reason.
 */
#include "fuzz.h"

#include "client/answer.h"

#define MAX_WANTS 3u

static void check_want(void *arg, size_t i, const struct client_want *w)
{
	size_t *n = arg;

	FUZZ_CHECK(i == (*n)++);
	FUZZ_CHECK(w->why && w->owner && w->kind <= CLIENT_WANT_NO);
}

static void count_build_id(void *arg, const struct build_id *id)
{
	FUZZ_CHECK(id->size && ++*(size_t *)arg <= CLIENT_WANTED_MAX);
}

static void check_outcome(int r, const struct err *err)
{
	FUZZ_CHECK((r < 0) == (err->kind == ERR_UPSTREAM) && (r < 0) == (err->text[0] != '\0'));
}

static void check_upload(unsigned status, struct str headers, uint64_t size)
{
	struct err err = { 0 };
	uint64_t off = UINT64_MAX;
	int r = client_answer_upload(status, headers, size, &off, &err);

	check_outcome(r, &err);
	FUZZ_CHECK((r != CLIENT_UPLOAD_PARTIAL && r != CLIENT_UPLOAD_OFFSET) || off < size);
}

static bool check_wants(unsigned status, struct bytes body, size_t n)
{
	struct err err = { 0 };
	size_t n_called = 0;
	int r = client_answer_want(status, body, n, check_want, &n_called, &err);

	check_outcome(r, &err);
	FUZZ_CHECK(n_called == (r == 0 ? n : 0));
	return r == 0;
}

static void check_profiles(unsigned status, struct bytes body)
{
	struct client_receipt receipt = { .id = 5 };
	struct err err = { 0 }, otlp_err = { 0 };
	size_t n_ids = 0;
	int r = client_answer_profiles(status, body, count_build_id, &n_ids, &receipt, &err);

	check_outcome(r, &err);
	FUZZ_CHECK(r == 0 || (!n_ids && receipt.id == 5));
	check_outcome(client_answer_otlp(status, body, &otlp_err), &otlp_err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const unsigned statuses[] = { 200, 201, 202, 409, 404, 503 };
	unsigned status, n_taken = 0;
	struct bytes body;
	char *message;

	if (!size)
		return 0;
	status = statuses[*data % ARRAY_SIZE(statuses)];
	body = bytes_of(data + 1, size - 1);
	check_upload(status, (struct str){ (const char *)body.p, body.size }, size);
	for (size_t n = 1; n <= MAX_WANTS; n++)
		n_taken += check_wants(status, body, n);
	FUZZ_CHECK(n_taken <= 1); /* it is about one number of files */
	check_profiles(status, body);
	message = client_message(body);
	FUZZ_CHECK(strlen(message) <= 400);
	for (const char *c = message; *c; c++)
		FUZZ_CHECK((unsigned char)*c >= ' ' && *c != 127);
	free(message);
	return 0;
}
