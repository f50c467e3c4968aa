/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens: the right to read, push and remove.
 *
 * A small file of lines "name scopes created sha256", mode 0600, one token per line. A server keeps it in
 * memory and reads it again when it changes; only `lode token` writes it, to another file that it renames.
 * A token is 256 random bits and is shown once. The file has its SHA-256: unlike a password, it needs no
 * salt and no slow hash against guessing.
 */
#pragma once

#include "base/base.h"

enum token_scope {
	TOKEN_READ = 1 << 0,
	TOKEN_PUSH = 1 << 1,  /* and read */
	TOKEN_ADMIN = 1 << 2, /* and all else */
};

#define TOKEN_MAX_NAME    64 /* with its NUL */
#define TOKEN_HASH_SIZE   32
#define TOKEN_SECRET_SIZE (5 + 64 + 1) /* "lode_" and 64 digits */
#define TOKENS_MAX        10000u

struct token {
	char name[TOKEN_MAX_NAME];
	unsigned scopes;
	int64_t created;
	uint8_t hash[TOKEN_HASH_SIZE];
};

bool token_name_ok(struct str name);
/* "read,push": false for other words. */
bool token_scopes_parse(struct str s, unsigned *ret);
void token_scopes_print(unsigned scopes, struct buf *out);
void token_hash(struct str secret, uint8_t ret[TOKEN_HASH_SIZE]);
/* Make a new secret and its token. */
int token_make(struct str name, unsigned scopes, struct token *ret, char secret[TOKEN_SECRET_SIZE],
	       struct err *err);

/* The whole file, on the heap. FILE_MISSING. A malformed line is ERR_INVALID. */
int tokens_read(const char *path, struct token **ret, size_t *ret_n, struct err *err);
int tokens_write(const char *path, const struct token *list, size_t n, struct err *err);

/*
 * For a server: the file at @path, also when it appears, changes or is removed later; NULL: no tokens. Safe
 * for many threads.
 */
struct tokens;
struct tokens *tokens_new(const char *path);
void tokens_free(struct tokens *t); /* takes NULL */
/* Is there a file? One that is empty or cannot be read counts as one with tokens that no client has. */
bool tokens_any(struct tokens *t);
enum { TOKEN_UNKNOWN = 1, TOKEN_NOT_ALLOWED = 2 };
/* 0 and the name of the token with this secret, if it has @scope. */
int tokens_check(struct tokens *t, struct str secret, enum token_scope scope, char ret_name[TOKEN_MAX_NAME]);
