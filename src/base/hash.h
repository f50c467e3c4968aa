/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashes, and bytes as hexadecimal.
 *
 * hash64() is fast (several GB/s) and its value is part of our file formats: it is the same on every machine,
 * for ever. It is no defence against an attacker who chooses the input; where that matters, use a secret
 * seed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/view.h"

uint64_t hash64(const void *p, size_t size, uint64_t seed);
/*
 * @p should have the hash @hash, but some bytes of it are wrong: if these are at most @max_bytes (up to 2) of one aligned
 * word of 8, they are put right. false: there is no such word, and nothing has changed. Each step of the hash can be undone,
 * so the word with which the rest has that hash is computed for each place; that one of them differs so little by chance
 * has a probability of 10^-11 for 8 KiB. @size is a multiple of 8, from 32 to HASH64_CORRECT_MAX. Takes some microseconds.
 */
#define HASH64_CORRECT_MAX 65536u
bool hash64_correct(uint8_t *p, size_t size, uint64_t seed, uint64_t hash, unsigned max_bytes);

/* The same value as hash64() of all bytes fed, for content that arrives in chunks. */
struct hash64_state {
	uint64_t acc[4];
	uint64_t total;
	uint64_t seed;
	uint8_t tail[32];
	unsigned n_tail;
};
void hash64_init(struct hash64_state *s, uint64_t seed);
void hash64_feed(struct hash64_state *s, const void *p, size_t size);
uint64_t hash64_end(const struct hash64_state *s);

/* Lower-case hex; @out has room for 2 * b.size + 1. Returns out. */
char *hex_encode(struct bytes b, char *out);
int hex_digit(char c, bool any_case); /* its value; -1: not a digit */
bool hex_is_lower(struct str s);      /* digits alone, in lower case; also of an empty one */
/* @s must be an even number of hex digits (upper case only if @any_case), at most 2 * room of them. */
bool hex_decode(struct str s, bool any_case, uint8_t *out, size_t room, size_t *ret_size);
/* Decode %XX in @s into @out, which has room for s.size bytes; no NUL is added. false: a broken escape (upper case
 * is one unless @any_case). */
bool hex_unescape(struct str s, bool any_case, char *out, size_t *ret_size);

/*
 * A build ID: bytes that identify an ELF file, in hexadecimal in paths and messages. That of the GNU note has usually 20
 * bytes (SHA-1), also 8, 16, 32 or any other number. Profilers have two more kinds; docs/decisions/0031-identities.md
 * tells how they are told apart.
 */
#define BUILD_ID_MAX 84
struct build_id {
	uint8_t size; /* 0: none */
	uint8_t b[BUILD_ID_MAX];
};
#define BUILD_ID_HEX_SIZE (2 * BUILD_ID_MAX + 1)
static inline struct bytes build_id_bytes(const struct build_id *id)
{
	return (struct bytes){ id->b, id->size };
}
bool build_id_eq(const struct build_id *a, const struct build_id *b);
char *build_id_hex(const struct build_id *id, char out[BUILD_ID_HEX_SIZE]); /* returns out */
bool build_id_set(struct build_id *id, struct bytes b);   /* false: empty or longer than BUILD_ID_MAX */
bool build_id_parse(struct build_id *id, struct str hex); /* lower-case hex, at least one byte */

/* ---- identity.c: the kinds of build IDs ---- */

enum build_id_kind {
	BUILD_ID_GNU,
	BUILD_ID_GO, /* the text of Go's note, such as "abc/def/ghi/jkl" */
	BUILD_ID_HASH, /* OpenTelemetry's: the first half of a SHA-256 over both ends of a file and its length */
	BUILD_ID_N_KINDS
};
#define BUILD_ID_HASH_SIZE 16
const char *build_id_kind_name(
	enum build_id_kind kind); /* as OpenTelemetry has them: "gnu", "go", "htlhash" */
/*
 * The kind as far as the bytes tell it. One of 16 bytes is BUILD_ID_GNU, and may be BUILD_ID_HASH.
 */
enum build_id_kind build_id_kind_of(const struct build_id *id);
/* It may be another identity of a file whose build ID is another one. Few GNU build IDs are such. */
bool build_id_may_be_alias(const struct build_id *id);
/* From messages and profiles: hex of either case, or Go's text. */
bool build_id_read(struct build_id *id, struct str text);
/*
 * Go's text. false, and *id is none: it identifies no file. Build systems replace it by words such as "redacted", which
 * all of their files then have.
 */
bool build_id_set_go(struct build_id *id, struct str text);
