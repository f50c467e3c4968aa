/* SPDX-License-Identifier: Apache-2.0 */
#include "sample.h"

#include "elf_writer.h"

static struct sample_file *add(struct sample *s, const char *path, unsigned salt)
{
	struct sample_file *f = &s->files[s->n];

	assert_true(s->n < SAMPLE_MAX);
	snprintf(f->path, sizeof(f->path), "%s", path);
	snprintf(f->id, sizeof(f->id), "%08x%032zx", 0xa0000000u + salt, s->n + 1);
	s->n++;
	return f;
}

static void module(struct sample *s, const char *path, unsigned salt, enum codec_kind codec, size_t size)
{
	struct sample_file *f = add(s, path, salt);

	elf_writer_program(&f->content, ET_REL, f->id, size);
	pw_compress(&f->stored, codec, 0, buf_bytes(&f->content));
}

/* The section table is so far after the names that the probe does not keep it: the member must be read
 * again. */
static void far_tables(struct sample *s, const char *path, unsigned salt)
{
	struct sample_file *f = add(s, path, salt);
	AUTO(elf_writer_done) struct elf_writer w = { 0 };
	uint8_t id[20], code[64] = { 0x90 };
	size_t n;

	assert_true(hex_decode(str_of(f->id), false, id, sizeof(id), &n));
	elf_writer_init(&w, ELF_WRITER_X86_64, ET_REL);
	elf_writer_section(&w, ".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR,
			   bytes_of(code, sizeof(code)));
	elf_writer_section(&w, ".modinfo", SHT_PROGBITS, SHF_ALLOC, bytes_of("license=GPL", 12));
	elf_writer_build_id(&w, bytes_of(id, n));
	w.gap = 200000;
	elf_writer_finish(&w, &f->content);
}

static void hard_link(struct sample *s, const char *path, size_t target)
{
	struct sample_file *f = add(s, path, 0);

	/* Not snprintf(): the compiler cannot know that two elements of one array do not overlap. */
	memcpy(f->link, s->files[target].path, sizeof(f->link));
	memcpy(f->id, s->files[target].id, sizeof(f->id));
	buf_add(&f->content, s->files[target].content.p, s->files[target].content.size);
}

void sample_init(struct sample *s, unsigned salt, size_t size)
{
	struct sample_file *f;

	memset(s, 0, sizeof(*s));
	f = add(s, "usr/bin/program", salt);
	elf_writer_program(&f->content, ET_DYN, f->id, size);
	f = add(s, "usr/lib/debug/program.debug", salt);
	elf_writer_debug_file(&f->content, ET_DYN, f->id, size);
	f = add(s, "usr/share/doc/readme", salt);
	buf_printf(&f->content, "Nothing to see %u\n", salt);
	f->id[0] = '\0';
	f = add(s, "usr/share/empty", salt);
	f->id[0] = '\0';
	module(s, "lib/modules/plain.ko", salt, CODEC_NONE, size);
	module(s, "lib/modules/a.ko.xz", salt, CODEC_XZ, size);
	module(s, "lib/modules/b.ko.zst", salt, CODEC_ZSTD, size);
	module(s, "lib/modules/c.ko.gz", salt, CODEC_GZIP, size);
	far_tables(s, "usr/lib/far", salt);
	f = add(s, "usr/lib/broken", salt);
	buf_add(&f->content, "\177ELF\2\1\1", 7);
	for (int i = 0; i < 100; i++)
		buf_add(&f->content, "\377", 1);
	f->id[0] = '\0';
	f = add(s, "lib/modules/damaged.ko.xz", salt);
	buf_printf(&f->content, "is no xz");
	f->id[0] = '\0';
	hard_link(s, "usr/bin/same", 0);
	hard_link(s, "usr/lib/far-too", 8);
	for (size_t i = 0; i < s->n; i++) {
		f = &s->files[i];
		s->list[i] = (struct pw_file){
			.path = f->path,
			.mtime = 1000,
			.content = buf_bytes(f->stored.size ? &f->stored : &f->content),
		};
	}
	for (size_t i = 0; i < s->n; i++)
		if (s->files[i].link[0])
			s->list[i].link = s->files[i].link;
}

void sample_done(struct sample *s)
{
	for (size_t i = 0; i < s->n; i++) {
		buf_done(&s->files[i].stored);
		buf_done(&s->files[i].content);
	}
}

struct build_id sample_id(const struct sample *s, size_t file)
{
	struct build_id id = { 0 };

	assert_true(build_id_parse(&id, str_of(s->files[file].id)));
	return id;
}

/* In a cpio hard links share an inode, and the content is stored with the last one. */
static void as_cpio(const struct sample *s, struct pw_file *list)
{
	memcpy(list, s->list, s->n * sizeof(*list));
	for (size_t i = 0; i < s->n; i++) {
		if (!list[i].link)
			continue;
		for (size_t k = 0; k < s->n; k++) {
			if (strcmp(list[k].path, list[i].link) != 0)
				continue;
			list[k].inode = list[i].inode = (uint32_t)(1000 + k);
			list[k].content = (struct bytes){ 0 };
		}
		list[i].content = buf_bytes(&s->files[i].content);
		list[i].link = NULL;
	}
}

void sample_package(const struct sample *s, enum sample_kind kind, enum codec_kind codec, struct buf *ret)
{
	struct pw_file list[SAMPLE_MAX];
	AUTO(buf_done) struct buf tar = { 0 };
	char ids[SAMPLE_MAX * 41 + 16] = "Build-Ids:";
	const char *all[SAMPLE_MAX];
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++) {
		if (!s->files[i].id[0] || s->files[i].link[0])
			continue;
		all[n++] = s->files[i].id;
		strcat(strcat(ids, " "), s->files[i].id);
	}
	strcat(ids, "\n");
	switch (kind) {
	case SAMPLE_DEB:
		pw_deb(ret, &(struct pw_deb){ .more = ids,
					      .control = CODEC_GZIP,
					      .data = codec,
					      .files = s->list,
					      .n_files = s->n });
		break;
	case SAMPLE_RPM:
		as_cpio(s, list);
		pw_rpm(ret, &(struct pw_rpm){ .codec = codec,
					      .files = list,
					      .n_files = s->n,
					      .build_ids = all,
					      .n_build_ids = n });
		break;
	default:
		pw_tar(&tar, PW_PAX, s->list, s->n);
		pw_compress(ret, codec, 0, buf_bytes(&tar));
		break;
	}
}

const char *sample_name(enum sample_kind kind, enum codec_kind codec)
{
	static const char *const tars[CODEC_N_KINDS] = { "a.tar",      "a.tar.gz",  "a.tar.xz",
							 "a.tar.lzma", "a.tar.zst", "a.tar.bz2" };

	return kind == SAMPLE_DEB ? "a.deb" : kind == SAMPLE_RPM ? "a.rpm" : tars[codec];
}
