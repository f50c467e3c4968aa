/* SPDX-License-Identifier: Apache-2.0 */
/* Files that agents offer. They send neither a size nor a hash with the question, so the quality alone counts. */
#include "server/push/offer.h"

#include "resolve/resolve.h"
#include "server/push/pass.h"
#include "wire/proto.h"

struct str offer_text(struct bytes message, uint32_t number)
{
	struct str ret = STR("");
	struct cursor c = cursor_of(message);
	struct proto_field f;

	while (proto_next(&c, &f))
		if (f.number == number && f.wire == PROTO_LEN)
			ret = proto_text(&f);
	return ret;
}

uint64_t offer_number(struct bytes message, uint32_t number)
{
	struct cursor c = cursor_of(message);
	struct proto_field f;
	uint64_t ret = 0;

	while (proto_next(&c, &f))
		if (f.number == number && f.wire == PROTO_VARINT)
			ret = f.v;
	return ret;
}

int offer_check_store(struct api *a, struct err *err)
{
	if (a->req->s->push)
		return 0;
	a->status = 501;
	return err_set(err, ERR_INVALID, "this server takes no files: it has no store");
}

/* The best that is in the store, on disk. */
static enum offer offer_stored(struct api *a, const struct build_id *id)
{
	static const enum store_kind kinds[] = { STORE_DEBUGINFO, STORE_EXECUTABLE };
	struct build_id of_file = *id;
	enum offer best = OFFER_NEW;

	(void)store_alias(a->req->s->opts.store, id, &of_file);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		const struct store_key key = { .id = of_file, .kind = kinds[i] };
		struct store_meta there;
		struct err err = { 0 };
		int r = store_find_sure(a->req->s->opts.store, &key, STORE_ON_DISK, a->arena, &there, &err);

		if (r != 0 && r != STORE_HELD)
			continue;
		if (there.quality >= STORE_SYMBOLS)
			return OFFER_HERE;
		if (there.quality == STORE_DYNSYM)
			best = OFFER_DYNSYM;
	}
	return best;
}

/* In a folder or package that this server has scanned. A debug file whose package is still unread counts, too. */
static bool offer_is_scanned(struct api *a, const struct build_id *id)
{
	return resolve_flags(a->req->s->opts.resolver, id) & (ELF_IS_DEBUG | ELF_HAS_DWARF | ELF_HAS_SYMTAB);
}

enum offer offer_judge(struct api *a, const struct build_id *id)
{
	struct push *p = a->req->s->push;
	struct store *st = a->req->s->opts.store;
	struct build_id key;

	if (upload_is_running(p, id) || pass_is_open(p->passes, id))
		return OFFER_RUNS;
	/* Of a program on this machine, or in a package: its agent has a part of it at most. */
	if (!store_alias(st, id, &key) && resolve_alias(a->req->s->opts.resolver, id, &key))
		return OFFER_HERE;
	return offer_is_scanned(a, id) ? OFFER_HERE : offer_stored(a, id);
}

const char *offer_reason(enum offer o)
{
	static const char *const reasons[] = {
		[OFFER_NEW] = "no file with symbols is here",
		[OFFER_RUNS] = OFFER_IN_PROGRESS,
		[OFFER_DYNSYM] =
			"the dynamic symbols are here already; force the upload of a file that has more",
		[OFFER_HERE] = "a file with symbols is here already",
	};

	return reasons[o];
}

/* The sum of all bodies is that of want lists, which clients that may push alone send. */
const struct http_body push_call_body = {
	.slot = BODY_WANT,
	.max = API_MAX_QUERY,
	.max_together = PUSH_WANT_MAX_TOGETHER,
	.too_long = API_QUERY_TOO_LONG,
};
