/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fetched file on its way into the store, under the build ID and with the aliases that its bytes have.
 */
#include "resolve/internal.h"

#include <fcntl.h>
#include <stdlib.h>

#define KEEP_PIECE KIB(256)

static const enum store_kind store_kinds[RESOLVE_N_KINDS] = {
	[RESOLVE_DEBUGINFO] = STORE_DEBUGINFO,
	[RESOLVE_EXECUTABLE] = STORE_EXECUTABLE,
	[RESOLVE_SOURCE] = STORE_SOURCE,
	[RESOLVE_SECTION] = STORE_SECTION,
};

/* In chunks, so that a server that is stopping need not wait for the rest. STORE_FULL as
 * store_put_write(). */
static int remote_copy(struct remote *m, struct store_put *put, struct err *err)
{
	AUTO(mem_freep) uint8_t *piece = mem_alloc(KEEP_PIECE);
	size_t got;
	int r;

	for (uint64_t at = 0; at < m->size; at += got) {
		if (atomic_load(&m->up->closing))
			return err_set(err, ERR_CANCELLED, "the server is stopping");
		if (fd_pread(m->fd, piece, KEEP_PIECE, at, &got, err) < 0)
			return -1;
		r = store_put_write(put, bytes_of(piece, got), err);
		if (r)
			return r;
		if (!got)
			return err_set(err, ERR_INTERNAL, "the fetched file is truncated");
	}
	return store_put_end(put, NULL, NULL, err);
}

static void meta_add_identity(struct store_meta *meta, enum build_id_kind kind, const struct build_id *id)
{
	if (kind == BUILD_ID_GO)
		meta->go = *id;
	else
		(void)store_meta_add_hash(meta, id);
}

/*
 * The object's build ID, quality and aliases, from its file. Whichever identity was asked for, the key is the file's build
 * ID; the hash that a debug file was asked for by is that of its program.
 */
static void remote_identify(struct remote *m, struct build_id *ret_id, struct store_meta *ret)
{
	const struct build_id *asked = &m->what.id;
	struct elf_aliases aliases;
	enum build_id_kind kind;
	struct elf_facts facts;
	struct source *src;
	int fd, r;

	*ret_id = *asked;
	ret->quality = STORE_DWARF;
	if (m->what.kind != RESOLVE_DEBUGINFO && m->what.kind != RESOLVE_EXECUTABLE)
		return;
	ret->quality = STORE_STRIPPED;
	fd = fcntl(m->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return;
	src = source_of_fd(fd, m->size, 0, "its file");
	r = elf_identify(src, &facts, &kind, &aliases, NULL);
	source_close(src);
	if (r)
		return;
	ret->quality = store_quality_of(facts.flags);
	for (unsigned i = 0; i < aliases.n; i++)
		meta_add_identity(ret, aliases.v[i].kind, &aliases.v[i].id);
	if (!facts.build_id.size || build_id_eq(&facts.build_id, asked))
		return;
	*ret_id = facts.build_id;
	if (asked->size == BUILD_ID_HASH_SIZE)
		meta_add_identity(ret, BUILD_ID_HASH, asked);
}

static int remote_store(struct remote *m, struct err *err)
{
	const struct store_put_options opts = { .size = m->size };
	struct store_key key = { m->what.id, store_kinds[m->what.kind], m->what.arg };
	struct store_meta meta = {
		.origin = STORE_FETCHED,
		.mtime = m->mtime,
		.from = m->url,
		.file = m->file,
		.archive = m->archive,
	};
	struct store_put *put;
	int r;

	remote_identify(m, &key.id, &meta);
	r = store_put_begin(m->up->opts.store, &opts, &put, err);
	if (r)
		return r;
	r = remote_copy(m, put, err);
	if (r) {
		store_put_abort(put);
		return r;
	}
	return store_put_commit(put, &key, &meta, STORE_IF_BETTER, err);
}

void remote_keep(void *arg)
{
	struct remote *m = arg;
	struct resolver_upstream *c = m->up;
	struct err err = { 0 };
	char hex[BUILD_ID_HEX_SIZE];
	int r = remote_store(m, &err);

	if (r < 0 && err.kind != ERR_CANCELLED)
		log_warn("store", "cannot store the fetched %s of %s: %s", resolve_kind_name(m->what.kind),
			 build_id_hex(&m->what.id, hex), err.text);
	atomic_fetch_add(r < 0 || r == STORE_FULL ? &c->n_not_stored : &c->n_stored, 1);
	remote_land(m);
	remote_unref(m);
}
