/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors. Text is formatted into a local first, because a caller may well print the text of the very struct
 * that it fills.
 */
#include "base/err.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* This file defines the functions themselves. */
#undef err_set
#undef err_os
#undef err_in

/* The place in front keeps at least this many bytes, however long the reason is. */
#define PLACE_MIN 160

static void err_store(struct err *err, enum err_kind kind, int os, const char *text, size_t size)
{
	if (size > ERR_TEXT_SIZE - 1)
		size = ERR_TEXT_SIZE - 1;
	memcpy(err->text, text, size);
	err->text[size] = '\0';
	err->kind = kind;
	err->os = os;
}

__attribute__((format(printf, 2, 0))) static size_t text_vprintf(char text[ERR_TEXT_SIZE], const char *fmt,
								 va_list ap)
{
	int n = vsnprintf(text, ERR_TEXT_SIZE, fmt, ap);

	if (n < 0)
		n = 0;
	return n < ERR_TEXT_SIZE ? (size_t)n : ERR_TEXT_SIZE - 1;
}

int err_set(struct err *err, enum err_kind kind, const char *fmt, ...)
{
	char text[ERR_TEXT_SIZE];
	size_t size;
	va_list ap;

	if (!err)
		return -1;
	va_start(ap, fmt);
	size = text_vprintf(text, fmt, ap);
	va_end(ap);
	err_store(err, kind, 0, text, size);
	return -1;
}

bool err_is_scarce(int os_errno)
{
	return os_errno == ENOMEM || os_errno == EMFILE || os_errno == ENFILE;
}

int err_os(struct err *err, int os_errno, const char *fmt, ...)
{
	char text[ERR_TEXT_SIZE], why_buf[128];
	const char *why;
	size_t size, why_size;
	va_list ap;

	if (!err)
		return -1;
	va_start(ap, fmt);
	size = text_vprintf(text, fmt, ap);
	va_end(ap);

	/* The reason is short and always complete; the place is shortened. */
	why = strerror_r(os_errno, why_buf, sizeof(why_buf));
	why_size = strnlen(why, sizeof(why_buf));
	if (size > ERR_TEXT_SIZE - 1 - 2 - why_size)
		size = ERR_TEXT_SIZE - 1 - 2 - why_size;
	memcpy(text + size, ": ", 2);
	memcpy(text + size + 2, why, why_size);
	err_store(err, err_is_scarce(os_errno) ? ERR_LIMIT : ERR_IO, os_errno, text, size + 2 + why_size);
	return -1;
}

int err_in(struct err *err, const char *fmt, ...)
{
	char place[ERR_TEXT_SIZE];
	size_t place_size, why_size, room;
	va_list ap;

	if (!err)
		return -1;
	va_start(ap, fmt);
	place_size = text_vprintf(place, fmt, ap);
	va_end(ap);

	/* The function that failed has named this place already, as one that opens a file does. */
	if (place_size && strncmp(err->text, place, place_size) == 0 &&
	    strncmp(err->text + place_size, ": ", 2) == 0)
		return -1;

	/* If both do not fit, the place is cut, but not below PLACE_MIN; then the reason loses its end. */
	why_size = strnlen(err->text, ERR_TEXT_SIZE - 1);
	room = ERR_TEXT_SIZE - 1 - 2;
	if (place_size + why_size > room) {
		size_t keep = room > why_size ? room - why_size : 0;

		if (keep < PLACE_MIN)
			keep = PLACE_MIN;
		if (place_size > keep) {
			place_size = keep;
			memcpy(place + keep - 3, "...", 3);
		}
		if (why_size > room - place_size)
			why_size = room - place_size;
	}
	memmove(err->text + place_size + 2, err->text, why_size);
	memcpy(err->text, place, place_size);
	memcpy(err->text + place_size, ": ", 2);
	err->text[place_size + 2 + why_size] = '\0';
	return -1;
}

const char *err_kind_name(enum err_kind kind)
{
	switch (kind) {
	case ERR_NONE:
		return "none";
	case ERR_INVALID:
		return "invalid";
	case ERR_LIMIT:
		return "limit";
	case ERR_BUSY:
		return "busy";
	case ERR_IO:
		return "io";
	case ERR_CHANGED:
		return "changed";
	case ERR_UPSTREAM:
		return "upstream";
	case ERR_CANCELLED:
		return "cancelled";
	case ERR_INTERNAL:
		return "internal";
	case ERR_DAMAGED:
		return "damaged";
	}
	return "unknown";
}
