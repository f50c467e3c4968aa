/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All identities of a file: GNU's note, Go's note, the hash of both its ends.
 *
 * The hash is that of libpf.FileIDFromExecutableReader() in OpenTelemetry's eBPF profiler, which is the attribute
 * process.executable.build_id.htlhash. Only files that processes map as code are hashed: no profiler reports another.
 */
#include "elf/internal.h"

#include <assert.h>
#include <elf.h>
#include "base/sha256.h"

#define HASH_END KIB(4)

static_assert(HASH_END == ELF_HEAD_SIZE, "a probe keeps the first end anyway");

int elf_file_hash(struct source *src, struct build_id *ret, struct err *err)
{
	uint8_t b[2 * HASH_END + 8], sum[SHA256_SIZE];
	size_t end = (size_t)MIN(src->size, (uint64_t)HASH_END);
	uint8_t *size = b + 2 * end;

	if (source_read_full(src, 0, b, end, SOURCE_RANDOM, err) < 0 ||
	    source_read_full(src, src->size - end, b + end, end, SOURCE_RANDOM, err) < 0)
		return -1;
	for (unsigned i = 0; i < 8; i++)
		size[i] = (uint8_t)(src->size >> (56 - 8 * i));
	sha256_small(bytes_of(b, 2 * end + 8), sum);
	build_id_set(ret, bytes_of(sum, BUILD_ID_HASH_SIZE));
	return 0;
}

/* Processes map it as code. A kernel module is none: profilers name it by its GNU build ID. */
static bool is_mapped_code(const struct elf_facts *f)
{
	return f->flags & ELF_IS_EXECUTABLE && (f->type == ET_EXEC || f->type == ET_DYN);
}

static void aliases_add(struct elf_aliases *to, enum build_id_kind kind, const struct build_id *id)
{
	if (id->size)
		to->v[to->n++] = (struct elf_alias){ kind, *id };
}

int elf_identify(struct source *src, struct elf_facts *ret, enum build_id_kind *ret_kind,
		 struct elf_aliases *ret_aliases, struct err *err)
{
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct build_id gnu = { 0 }, go = { 0 }, hash = { 0 };
	struct elf_aliases aliases = { .n = 0 };
	enum build_id_kind kind = BUILD_ID_GNU;
	struct elf_facts facts;
	int r = elf_open(src, &img, err);

	if (r)
		return r;
	if (elf_facts_of(img, &facts, err) < 0 || elf_note_identities(img, &gnu, &go, err) < 0)
		return -1;
	if (is_mapped_code(&facts) && elf_file_hash(src, &hash, err) < 0)
		return -1;
	if (gnu.size) {
		aliases_add(&aliases, BUILD_ID_GO, &go);
	} else if (go.size) {
		kind = BUILD_ID_GO;
	} else {
		kind = BUILD_ID_HASH;
		facts.build_id = hash;
	}
	if (kind != BUILD_ID_HASH)
		aliases_add(&aliases, BUILD_ID_HASH, &hash);
	*ret = facts;
	*ret_kind = kind;
	*ret_aliases = aliases;
	return 0;
}

bool elf_is_identified_by(struct source *src, const struct elf_image *img, const struct build_id *id)
{
	struct build_id gnu, go, hash;
	struct err ignored = { 0 };

	if (elf_note_identities(img, &gnu, &go, &ignored) < 0)
		return false;
	if (build_id_eq(&gnu, id) || build_id_eq(&go, id))
		return true;
	return id->size == BUILD_ID_HASH_SIZE && elf_file_hash(src, &hash, &ignored) == 0 &&
	       build_id_eq(&hash, id);
}

bool elf_is_answer_to(struct source *src, const struct elf_image *img, const struct build_id *id, bool debug)
{
	struct build_id own = { 0 };

	if (elf_build_id(img, &own, NULL) == 0 && build_id_eq(&own, id))
		return true;
	if (!build_id_may_be_alias(id))
		return false;
	return elf_is_identified_by(src, img, id) ||
	       (debug && id->size == BUILD_ID_HASH_SIZE && own.size && own.size != BUILD_ID_HASH_SIZE);
}
