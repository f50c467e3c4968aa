/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of a pushed file: an ELF file of that build ID and kind; a tar whose members have safe names.
 */
#include "server/push/push.h"

#include <elf.h>
#include "elf/elf.h"
#include "pkg/pkg.h"

#define TAIL_BLOCK    KIB(64)
#define N_TAIL_BLOCKS 4

/* Whichever identity it was pushed under, the object's key is the file's build ID. */
static int check_identity(struct push_request *pr, const struct build_id *id,
			  const struct elf_aliases *aliases, struct err *err)
{
	char want[BUILD_ID_HEX_SIZE], got[BUILD_ID_HEX_SIZE];
	bool is_same = build_id_eq(id, &pr->key.id);

	for (unsigned i = 0; i < aliases->n; i++) {
		const struct elf_alias *a = &aliases->v[i];

		is_same |= build_id_eq(&a->id, &pr->key.id);
		if (a->kind == BUILD_ID_GO)
			pr->meta.go = a->id;
		else
			(void)store_meta_add_hash(&pr->meta, &a->id);
	}
	if (!is_same)
		return err_set(err, ERR_INVALID, "its build ID is %s, not %s: push it under its own build ID",
			       build_id_hex(id, got), build_id_hex(&pr->key.id, want));
	pr->key.id = *id;
	return 0;
}

/* Open a file that was found to be an ELF file. PUSH_NOTHING: it is too damaged for that. A failure to read it says nothing. */
static int open_judged(struct source *src, struct elf_image **ret, struct err *err)
{
	int r = elf_open(src, ret, err);

	return r < 0 && err->kind != ERR_INVALID ? -1 : r ? PUSH_NOTHING : 0;
}

/* What names addresses where there is nothing better: dynamic symbols, or Go's own table. */
static int has_dynamic_symbols(struct source *src, struct err *err)
{
	struct elf_image *img = NULL;
	bool found = false;
	int r = open_judged(src, &img, err);

	if (r)
		return r;
	for (uint32_t i = 0; i < img->n_sections; i++) {
		const struct elf_section *s = &img->sections[i];

		found |= s->type == SHT_DYNSYM && s->size > sizeof(Elf64_Sym);
		found |= s->type == SHT_PROGBITS && s->size && str_eq(s->name, STR(".gopclntab"));
	}
	elf_close(img);
	return found ? 0 : PUSH_NOTHING;
}

/* A program that is here and its debug file have the same build ID. */
static int check_program_of_hash(const struct push_request *pr, const struct elf_facts *facts,
				 struct err *err)
{
	char want[BUILD_ID_HEX_SIZE];

	if (!pr->program.size || build_id_eq(&facts->build_id, &pr->program))
		return 0;
	return err_set(err, ERR_INVALID,
		       "the program with this hash is here, and has the build ID %s, which this file has not",
		       build_id_hex(&pr->program, want));
}

/*
 * A file for a hash that the sender has computed of the program: that of a stripped file is another one, so it is not
 * compared. parca-agent (0.49) names programs by their hash when it has not read their GNU build ID. Such a file is kept
 * under its build ID, and the hash becomes an alias: what other clients bring or ask for is the same object.
 */
static void take_name_of_sender(struct push_request *pr, const struct elf_facts *facts,
				enum build_id_kind kind)
{
	if (!facts->build_id.size || kind != BUILD_ID_GNU || build_id_eq(&facts->build_id, &pr->key.id))
		return;
	(void)store_meta_add_hash(&pr->meta, &pr->key.id);
	pr->key.id = facts->build_id;
}

static int check_elf(struct push_request *pr, struct source *src, struct err *err)
{
	struct elf_facts facts = { 0 };
	struct elf_aliases aliases;
	enum build_id_kind kind;
	struct source *cached = source_cached(src, false, TAIL_BLOCK, N_TAIL_BLOCKS);
	int r = elf_identify(cached, &facts, &kind, &aliases, err);

	source_close(cached);
	if (r < 0)
		return err_in(err, "a damaged ELF file");
	if (r)
		return elf_foreign_source_err(src, err);
	if (pr->by_sender && check_program_of_hash(pr, &facts, err) < 0)
		return -1;
	if (pr->by_sender)
		take_name_of_sender(pr, &facts, kind);
	if (!pr->by_sender && !facts.build_id.size)
		return err_set(err, ERR_INVALID,
			       "an ELF file without a build ID that is no program: link its program with "
			       "--build-id, "
			       "then push both");
	if (!pr->by_sender && check_identity(pr, &facts.build_id, &aliases, err) < 0)
		return -1;
	pr->meta.quality = store_quality_of(facts.flags);
	if (pr->key.kind == STORE_EXECUTABLE && !(facts.flags & ELF_IS_EXECUTABLE))
		return err_set(err, ERR_INVALID, "not a program or library%s",
			       facts.flags & ELF_IS_DEBUG ? ", but a debug file: push it as debuginfo" : "");
	if (pr->key.kind != STORE_DEBUGINFO || facts.flags & (ELF_IS_DEBUG | ELF_HAS_DWARF | ELF_HAS_SYMTAB))
		return 0;
	/* push_kind_of() has found dynamic symbols. */
	if (!pr->by_content)
		return err_set(err, ERR_INVALID, "it has neither debug information nor a symbol table%s",
			       facts.flags & ELF_IS_EXECUTABLE ? ": push it as executable" : "");
	pr->meta.quality = STORE_DYNSYM;
	return 0;
}

static int check_member(const struct pkg_member *m, struct err *err)
{
	if (m->unsafe)
		return err_set(err, ERR_INVALID, "the name of a member contains '..': '%.*s' without it",
			       (int)MIN(m->path.size, (size_t)200), m->path.p);
	if (m->type != PKG_FILE && m->type != PKG_DIR && m->type != PKG_HARDLINK)
		return err_set(
			err, ERR_INVALID,
			"member '%.*s' is a link or a special file: only files and folders are accepted",
			(int)MIN(m->path.size, (size_t)200), m->path.p);
	if (m->sparse)
		return err_set(err, ERR_INVALID, "member '%.*s' is sparse",
			       (int)MIN(m->path.size, (size_t)200), m->path.p);
	return 0;
}

static bool is_split_name(struct str path)
{
	return str_ends(path, STR(".dwo")) || str_ends(path, STR(".dwp"));
}

static int check_tar(struct source *src, bool *ret_has_sources, struct err *err)
{
	const struct pkg_info info = { .kind = PKG_TAR, .payload.format = PKG_FORMAT_TAR };
	struct stream *payload = stream_of_source(src, false, 0, src->size);
	struct pkg_reader *reader = NULL;
	struct pkg_member m;
	bool has_sources = false;
	size_t n = 0;
	int r = pkg_reader_open(&info, payload, NULL, &reader, err);

	while (r == 0) {
		r = pkg_reader_next(reader, &m, err);
		if (r == 0) {
			n++;
			has_sources |= m.type != PKG_DIR && !is_split_name(m.path);
			r = check_member(&m, err);
		}
	}
	pkg_reader_close(reader);
	stream_close(payload);
	if (r < 0)
		return err_in(err, "tar of sources");
	if (!n)
		return err_set(err, ERR_INVALID, "tar of sources: it contains no file");
	*ret_has_sources = has_sources;
	return 0;
}

/* A stripped file for symbols keeps the section headers of its code, but no segment with it. */
static int code_is_in_file(struct source *src, bool *ret, struct err *err)
{
	struct elf_image *img = NULL;
	bool code = false;
	int r = open_judged(src, &img, err);

	*ret = false;
	if (r)
		return MIN(r, 0);
	for (uint32_t i = 0; i < img->n_segments; i++) {
		const struct elf_segment *seg = &img->segments[i];

		code |= seg->type == PT_LOAD && seg->flags & PF_X && seg->filesz;
	}
	elf_close(img);
	*ret = code;
	return 0;
}

int push_kind_of(struct source *src, enum store_kind *ret, struct err *err)
{
	struct elf_facts facts = { 0 };
	struct source *cached = source_cached(src, false, TAIL_BLOCK, N_TAIL_BLOCKS);
	int r = elf_facts_read(cached, &facts, err);
	bool code = false;

	if (r == 0 && facts.flags & ELF_IS_EXECUTABLE)
		r = code_is_in_file(cached, &code, err);
	source_close(cached);
	if (r < 0)
		return err_in(err, "a damaged ELF file");
	if (r)
		return elf_foreign_source_err(src, err);
	*ret = code ? STORE_EXECUTABLE : STORE_DEBUGINFO;
	if (code || facts.flags & (ELF_IS_DEBUG | ELF_HAS_DWARF | ELF_HAS_SYMTAB))
		return 0;
	r = has_dynamic_symbols(src, err);
	return r < 0 ? err_in(err, "a damaged ELF file") : r;
}

int push_check(struct push_request *pr, struct source *src, struct err *err)
{
	bool has_sources;

	if (pr->key.kind != STORE_SOURCES)
		return check_elf(pr, src, err);
	if (check_tar(src, &has_sources, err) < 0)
		return -1;
	/* As `lode push` says in its question: a tar of split files alone does not replace one with sources, but another such. */
	pr->meta.quality = has_sources ? STORE_DWARF : STORE_SYMBOLS;
	return 0;
}

int push_check_head(const struct push_request *pr, struct bytes head, struct err *err)
{
	if (pr->key.kind == STORE_SOURCES) {
		if (codec_detect_magic(head) != CODEC_NONE)
			return err_set(err, ERR_INVALID,
				       "a compressed tar: push it unpacked, the store compresses by itself");
		return 0;
	}
	if (head.size < 4 || memcmp(head.p, "\177ELF", 4) != 0)
		return elf_foreign_err(head, err);
	return 0;
}
