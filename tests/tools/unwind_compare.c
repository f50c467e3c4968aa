/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares a file's unwind table with the rows that readelf prints.
 *
 *	readelf -W --debug-dump=frames-interp FILE | unwind_compare FILE
 *
 * Each row of readelf is looked up at its first and at its last address. Prints one line of counts; each difference goes to
 * standard error, the first 20 of them. Exit status 1: there are differences. 2: a failure.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/base.h"
#include "unwind/unwind.h"

#define COLUMNS 40

/* The state of readelf's output. */
struct printed {
	struct unwind_table table;
	char *columns[COLUMNS]; /* of the entry: names of registers */
	size_t n_columns;
	uint64_t start, end; /* of the entry; end 0: it is a CIE */
	uint64_t addr;       /* of the row that waits for the next one; `row` empty: none */
	char row[4096];
	uint64_t n_rows, n_equal, n_unsupported, n_different;
};

static const char *const names[16] = { "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp",
				       "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15" };

static int register_number(const char *name, size_t n)
{
	for (int i = 0; i < 16; i++)
		if (strlen(names[i]) == n && memcmp(names[i], name, n) == 0)
			return i;
	return -1;
}

/* The CFA as readelf has it. *ret_unknown: it may be any, since it is an expression. */
static bool cfa_is_equal(const struct unwind_rule *r, const char *text, bool *ret_expression)
{
	size_t n = strcspn(text, "+-");
	int reg = register_number(text, n);

	*ret_expression = strcmp(text, "exp") == 0;
	if (*ret_expression)
		return true;
	return (r->cfa & 15) == UNWIND_CFA_REG && reg == r->cfa >> 4 && text[n] &&
	       strtol(text + n, NULL, 10) == unwind_rule_off(r);
}

static bool rbp_is_equal(const struct unwind_rule *r, const char *text)
{
	unsigned kind = r->save & 3;

	switch (text[0]) {
	case 'c':
		return kind == UNWIND_RBP_CFA && strtol(text + 1, NULL, 10) == r->aux;
	case 'u':
	case 's':
		return kind == UNWIND_RBP_SAME || kind == UNWIND_RBP_LOST;
	case 'e':
		return kind == UNWIND_RBP_RBP || kind == UNWIND_RBP_LOST;
	default:
		return kind == UNWIND_RBP_LOST;
	}
}

static bool rbx_is_equal(const struct unwind_rule *r, const char *text)
{
	/* A rule has 8 bits for it. */
	if (text[0] == 'c' && text[1] == '-' && strtoul(text + 2, NULL, 10) >= 8 * UNWIND_RBX_LOST)
		return unwind_rule_rbx(r) == UNWIND_RBX_LOST;
	if (text[0] == 'c' && text[1] == '-')
		return strtoul(text + 2, NULL, 10) == 8 * unwind_rule_rbx(r);
	/* Undefined is printed as no rule is. */
	if (text[0] == 'u' || text[0] == 's')
		return unwind_rule_rbx(r) == 0 || unwind_rule_rbx(r) == UNWIND_RBX_LOST;
	return unwind_rule_rbx(r) == UNWIND_RBX_LOST;
}

static bool ra_is_equal(const struct unwind_rule *r, const char *text)
{
	unsigned kind = r->save >> 2 & 3;

	if (text[0] == 'c' && strcmp(text + 1, "-8") == 0)
		return kind == UNWIND_RA_CFA;
	if (text[0] == 'c')
		return kind == UNWIND_RA_AT && strtol(text + 1, NULL, 10) == r->aux;
	if (strcmp(text, "u") == 0)
		return kind == UNWIND_RA_END;
	return kind == UNWIND_RA_REG && register_number(text, strlen(text)) == r->aux;
}

enum verdict { EQUAL, UNSUPPORTED, DIFFERENT };

static enum verdict compare_at(const struct printed *p, uint64_t addr, char *const *values, size_t n)
{
	const char *ra = "u", *rbp = "u", *rsp = "u", *rbx = "u";
	struct unwind_rule r;
	bool expression;

	if (unwind_find(&p->table, addr, &r) < 0)
		return DIFFERENT;
	for (size_t i = 1; i < n && i < p->n_columns; i++) {
		if (strcmp(p->columns[i], "ra") == 0 || strcmp(p->columns[i], "rip") == 0)
			ra = values[i];
		else if (strcmp(p->columns[i], "rbp") == 0)
			rbp = values[i];
		else if (strcmp(p->columns[i], "rsp") == 0)
			rsp = values[i];
		else if (strcmp(p->columns[i], "rbx") == 0)
			rbx = values[i];
	}
	if ((r.cfa & 15) == UNWIND_CFA_NONE)
		return DIFFERENT;
	if ((r.cfa & 15) == UNWIND_CFA_SIGNAL)
		return p->table.chunks[0].head.flags & UNWIND_FROM_GO            ? UNSUPPORTED
		       : strcmp(values[0], "exp") == 0 && strcmp(ra, "exp") == 0 ? EQUAL
										 : DIFFERENT;
	/* Readelf does not print the expression of the CFA; that of the return address is supported in signal frames. */
	if ((r.cfa & 15) == UNWIND_CFA_BAD)
		return strcmp(values[0], "exp") == 0 || ra[0] == 'e' || ra[0] == 's' || rsp[0] != 'u'
			       ? UNSUPPORTED
			       : DIFFERENT;
	/* Go's .debug_frame knows the CFA only: the table has rbp, the outermost functions and those with two stacks. */
	if (p->table.chunks[0].head.flags & UNWIND_FROM_GO && (r.cfa & 15) == UNWIND_CFA_CHAIN)
		return UNSUPPORTED;
	if (p->table.chunks[0].head.flags & UNWIND_FROM_GO && strcmp(rbp, "u") == 0)
		return cfa_is_equal(&r, values[0], &expression) ? EQUAL : DIFFERENT;
	if (!cfa_is_equal(&r, values[0], &expression) || !rbp_is_equal(&r, rbp) || !ra_is_equal(&r, ra) ||
	    !rbx_is_equal(&r, rbx))
		return DIFFERENT;
	return EQUAL;
}

static void report_difference(struct printed *p, uint64_t addr, const char *row)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct unwind_rule r = { 0 };

	if (p->n_different++ >= 20)
		return;
	unwind_find(&p->table, addr, &r);
	unwind_rule_print(&r, &text);
	fprintf(stderr, "%" PRIx64 " in %" PRIx64 "..%" PRIx64 ": readelf %s; table %s\n", addr, p->start,
		p->end, row, buf_cstr(&text));
}

/* The row that waits holds up to @to. */
static void end_row(struct printed *p, uint64_t to)
{
	char text[sizeof(p->row)], *values[COLUMNS] = { 0 }, *save;
	size_t n = 0;
	enum verdict a, b;

	if (!p->row[0])
		return;
	memcpy(text, p->row, sizeof(text));
	/* Linkers leave entries of functions that they have removed, at address 0, one on the other. */
	if (to > p->addr && p->end && p->start) {
		for (char *w = strtok_r(text, " \t", &save); w && n < COLUMNS;
		     w = strtok_r(NULL, " \t", &save)) {
			/* "r5 (rdi)" is one value. */
			if (w[0] == '(' && n)
				values[n - 1] = strtok(w, "()");
			else
				values[n++] = w;
		}
		p->n_rows++;
		a = n ? compare_at(p, p->addr, values, n) : DIFFERENT;
		b = n ? compare_at(p, to - 1, values, n) : DIFFERENT;
		if (a == DIFFERENT || b == DIFFERENT)
			report_difference(p, a == DIFFERENT ? p->addr : to - 1, p->row);
		else if (a == UNSUPPORTED || b == UNSUPPORTED)
			p->n_unsupported++;
		else
			p->n_equal++;
	}
	p->row[0] = 0;
}

static void end_entry(struct printed *p)
{
	end_row(p, p->end);
	for (size_t i = 0; i < p->n_columns; i++)
		free(p->columns[i]);
	p->n_columns = 0;
	p->end = 0;
}

static void read_line(struct printed *p, char *line)
{
	char *pc = strstr(line, " FDE "), *save;
	uint64_t addr;

	line[strcspn(line, "\n")] = 0;
	if (pc || strstr(line, " CIE ")) {
		end_entry(p);
		pc = pc ? strstr(pc, "pc=") : NULL;
		if (!pc)
			return;
		p->start = strtoull(pc + 3, &pc, 16);
		p->end = strncmp(pc, "..", 2) == 0 ? strtoull(pc + 2, NULL, 16) : 0;
		return;
	}
	if (strstr(line, "LOC") && strstr(line, "CFA")) {
		strtok_r(line, " \t", &save); /* LOC */
		for (char *w = strtok_r(NULL, " \t", &save); w && p->n_columns < COLUMNS;
		     w = strtok_r(NULL, " \t", &save))
			p->columns[p->n_columns++] = mem_strdup(w);
		return;
	}
	if (!p->n_columns || strspn(line, "0123456789abcdef") != 16 || line[16] != ' ')
		return;
	addr = strtoull(line, NULL, 16);
	end_row(p, addr);
	p->addr = addr;
	snprintf(p->row, sizeof(p->row), "%s", line + 17);
}

int main(int argc, char **argv)
{
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	AUTO(buf_done) struct buf out = { 0 };
	AUTO(mem_freep) char *line = NULL;
	struct unwind_stats stats = { 0 };
	struct printed p = { 0 };
	struct err err = { 0 };
	size_t room = 0;
	int r;

	if (argc != 2) {
		fputs("usage: unwind_compare FILE <ROWS\n", stderr);
		return 2;
	}
	r = source_open_file(argv[1], &src, &err);
	if (r == 0)
		r = elf_open(src, &img, &err);
	if (r == 0)
		r = unwind_build(img, NULL, &out, &stats, &err);
	if (r == 0)
		r = unwind_table_open(buf_bytes(&out), &p.table, &err);
	if (r) {
		fprintf(stderr, "unwind_compare: %s: %s\n", argv[1], r < 0 ? err.text : "no table");
		return r < 0 ? 2 : 0;
	}
	while (getline(&line, &room, stdin) > 0)
		read_line(&p, line);
	end_entry(&p);
	printf("rows %" PRIu64 " equal %" PRIu64 " unsupported %" PRIu64 " different %" PRIu64
	       " table %" PRIu64 " bytes %zu sorted %d escapes %" PRIu64 " rules %" PRIu64 " skipped %" PRIu64
	       "\n",
	       p.n_rows, p.n_equal, p.n_unsupported, p.n_different, stats.n_rows, out.size, stats.sorted,
	       stats.n_escapes, stats.n_rules, stats.n_skipped);
	return p.n_different != 0;
}
