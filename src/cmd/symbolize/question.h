/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions, addresses to be symbolized, and one thread's answers to them.
 */
#pragma once

#include "base/sort.h"
#include "cmd/symbolize/write.h"

/* There may be millions of them: one a line of standard input. */
struct question {
	uint64_t addr;
	/* Before it is answered, the head is a text that is not an address and will be repeated; else
	 * empty. */
	struct answer_text answer;
};

/* All of them are answered from this. Borrowed. */
struct answer_source {
	const struct settings *s;
	const struct symbolize_style *style;
	const struct lookup_file *file;
	const struct finding *by; /* NULL: the file */
	struct str module;        /* its name in answers */
};

/* One thread's. */
struct answerer {
	const struct answer_source *from;
	struct symbolize_writer writer, late; /* late: of one answer after the other */
	struct symtab_finder *finder;         /* NULL: there is no file */
	bool owns_finder;
	bool alike; /* all addresses of one row have the same text */
	uint64_t n_missing;
	struct err err; /* of the last failure */
};
/* Only one may be the @first: it uses the file's own finder. */
void answerer_init(struct answerer *a, const struct answer_source *from, bool first);
void answerer_done(struct answerer *a);

/*
 * Answer the @n questions that @order names, which are sorted by address. Questions after an error, and after
 * texts of @max_size bytes, are left for answerer_late().
 */
void answerer_range(struct answerer *a, struct question *questions, const struct sort_key *order, size_t n,
		    size_t max_size);
/* Answer @q now if answerer_range() left it: an error counts only here. Its text is good until the next
 * call. */
int answerer_late(struct answerer *a, struct question *q);
