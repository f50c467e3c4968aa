/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A function is 8 bytes, its address relative to a base and the position of its name, and its name, with its module after a tab
 * as the file has it. Of several names for one address the first global one stays. The file is read in pieces, so that its
 * 10 MB are never in memory.
 *
 * Changes: reading the file takes 90 ms of CPU, and nothing says that it has changed. It is read again when the list of
 * modules has another hash, or when a sample is at an address that is in no known function, at most once a minute; and
 * every ten minutes if samples were outside of the kernel's own text, where BPF programs and modules come and go.
 */
#include "agent/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/search.h"
#include "base/vec.h"

#define CHUNK            KIB(64)
#define MODULES_TEXT_MAX MIB(4)
#define NAME_MAX_SIZE    512u
#define LOCAL_NAME       (UINT32_C(1) << 31) /* in .name: not a global function; sorts last */
#define REACH            (UINT64_C(1) << 31) /* the base is this far below the first function */
/* Further from the start of a module's function is no part of it: another module or BPF program is there. */
#define FUNCTION_MAX (UINT64_C(1) << 15)
#define REFRESH_MS   60000
#define OUTSIDE_MS   600000

struct kernel_entry {
	uint32_t at, name;
};

struct kernel_names {
	char *path;
	uint64_t base, text, text_end; /* of the kernel itself; 0: not known */
	struct kernel_entry *list;     /* rising */
	size_t n, room;
	struct buf names;
	bool hidden, missing, was_outside, has_missed;
	bool has_failed; /* the file could not be read the last time */
	uint64_t modules_hash;
	int64_t read_ms;
};

/* ---- reading ---- */

static bool kernel_line_hex(struct str s, uint64_t *ret)
{
	*ret = 0;
	for (size_t i = 0; i < s.size; i++) {
		int digit = hex_digit(s.p[i], false);

		if (digit < 0 || i >= 16)
			return false;
		*ret = *ret << 4 | (unsigned)digit;
	}
	return s.size != 0;
}

/* "ffffffff81000000 T _text", "ffffffffc0000000 t f	[mod]"; data is ignored. */
static void kernel_add_line(struct kernel_names *k, struct str line, bool *zeros)
{
	struct str text = str_cut(&line, ' '), type = str_cut(&line, ' '), name = line;
	uint64_t addr;
	bool local;

	if (!kernel_line_hex(text, &addr) || type.size != 1 || !name.size || name.size > NAME_MAX_SIZE ||
	    !strchr("tTwW", *type.p))
		return;
	if (!addr) {
		*zeros = true;
		return;
	}
	if (str_eq(name, STR("_text")))
		k->text = addr;
	if (str_eq(name, STR("_etext")))
		k->text_end = addr;
	if (!k->base)
		k->base = addr > REACH ? addr - REACH : 0;
	if (addr < k->base || addr - k->base > UINT32_MAX || k->n >= KERNEL_MAX_NAMES ||
	    k->names.size > LOCAL_NAME - NAME_MAX_SIZE - 1)
		return;
	local = *type.p != 'T';
	VEC_PUSH(k->list, k->n, k->room) = (struct kernel_entry){
		.at = (uint32_t)(addr - k->base), .name = (uint32_t)k->names.size | (local ? LOCAL_NAME : 0)
	};
	for (size_t i = 0; i < name.size; i++)
		buf_add_char(&k->names,
			     (unsigned char)name.p[i] < ' ' && name.p[i] != '\t' ? '?' : name.p[i]);
	buf_add_char(&k->names, '\0');
}

static int kernel_entry_cmp(const void *a, const void *b)
{
	const struct kernel_entry *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name;
}

static void kernel_clear(struct kernel_names *k)
{
	k->n = 0;
	k->names.size = 0;
	k->base = k->text = k->text_end = 0;
	k->hidden = k->missing = k->was_outside = k->has_missed = false;
}

/* Sort, and keep one name for each address. Memory is cut to the needed size. */
static void kernel_pack(struct kernel_names *k, bool zeros)
{
	size_t n = 0;

	if (k->n)
		qsort(k->list, k->n, sizeof(*k->list), kernel_entry_cmp);
	for (size_t i = 0; i < k->n; i++)
		if (!n || k->list[n - 1].at != k->list[i].at)
			k->list[n++] = k->list[i];
	k->n = n;
	k->hidden = !n && zeros;
	k->missing = !n && !zeros;
	if (!n)
		return;
	k->list = mem_realloc(k->list, n, sizeof(*k->list));
	k->room = n;
	k->names.p = mem_realloc(k->names.p, k->names.size, 1);
	k->names.room = k->names.size;
}

/* Whole lines of @text; the rest stays. Returns the bytes used. */
static size_t kernel_feed(struct kernel_names *k, struct str text, bool end, bool *zeros)
{
	size_t used = 0;

	for (;;) {
		const char *at = text.p + used, *stop = memchr(at, '\n', text.size - used);

		if (!stop && !(end && used < text.size))
			return used;
		kernel_add_line(k, (struct str){ at, stop ? (size_t)(stop - at) : text.size - used }, zeros);
		used = stop ? used + (size_t)(stop - at) + 1 : text.size;
	}
}

size_t kernel_names_load(struct kernel_names *k, struct str text)
{
	bool zeros = false;

	kernel_clear(k);
	if (text.size)
		kernel_feed(k, text, true, &zeros);
	kernel_pack(k, zeros);
	return k->n;
}

/* Fill @k, which is empty. false: the file cannot be read, or not to its end. */
static bool kernel_read_lines(struct kernel_names *k)
{
	AUTO(fd_close) int fd = open(k->path, O_RDONLY | O_CLOEXEC);
	AUTO(mem_freep) char *text = mem_alloc(CHUNK);
	uint64_t total = 0;
	size_t held = 0;
	bool zeros = false, whole = fd >= 0;

	while (fd >= 0 && total < KERNEL_MAX_BYTES) {
		ssize_t got = read(fd, text + held, CHUNK - held);
		size_t used;

		if (got < 0 && errno == EINTR)
			continue;
		whole = got >= 0;
		if (got <= 0)
			break;
		held += (size_t)got;
		total += (uint64_t)got;
		used = kernel_feed(k, (struct str){ text, held }, false, &zeros);
		/* A line that fills the buffer is none. */
		if (!used && held == CHUNK)
			used = held;
		held -= used;
		memmove(text, text + used, held);
	}
	kernel_pack(k, zeros);
	return whole;
}

/*
 * Names from before stay if there are no new ones for want of a descriptor or memory: without them the kernel had none for
 * the rest of the run, and with a part of them the wrong ones.
 */
static bool kernel_read_file(struct kernel_names *k)
{
	struct kernel_names fresh = { .path = k->path, .modules_hash = k->modules_hash };

	if (kernel_read_lines(&fresh)) {
		free(k->list);
		buf_done(&k->names);
		*k = fresh;
		return true;
	}
	free(fresh.list);
	buf_done(&fresh.names);
	k->missing = !k->n;
	k->has_failed = true;
	return false;
}

static uint64_t kernel_modules_hash(void)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct err ignored = { 0 };

	/* Reference counts change all the time: only names and addresses count. */
	uint64_t hash = 0;

	if (file_read("/proc/modules", MODULES_TEXT_MAX, &text, &ignored) != 0)
		return 0;
	for (struct str rest = buf_str(&text); rest.size;) {
		struct str line = str_cut(&rest, '\n'), name = str_word(&line);

		hash = hash64(name.p, name.size, hash);
	}
	return hash;
}

/* ---- the module's interface ---- */

struct kernel_names *kernel_names_new(const char *path)
{
	struct kernel_names *k = NEW(struct kernel_names);

	k->path = mem_strdup(path ? path : "/proc/kallsyms");
	k->modules_hash = kernel_modules_hash();
	kernel_read_file(k);
	k->read_ms = clock_mono_ms();
	return k;
}

void kernel_names_free(struct kernel_names *k)
{
	if (!k)
		return;
	free(k->path);
	free(k->list);
	buf_done(&k->names);
	free(k);
}

enum kernel_state kernel_names_state(const struct kernel_names *k, uint64_t *ret_text)
{
	*ret_text = k->text;
	return k->hidden ? KERNEL_HIDDEN : k->missing ? KERNEL_MISSING : KERNEL_NAMED;
}

bool kernel_names_at(struct kernel_names *k, uint64_t addr, struct kernel_symbol *ret)
{
	bool outside = k->text_end && (addr < k->text || addr >= k->text_end);
	const struct kernel_entry *e;
	struct str name;
	size_t lo;

	k->was_outside |= outside;
	if (!k->n || addr < k->base || addr - k->base > UINT32_MAX)
		goto missed;
	lo = SEARCH(0, k->n, i, k->list[i].at <= addr - k->base);
	if (!lo)
		goto missed;
	e = &k->list[lo - 1];
	if (outside && addr - k->base - e->at > FUNCTION_MAX)
		goto missed;
	name = str_of((const char *)k->names.p + (e->name & ~LOCAL_NAME));
	*ret = (struct kernel_symbol){ .name = str_cut(&name, '\t'), .start = k->base + e->at };
	if (name.p && name.size > 2 && *name.p == '[')
		ret->module = (struct str){ name.p + 1, name.size - 2 };
	return true;
missed:
	k->has_missed |= k->n != 0;
	return false;
}

bool kernel_names_refresh(struct kernel_names *k)
{
	int64_t now_ms = clock_mono_ms();
	uint64_t hash;
	bool done;

	if (now_ms - k->read_ms < REFRESH_MS)
		return false;
	hash = kernel_modules_hash();
	if (hash == k->modules_hash && !k->has_missed && !k->has_failed &&
	    (!k->was_outside || now_ms - k->read_ms < OUTSIDE_MS))
		return false;
	k->modules_hash = hash;
	done = kernel_read_file(k);
	k->read_ms = now_ms;
	return done;
}

size_t kernel_names_size(const struct kernel_names *k, size_t *ret_n)
{
	*ret_n = k->n;
	return k->room * sizeof(*k->list) + k->names.room;
}
