/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing JSON into a buffer. Reading is jansson's (docs/decisions/0014-json-writer.md).
 *
 *	struct json_writer w = { .out = &buf };
 *
 *	json_open_object(&w, NULL);
 *	json_put_text(&w, "name", "main");     {"name":"main",
 *	json_open_array(&w, "lines");           "lines":[
 *	json_put_int(&w, NULL, 7);                7
 *	json_close(&w);                          ]
 *	json_close(&w);                        }
 *
 * Every value takes the key that it has in its object: a constant of the program, which needs no escape, or
 * NULL for an element of an array, for the outermost value, and for the value after json_key(). The writer
 * adds commas and line ends. A wrong nesting is a mistake of the caller and ends the process.
 *
 * The writer only appends: its state is in the struct, so that a caller may take the bytes out of the buffer,
 * or add bytes of its own (white space, a finished value), between any two calls. A value may also be written
 * alone into another buffer, by another writer, and become part of this one with json_put_raw().
 *
 * Text may be any bytes. The result is UTF-8: bytes that are no UTF-8 become U+FFFD, as str_utf8_next() has
 * it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"

#define JSON_DEPTH_MAX 512 /* objects and arrays in one another */

struct json_writer {
	struct buf *out;
	uint8_t indent; /* blanks a level, each value on a line of its own; 0: all on one line, without blanks */
	bool for_html;     /* escape <, >, & and U+2028, U+2029 too: safe within <script> */
	bool escape_slash; /* as json-c and elfutils do */
	/* The writer's own. */
	bool has_value; /* a value stands before, at this depth: a comma is due */
	bool has_key;   /* json_key() was written, its value is due */
	uint16_t depth;
	uint64_t objects[JSON_DEPTH_MAX / 64]; /* bit i: level i is an object */
};

void json_open_object(struct json_writer *w, const char *key);
void json_open_array(struct json_writer *w, const char *key);
void json_close(struct json_writer *w);           /* the innermost */
bool json_in_object(const struct json_writer *w); /* is the innermost an object? */
/* A key that is any bytes. The next call writes its value, with NULL as key. */
void json_key(struct json_writer *w, struct str key);

void json_put_str(struct json_writer *w, const char *key, struct str s);
void json_put_text(struct json_writer *w, const char *key, const char *z); /* NULL is null */
void json_put_printf(struct json_writer *w, const char *key, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void json_put_int(struct json_writer *w, const char *key, int64_t v);
void json_put_uint(struct json_writer *w, const char *key, uint64_t v);
/* The shortest text that reads back as @v, with a point or an exponent; infinity and NaN are null. */
void json_put_double(struct json_writer *w, const char *key, double v);
void json_put_bool(struct json_writer *w, const char *key, bool v);
void json_put_null(struct json_writer *w, const char *key);
/* @json is one complete value. It is not checked. With `indent`, its lines move to the right by this depth. */
void json_put_raw(struct json_writer *w, const char *key, struct str json);
