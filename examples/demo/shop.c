/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program that `lode demo` profiles: a shop that answers requests for a page of search results, and
 * rebuilds an index of words meanwhile. The results are thrown away, but computed in full.
 *
 *	demo-shop FOLDER SLICES MILLISECONDS
 *
 * writes a CPU profile for each slice of time and thread, FOLDER/SLICE-THREAD. In the second half there is a
 * sale: requests have more words.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "sampler.h"

#define N_WORKERS 3
#define N_ITEMS   3000
#define MAX_WORDS 6
#define N_RESULTS 60
#define PAGE_SIZE (64 * 1024)
#define N_SLOTS   4096
#define WINDOW    512

#define NOINLINE __attribute__((noinline))
#define INLINE   static inline __attribute__((always_inline))

static const char *const words[] = {
	"red",  "green", "lamp",  "table", "chair", "bicycle", "tea",  "kettle",
	"wool", "scarf", "paper", "clock", "glass", "shelf",   "sofa", "<rare>"
};
#define N_WORDS (sizeof(words) / sizeof(words[0]))

struct item {
	uint32_t words[MAX_WORDS]; /* hashes */
	uint32_t price;
	char title[96];
};

struct result {
	uint32_t item, score;
};

struct page {
	char text[PAGE_SIZE];
	size_t size;
};

struct worker {
	const char *name;
	void (*work)(struct worker *w);
	pthread_t thread;
	struct samples *samples;
	uint32_t seed;
	uint32_t sums; /* of all results, so that the compiler keeps their computation */
	struct result results[N_ITEMS];
	struct page page;
	uint32_t slots[N_SLOTS], last_seen[N_SLOTS];
};

static struct item items[N_ITEMS];
static atomic_bool is_over;
static bool is_sale;

/* ---- helpers ---- */

INLINE uint32_t next_random(uint32_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	*seed ^= *seed << 5;
	return *seed;
}

INLINE uint32_t hash_word(const char *word, size_t size)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < size; i++)
		h = (h ^ (uint8_t)word[i]) * 16777619u;
	return h;
}

INLINE void append_char(struct page *p, char c)
{
	if (p->size < sizeof(p->text))
		p->text[p->size++] = c;
}

NOINLINE static void append_text(struct page *p, const char *text)
{
	for (; *text; text++)
		append_char(p, *text);
}

/* ---- the request ---- */

INLINE int hex_digit(char c)
{
	return c <= '9' ? c - '0' : (c | 32) - 'a' + 10;
}

NOINLINE static size_t decode_escapes(char *s)
{
	char *to = s;

	for (const char *from = s; *from; from++) {
		if (*from == '%' && from[1] && from[2]) {
			*to++ = (char)(hex_digit(from[1]) << 4 | hex_digit(from[2]));
			from += 2;
		} else {
			*to++ = *from == '+' ? ' ' : *from;
		}
	}
	*to = '\0';
	return (size_t)(to - s);
}

NOINLINE static size_t parse_request(struct worker *w, uint32_t *ret_words, size_t room)
{
	char query[512] = "";
	size_t size, n = 0;

	for (size_t i = 0; i < room; i++) {
		strcat(query, words[next_random(&w->seed) % N_WORDS]);
		strcat(query, i & 1 ? "+" : "%20");
	}
	size = decode_escapes(query);
	for (size_t i = 0, from = 0; i <= size && n < room; i++)
		if (i == size || query[i] == ' ') {
			ret_words[n++] = hash_word(query + from, i - from);
			from = i + 1;
		}
	return n;
}

/* ---- searching ---- */

INLINE uint32_t match_words(const struct item *item, const uint32_t *wanted, size_t n)
{
	uint32_t matches = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < MAX_WORDS; k++)
			matches += item->words[k] == wanted[i];
	return matches;
}

NOINLINE static uint32_t score_item(const struct item *item, const uint32_t *wanted, size_t n)
{
	uint32_t score = match_words(item, wanted, n) * 1000;

	for (uint32_t p = item->price; p > 9; p /= 10)
		score += p % 10;
	return score;
}

NOINLINE static size_t find_items(struct worker *w, const uint32_t *wanted, size_t n)
{
	size_t found = 0;

	for (uint32_t i = 0; i < N_ITEMS; i++) {
		uint32_t score = score_item(&items[i], wanted, n);

		if (score >= 1000)
			w->results[found++] = (struct result){ i, score };
	}
	return found;
}

INLINE int is_better(const struct result *a, const struct result *b)
{
	return a->score != b->score ? a->score > b->score : a->item < b->item;
}

NOINLINE static void sift_down(struct result *v, size_t at, size_t n)
{
	for (;;) {
		size_t child = 2 * at + 1;
		struct result swap = v[at];

		if (child >= n)
			return;
		if (child + 1 < n && is_better(&v[child], &v[child + 1]))
			child++;
		if (is_better(&v[child], &v[at]))
			return;
		v[at] = v[child];
		v[child] = swap;
		at = child;
	}
}

NOINLINE static void sort_results(struct result *v, size_t n)
{
	for (size_t i = n / 2; i-- > 0;)
		sift_down(v, i, n);
	while (n > 1) {
		struct result swap = v[0];

		v[0] = v[--n];
		v[n] = swap;
		sift_down(v, 0, n);
	}
}

NOINLINE static size_t search_catalogue(struct worker *w, const uint32_t *wanted, size_t n)
{
	size_t found = find_items(w, wanted, n);

	sort_results(w->results, found);
	return found;
}

/* ---- the answer ---- */

NOINLINE static void escape_html(struct page *p, const char *text)
{
	for (; *text; text++)
		switch (*text) {
		case '<':
			append_text(p, "&lt;");
			break;
		case '>':
			append_text(p, "&gt;");
			break;
		case '&':
			append_text(p, "&amp;");
			break;
		default:
			append_char(p, *text);
		}
}

NOINLINE static void render_item(struct page *p, const struct item *item)
{
	char price[16];
	size_t n = sizeof(price);

	price[--n] = '\0';
	for (uint32_t v = item->price; v && n; v /= 10)
		price[--n] = (char)('0' + v % 10);
	append_text(p, "<li class=\"item\"><b>");
	escape_html(p, item->title);
	append_text(p, "</b> <span class=\"price\">");
	append_text(p, price + n);
	append_text(p, "</span></li>\n");
}

NOINLINE static void render_page(struct worker *w, size_t found)
{
	w->page.size = 0;
	append_text(&w->page, "<!doctype html><ul>\n");
	for (size_t i = 0; i < found && i < N_RESULTS; i++)
		render_item(&w->page, &items[w->results[i].item]);
	append_text(&w->page, "</ul>\n");
}

INLINE size_t match_length(const char *a, const char *b, size_t max)
{
	size_t n = 0;

	while (n < max && a[n] == b[n])
		n++;
	return n;
}

NOINLINE static size_t longest_match(const struct page *p, size_t at)
{
	size_t best = 0, max = p->size - at < 64 ? p->size - at : 64;

	for (size_t from = at > WINDOW ? at - WINDOW : 0; from < at; from++) {
		size_t n = match_length(p->text + from, p->text + at, max);

		best = n > best ? n : best;
	}
	return best;
}

NOINLINE static size_t compress_page(const struct page *p)
{
	size_t size = 0;

	for (size_t at = 0; at < p->size;) {
		size_t n = longest_match(p, at);

		at += n > 3 ? n : 1;
		size += n > 3 ? 3 : 1;
	}
	return size;
}

NOINLINE static uint32_t checksum_page(const struct page *p)
{
	uint32_t crc = ~0u;

	for (size_t i = 0; i < p->size; i++) {
		crc ^= (uint8_t)p->text[i];
		for (int k = 0; k < 8; k++)
			crc = crc >> 1 ^ (0xedb88320u & -(crc & 1));
	}
	return ~crc;
}

NOINLINE static void serve_request(struct worker *w)
{
	uint32_t wanted[MAX_WORDS];
	size_t n = parse_request(w, wanted, MAX_WORDS), found = 0;

	for (int i = 0; i < (is_sale ? 12 : 3); i++)
		found = search_catalogue(w, wanted, n);
	render_page(w, found);
	w->sums += (uint32_t)compress_page(&w->page) + checksum_page(&w->page);
}

/* ---- the index ---- */

NOINLINE static void add_posting(struct worker *w, uint32_t hash, uint32_t item)
{
	uint32_t at = hash % N_SLOTS;

	while (w->slots[at] && w->slots[at] != hash)
		at = (at + 1) % N_SLOTS;
	w->slots[at] = hash;
	w->last_seen[at] = item;
}

NOINLINE static void split_title(struct worker *w, uint32_t item)
{
	const char *title = items[item].title;

	for (size_t from = 0, i = 0;; i++) {
		if (title[i] && title[i] != ' ')
			continue;
		for (size_t end = from + 2; end <= i; end++)
			add_posting(w, hash_word(title + from, end - from), item);
		if (!title[i])
			return;
		from = i + 1;
	}
}

NOINLINE static void rebuild_index(struct worker *w)
{
	memset(w->slots, 0, sizeof(w->slots));
	for (uint32_t i = 0; i < N_ITEMS; i++)
		split_title(w, i);
	w->sums += w->last_seen[7];
}

/* ---- the threads ---- */

static void *run_worker(void *arg)
{
	struct worker *w = arg;

	if (sampler_begin(w->samples) == 0)
		while (!is_over)
			w->work(w);
	sampler_end(w->samples);
	return NULL;
}

static void fill_catalogue(void)
{
	uint32_t seed = 12345;

	for (uint32_t i = 0; i < N_ITEMS; i++) {
		items[i].price = 1 + next_random(&seed) % 100000;
		for (size_t k = 0; k < MAX_WORDS; k++) {
			const char *word = words[next_random(&seed) % N_WORDS];

			items[i].words[k] = hash_word(word, strlen(word));
			if (k)
				strcat(items[i].title, " ");
			strcat(items[i].title, word);
		}
	}
}

static int write_slice(const struct worker *w, const char *folder, unsigned slice)
{
	char path[4200];
	FILE *out;
	int r;

	snprintf(path, sizeof(path), "%s/%u-%s", folder, slice, w->name);
	out = fopen(path, "we");
	if (!out)
		return -1;
	r = samples_write(w->samples, out);
	return fclose(out) == 0 ? r : -1;
}

static int run_slice(struct worker *w, const char *folder, unsigned slice, long ms)
{
	const struct timespec pause = { ms / 1000, ms % 1000 * 1000000 };
	int r = 0;

	is_over = false;
	for (size_t i = 0; i < N_WORKERS; i++) {
		w[i].samples = samples_new();
		w[i].seed = 2463534242u + (uint32_t)i + slice;
		if (!w[i].samples || pthread_create(&w[i].thread, NULL, run_worker, &w[i]) != 0)
			return -1;
	}
	clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
	is_over = true;
	for (size_t i = 0; i < N_WORKERS; i++) {
		pthread_join(w[i].thread, NULL);
		r = write_slice(&w[i], folder, slice) < 0 ? -1 : r;
		samples_free(w[i].samples);
	}
	return r;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*work)(struct worker *w);
	} threads[N_WORKERS] = {
		{ "web-1", serve_request },
		{ "web-2", serve_request },
		{ "indexer", rebuild_index },
	};
	static struct worker workers[N_WORKERS];
	unsigned n_slices;

	if (argc != 4) {
		fprintf(stderr, "demo-shop: FOLDER SLICES MILLISECONDS\n");
		return 2;
	}
	n_slices = (unsigned)atoi(argv[2]);
	fill_catalogue();
	for (size_t i = 0; i < N_WORKERS; i++) {
		workers[i].name = threads[i].name;
		workers[i].work = threads[i].work;
	}
	for (unsigned i = 0; i < n_slices; i++) {
		is_sale = i >= n_slices / 2;
		if (run_slice(workers, argv[1], i, atol(argv[3])) < 0) {
			perror("demo-shop");
			return 1;
		}
	}
	return 0;
}
