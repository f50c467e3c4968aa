/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables in the form of /proc/net/tcp and tcp6, compared with a slow reader that cuts lines into words. The input is
 * a byte that chooses the two ends of the connection, and then the table.
 */
#include "fuzz.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include "http/peer.h"

#define N_WORDS 10u

enum { SIX_FROM = 1, SIX_TO = 2, MAPPED = 4 };

struct ends {
	struct sockaddr_storage from, to;
};

static void end_set(struct sockaddr_storage *ret, bool six, bool mapped, const char *four, uint16_t port)
{
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	struct sockaddr_in a4 = { .sin_family = AF_INET, .sin_port = htons(port) };
	char text[64];

	snprintf(text, sizeof(text), mapped ? "::ffff:%s" : "::1", four);
	FUZZ_CHECK(inet_pton(AF_INET6, text, &a6.sin6_addr) == 1);
	FUZZ_CHECK(inet_pton(AF_INET, four, &a4.sin_addr) == 1);
	if (six)
		memcpy(ret, &a6, sizeof(a6));
	else
		memcpy(ret, &a4, sizeof(a4));
}

/* The forms that the kernel prints of 127.0.0.1 and 127.0.0.2, ::1, and IPv4 as IPv6. */
static void model_end(bool table_six, bool six, bool mapped, const char *four_hex, unsigned port,
		      char out[64])
{
	if (!table_six)
		snprintf(out, 64, "%s:%04X", six && !mapped ? "01000000" : four_hex, port);
	else if (six && !mapped)
		snprintf(out, 64, "00000000000000000000000001000000:%04X", port);
	else
		snprintf(out, 64, "0000000000000000FFFF0000%s:%04X", four_hex, port);
}

static size_t words_of(struct str line, struct str *ret)
{
	size_t n = 0;

	while (n < N_WORDS) {
		while (line.size && line.p[0] == ' ')
			line = (struct str){ line.p + 1, line.size - 1 };
		if (!line.size)
			break;
		ret[n].p = line.p;
		while (line.size && line.p[0] != ' ')
			line = (struct str){ line.p + 1, line.size - 1 };
		ret[n].size = (size_t)(line.p - ret[n].p);
		n++;
	}
	return n;
}

static bool model_find(struct str text, unsigned how, uid_t *ret)
{
	while (text.size) {
		struct str line = str_cut(&text, '\n'), w[N_WORDS] = { 0 };
		char from[64], to[64];
		uint64_t uid, inode;

		words_of(line, w);
		model_end(w[1].size > 13, how & SIX_FROM, how & MAPPED, "0100007F", 0x1f42, from);
		model_end(w[1].size > 13, how & SIX_TO, how & MAPPED, "0200007F", 0xc001, to);
		if (!str_eq(w[1], str_of(from)) || !str_eq(w[2], str_of(to)))
			continue;
		/* 01: established; 04, 05: it has sent its end */
		if (!str_eq(w[3], STR("01")) && !str_eq(w[3], STR("04")) && !str_eq(w[3], STR("05")))
			return false;
		if (!str_to_u64(w[7], &uid) || uid > UINT32_MAX || !str_to_u64(w[9], &inode) || !inode)
			return false;
		*ret = (uid_t)uid;
		return true;
	}
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ends e = { 0 };
	uid_t got = 77, want = 77;
	bool found, model;
	unsigned how;
	struct str text;

	if (!size)
		return 0;
	how = data[0] & 7;
	text = (struct str){ (const char *)data + 1, size - 1 };
	end_set(&e.from, how & SIX_FROM, how & MAPPED, "127.0.0.1", 0x1f42);
	end_set(&e.to, how & SIX_TO, how & MAPPED, "127.0.0.2", 0xc001);
	found = peer_find_in_table(text, (struct sockaddr *)&e.from, (struct sockaddr *)&e.to, &got);
	model = model_find(text, how, &want);
	FUZZ_CHECK(found == model);
	/* Nothing is written without a result. */
	FUZZ_CHECK(got == want);
	return 0;
}
