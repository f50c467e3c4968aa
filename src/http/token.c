/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of tokens.
 */
#include "http/token.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include "base/vec.h"
#include "base/sha256.h"

#define FILE_MAX      MIB(4)
#define LOOK_EVERY_MS 500

static const struct {
	const char *name;
	unsigned scope, implies;
} scopes_table[] = {
	{ "read", TOKEN_READ, TOKEN_READ },
	{ "push", TOKEN_PUSH, TOKEN_PUSH | TOKEN_READ },
	{ "admin", TOKEN_ADMIN, TOKEN_ADMIN | TOKEN_PUSH | TOKEN_READ },
};

bool token_name_ok(struct str name)
{
	if (!name.size || name.size >= TOKEN_MAX_NAME)
		return false;
	for (size_t i = 0; i < name.size; i++)
		if ((unsigned char)name.p[i] <= ' ' || (unsigned char)name.p[i] > '~')
			return false;
	return true;
}

bool token_scopes_parse(struct str s, unsigned *ret)
{
	unsigned scopes = 0;

	do {
		struct str word = str_cut(&s, ',');
		size_t i = 0;

		while (i < ARRAY_SIZE(scopes_table) && !str_eq(word, str_of(scopes_table[i].name)))
			i++;
		if (i == ARRAY_SIZE(scopes_table))
			return false;
		scopes |= scopes_table[i].scope;
	} while (s.p);
	*ret = scopes;
	return true;
}

void token_scopes_print(unsigned scopes, struct buf *out)
{
	const char *comma = "";

	for (size_t i = 0; i < ARRAY_SIZE(scopes_table); i++) {
		if (!(scopes & scopes_table[i].scope))
			continue;
		buf_printf(out, "%s%s", comma, scopes_table[i].name);
		comma = ",";
	}
}

static bool scopes_include(unsigned scopes, enum token_scope scope)
{
	for (size_t i = 0; i < ARRAY_SIZE(scopes_table); i++)
		if ((scopes & scopes_table[i].scope) && (scopes_table[i].implies & scope))
			return true;
	return false;
}

void token_hash(struct str secret, uint8_t ret[TOKEN_HASH_SIZE])
{
	sha256_of(bytes_of(secret.p, secret.size), ret);
}

int token_make(struct str name, unsigned scopes, struct token *ret, char secret[TOKEN_SECRET_SIZE],
	       struct err *err)
{
	uint8_t bits[32];

	if (sha256_load(err) < 0)
		return -1;
	if (getrandom(bits, sizeof(bits), 0) != sizeof(bits))
		return err_os(err, errno, "getrandom");
	memcpy(secret, "lode_", 5);
	hex_encode(bytes_of(bits, sizeof(bits)), secret + 5);
	*ret = (struct token){ .scopes = scopes, .created = clock_wall_s() };
	memcpy(ret->name, name.p, name.size);
	token_hash(str_of(secret), ret->hash);
	return 0;
}

/* ---- the file ---- */

static int token_read_line(struct str line, struct token *ret, struct err *err)
{
	struct str name = str_cut(&line, ' '), scopes = str_cut(&line, ' '), created = str_cut(&line, ' ');
	struct token t = { 0 };
	uint64_t when;
	size_t n;

	if (!token_name_ok(name) || !token_scopes_parse(scopes, &t.scopes) || !str_to_u64(created, &when) ||
	    !hex_decode(line, false, t.hash, sizeof(t.hash), &n) || n != sizeof(t.hash))
		return err_set(err, ERR_INVALID, "not a line of 'name scopes created sha256'");
	memcpy(t.name, name.p, name.size);
	t.created = (int64_t)when;
	*ret = t;
	return 0;
}

int tokens_read(const char *path, struct token **ret, size_t *ret_n, struct err *err)
{
	AUTO(buf_done) struct buf b = { 0 };
	AUTO(mem_freep) struct token *list = NULL;
	struct str text;
	size_t n = 0, room = 0;
	int r = file_read(path, FILE_MAX, &b, err);

	if (r)
		return r;
	text = buf_str(&b);
	for (size_t line = 1; text.size; line++) {
		struct str s = str_cut(&text, '\n');

		if (!s.size || s.p[0] == '#')
			continue;
		if (n == TOKENS_MAX)
			return err_set(err, ERR_LIMIT, "%s: more than %u tokens", path, TOKENS_MAX);
		if (token_read_line(s, &VEC_PUSH(list, n, room), err) < 0)
			return err_in(err, "%s: line %zu", path, line);
	}
	*ret = TAKE(list);
	*ret_n = n;
	return 0;
}

int tokens_write(const char *path, const struct token *list, size_t n, struct err *err)
{
	AUTO(buf_done) struct buf b = { 0 };
	AUTO(file_temp_done) struct file_temp t = FILE_TEMP_NONE;

	for (size_t i = 0; i < n; i++) {
		char hex[2 * TOKEN_HASH_SIZE + 1];

		buf_printf(&b, "%s ", list[i].name);
		token_scopes_print(list[i].scopes, &b);
		buf_printf(&b, " %lld %s\n", (long long)list[i].created,
			   hex_encode(bytes_of(list[i].hash, TOKEN_HASH_SIZE), hex));
	}
	if (file_temp_open(path, 0600, &t, err) < 0 ||
	    fd_write(t.fd, b.p ? (const void *)b.p : "", b.size, err) < 0)
		return err_in(err, "%s", path);
	/* Before it has its name: the service reads it at once. */
	return file_own_as_folder(t.fd, path, err) < 0 ? -1 : file_temp_commit(&t, err);
}

/* ---- a server's ---- */

struct tokens {
	char *path; /* NULL: none */
	pthread_mutex_t lock;
	/* under the lock */
	struct token *list;
	size_t n;
	bool closed; /* there is a file: only its tokens count, even if it has none or cannot be read */
	int64_t look_ms;
	int failed; /* errno of the last stat() */
	struct stat st;
};

/* Under the lock. Reads the file again if it, its owner or its permissions have changed. */
static void tokens_refresh(struct tokens *t)
{
	int64_t now_ms = clock_mono_ms();
	struct err err = { 0 };
	struct token *list = NULL;
	struct stat st = { 0 };
	int failed = 0, was, r;
	size_t n = 0;

	if (!t->path || now_ms < t->look_ms)
		return;
	t->look_ms = now_ms + LOOK_EVERY_MS;
	if (stat(t->path, &st) < 0) {
		/* Only a file that is certainly not there gives this machine its rights. A link that leads nowhere is there. */
		failed = errno;
		if ((failed == ENOENT || failed == ENOTDIR) && lstat(t->path, &st) < 0)
			failed = errno == ENOENT || errno == ENOTDIR ? 0 : errno;
		st = (struct stat){ 0 };
	}
	if (failed == t->failed && st.st_ino == t->st.st_ino && st.st_size == t->st.st_size &&
	    st.st_ctim.tv_sec == t->st.st_ctim.tv_sec && st.st_ctim.tv_nsec == t->st.st_ctim.tv_nsec)
		return;
	t->st = st;
	was = t->failed;
	r = failed ? err_os(&err, failed, "%s", t->path) : tokens_read(t->path, &list, &n, &err);
	t->closed = failed || st.st_ino;
	/* What the system could not read is read again at the next look, although the file is the same. */
	t->failed = r < 0 && err.os ? err.os : failed;
	if (r < 0 && t->failed && t->failed == was)
		log_debug("server", "tokens: %s", err.text);
	else if (r < 0 && t->failed)
		log_error("server", "tokens: %s: no token is accepted until the file can be read", err.text);
	else if (r < 0)
		log_error("server", "tokens: %s: no token is accepted until the file is corrected", err.text);
	else if (t->closed && !n)
		log_warn(
			"server",
			"tokens: %s has no token: no client may push until 'lode token add' adds one, or the "
			"file is removed",
			t->path);
	free(t->list);
	t->list = list;
	t->n = n;
}

struct tokens *tokens_new(const char *path)
{
	struct tokens *t = NEW(struct tokens);

	t->path = path ? mem_strdup(path) : NULL;
	pthread_mutex_init(&t->lock, NULL);
	return t;
}

void tokens_free(struct tokens *t)
{
	if (!t)
		return;
	pthread_mutex_destroy(&t->lock);
	free(t->list);
	free(t->path);
	free(t);
}

bool tokens_any(struct tokens *t)
{
	bool any;

	pthread_mutex_lock(&t->lock);
	tokens_refresh(t);
	any = t->closed;
	pthread_mutex_unlock(&t->lock);
	return any;
}

/* Takes the same time wherever the two differ. */
static bool token_hash_eq(const uint8_t a[TOKEN_HASH_SIZE], const uint8_t b[TOKEN_HASH_SIZE])
{
	volatile uint8_t differ = 0;

	for (size_t i = 0; i < TOKEN_HASH_SIZE; i++)
		differ |= a[i] ^ b[i];
	return differ == 0;
}

int tokens_check(struct tokens *t, struct str secret, enum token_scope scope, char ret_name[TOKEN_MAX_NAME])
{
	uint8_t hash[TOKEN_HASH_SIZE];
	int r = TOKEN_UNKNOWN;

	token_hash(secret, hash);
	pthread_mutex_lock(&t->lock);
	tokens_refresh(t);
	for (size_t i = 0; i < t->n; i++) {
		if (!token_hash_eq(hash, t->list[i].hash))
			continue;
		r = scopes_include(t->list[i].scopes, scope) ? 0 : TOKEN_NOT_ALLOWED;
		memcpy(ret_name, t->list[i].name, TOKEN_MAX_NAME);
		break;
	}
	pthread_mutex_unlock(&t->lock);
	return r;
}
