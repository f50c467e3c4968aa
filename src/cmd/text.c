/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of commands: for people, whose terminals obey control characters, and as JSON, which is UTF-8.
 * Texts from files are any bytes.
 */
#include <stdarg.h>
#include <stdlib.h>
#include "cmd/internal.h"

static const struct option_row output_rows[] = {
	{ 0, "json", NULL, "print JSON, for programs", OPT_ON(json) },
	{ 0 },
};
const struct option_group group_output = { "Output", output_rows };

void print_text(FILE *out, struct str s)
{
	while (s.size) {
		uint32_t c = (unsigned char)*s.p;
		size_t n = str_utf8(s, &c), size = n ? n : 1;

		/* A byte that is no UTF-8 is shown by a terminal of another encoding: there 0x80 to 0x9f are control characters. */
		if (utf8_is_harmful(n ? c : (unsigned char)*s.p))
			for (size_t i = 0; i < size; i++)
				fprintf(out, "\\x%02x", (unsigned char)s.p[i]);
		else
			fwrite(s.p, 1, size, out);
		s.p += size;
		s.size -= size;
	}
}

/* By one write, since other threads log lines of their own: "lode: WHAT: WHY", escaped, and @end. */
static void print_failure(const char *what, struct str why, const char *end)
{
	AUTO(mem_freep) char *line = NULL;
	size_t size = 0, n = strlen(what);
	FILE *out = open_memstream(&line, &size);

	if (!out)
		abort();
	/* Errors of the module that has the command's name begin with it. */
	if (why.size > n + 2 && memcmp(why.p, what, n) == 0 && memcmp(why.p + n, ": ", 2) == 0) {
		why.p += n + 2;
		why.size -= n + 2;
	}
	fprintf(out, "lode: %s: ", what);
	print_text(out, why);
	fprintf(out, "%s\n", end);
	fclose(out);
	fwrite(line, 1, size, stderr);
}

int tell_error(const char *what, const struct err *err)
{
	print_failure(what, str_of(err->text), "");
	return EXIT_FAILED;
}

int usage_error(const char *command, const char *fmt, ...)
{
	AUTO(mem_freep) char *end = mem_printf("; see: lode help %s", command);
	char why[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	print_failure(command, str_of(why), end);
	return EXIT_USAGE;
}

int json_print_end(struct buf *text)
{
	bool written;

	buf_add_char(text, '\n');
	/* A long text is written at once: if that fails, nothing is left for fflush() to fail at. */
	written = fwrite(text->p, 1, text->size, stdout) == text->size && fflush(stdout) == 0;
	buf_done(text);
	return written ? EXIT_DONE : EXIT_FAILED;
}

const char *size_text(uint64_t size, char out[32])
{
	static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB", "EB" };
	double v = (double)size;
	size_t u = 0;

	while (v >= 999.5 && u + 1 < ARRAY_SIZE(units)) {
		v /= 1000;
		u++;
	}
	snprintf(out, 32, u && v < 99.95 ? "%.1f %s" : "%.0f %s", v, units[u]);
	return out;
}
