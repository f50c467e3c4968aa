/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings, files and functions, each kept once under a number, its id; and the maps that this and the
 * reading of units need.
 */
#pragma once

#include "base/base.h"

/* ---- from numbers to the numbers 1, 2, ... in the order of their first use ---- */

struct id_map_slot {
	uint32_t key, value; /* free if value is at most the map's `before` */
};
struct id_map {
	struct id_map_slot *slots;
	uint32_t n, n_slots;
	uint32_t before; /* numbers given before the map was cleared */
	uint64_t seed;   /* odd, and random: keys are offsets, which the author of a crafted input chooses */
};
/* The number of @key; it is n if the key is new. */
uint32_t id_map_at(struct id_map *m, uint32_t key);
void id_map_clear(struct id_map *m);
void id_map_done(struct id_map *m);

/* ---- from four numbers to a number ---- */

struct quad {
	uint32_t v[4];
};
struct quad_slot {
	struct quad key;
	uint32_t value; /* 0: free */
};
struct quad_map {
	struct quad_slot *slots;
	size_t n, n_slots;
	uint64_t seed;
};
/* Where the value of @key is; it is 0 if the key is new, and the caller must set it to another number. The
 * pointer is valid until the next call. */
uint32_t *quad_map_at(struct quad_map *m, struct quad key);
/* Take back a key that quad_map_at() has just added, which returned @place. */
void quad_map_undo(struct quad_map *m, uint32_t *place);
/* Prefetch the slot of @key: these maps are larger than the CPU's caches. */
void quad_map_prefetch(const struct quad_map *m, const struct quad *key);
/* Make room: pointers stay valid until @n more keys were added. */
void quad_map_room(struct quad_map *m, size_t n);
void quad_map_done(struct quad_map *m);

/* ---- strings, files, functions ---- */

struct file_id {
	uint32_t dir, name; /* strings */
};
struct function_id {
	uint32_t name, linkage; /* strings */
	uint32_t file, line;    /* of its declaration */
};

/* Ids by the hashes of their things. The hashes are kept, so that growing reads nothing else. */
struct id_slot {
	uint32_t hash, id; /* id 0: free */
};
struct id_slots {
	struct id_slot *list;
	size_t n_slots;
};

/* Ids count from 1 in the order of first use; id 0 is the empty thing, "not known". */
struct intern {
	uint64_t seed;
	struct arena arena;
	struct str *strings;
	struct file_id *files;
	struct function_id *functions;
	size_t n_strings, room_strings, n_files, room_files, n_functions, room_functions;
	struct quad_map by_files; /* directory and name to the file's id */
	struct id_slots string_slots, function_slots;
};
void intern_init(struct intern *in);
void intern_done(struct intern *in);
/* @stays: the bytes of @s outlive the intern; otherwise a new string is copied. */
uint32_t intern_str(struct intern *in, struct str s, bool stays);
/* The same in two steps: prefetch the slot and return the hash; then look up by that hash. */
uint32_t intern_str_prefetch(const struct intern *in, struct str s);
uint32_t intern_str_hashed(struct intern *in, struct str s, uint32_t hash, bool stays);
uint32_t intern_file(struct intern *in, uint32_t dir, uint32_t name);
uint32_t intern_function(struct intern *in, const struct function_id *f);
uint32_t intern_function_prefetch(const struct intern *in, const struct function_id *f);
uint32_t intern_function_hashed(struct intern *in, const struct function_id *f, uint32_t hash);
