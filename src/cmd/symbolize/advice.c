/* SPDX-License-Identifier: Apache-2.0 */
/* Advice on how to get the names of addresses that a command could not name. */
#include <limits.h>
#include <stdlib.h>
#include "cmd/symbolize/symbolize.h"
#include "local/distro.h"

/* The supplementary file that a debug file names: "PATH, build ID HEX". */
static void add_supplementary(const struct elf_image *debug, struct arena *a, struct buf *out)
{
	char hex[BUILD_ID_HEX_SIZE];
	struct build_id id;
	struct str path;

	if (elf_alt_link(debug, a, &path, &id, NULL) != 0)
		return;
	buf_add_str(out, path);
	if (id.size)
		buf_printf(out, ", build ID %s", build_id_hex(&id, hex));
}

/* A place where a debug file of @file would be found: beside it, or by the build ID. */
static void add_advice_place(const struct elf_image *img, struct str file, struct arena *a, struct buf *out)
{
	char hex[BUILD_ID_HEX_SIZE];
	struct build_id id;
	struct str link;
	uint32_t crc;

	if (elf_debug_link(img, a, &link, &crc, NULL) == 0) {
		buf_add(out, file.p, (size_t)(path_basename(file).p - file.p));
		buf_add_str(out, link);
	} else if (elf_build_id(img, &id, NULL) == 0 && id.size > 1) {
		build_id_hex(&id, hex);
		buf_printf(out, "/usr/lib/debug/.build-id/%.2s/%s.debug", hex, hex + 2);
	}
}

/*
 * The path without links: by it packages have the file, and its debug file is searched for. A relative path counts if the
 * file was opened by it. As it is if it is not here.
 */
static struct str real_path_of(struct str file, const struct lookup_file *f, char real[PATH_MAX])
{
	AUTO(mem_freep) char *path = mem_strndup(file.p, file.size);
	bool opened = f && f->img && !f->named;

	return file.size && (file.p[0] == '/' || opened) && realpath(path, real) ? str_of(real) : file;
}

void symbolize_advice(const struct lookup_options *places, enum frame_reason reason, struct str given,
		      const struct lookup_file *f, struct buf *out)
{
	char real[PATH_MAX];
	struct str file = real_path_of(given, f, real);
	const char *urls = places->urls ? places->urls : getenv("DEBUGINFOD_URLS");
	AUTO(buf_done)
	struct buf package = { 0 }, install = { 0 }, missing = { 0 }, place = { 0 };
	AUTO(arena_done) struct arena a = { 0 };
	struct frame_case c = { .reason = reason, .file = file };
	struct local_distro distro;

	local_distro_read("", &distro);
	c.server = str_of(distro.server);
	c.asked = str_of(places->local_only || !urls ? "" : urls);
	c.asks_nobody = !c.asked.size;
	/* A server that failed is asked by the next run. */
	c.keeps_misses = c.asked.size && !places->urls && !frame_reason_passes(reason);
	/* Not for other reasons: all lists of dpkg are read. */
	if (frame_reason_lacks_file(reason) &&
	    (local_package_installed("", file, &package) || local_package_by_rule(file, &package)))
		c.package = buf_str(&package);
	local_install_advice(&distro, c.package, file, &install);
	c.install = buf_str(&install);
	if (f && f->img && !f->named && frame_reason_lacks_file(reason))
		add_advice_place(f->img, file, &a, &place);
	c.place = buf_str(&place);
	if (f && f->sent_path && (reason == FRAME_NO_DEBUG_INFO || reason == FRAME_NO_SYMBOLS)) {
		c.sent = str_of(f->sent_url ? f->sent_url : "");
		c.kept = str_of(f->sent_path);
	}
	if (f && reason == FRAME_ALT_MISSING && (f->debug || f->img))
		add_supplementary(f->debug ? f->debug : f->img, &a, &missing);
	if (f && reason == FRAME_SPLIT_MISSING && f->no_dwo)
		buf_add_str(&missing, str_of(f->no_dwo));
	c.missing = buf_str(&missing);
	frame_advice(&c, out);
}

void symbolize_print_advice(const struct lookup_options *places, enum frame_reason reason, struct str file,
			    const struct lookup_file *f)
{
	AUTO(buf_done) struct buf advice = { 0 };

	symbolize_advice(places, reason, file, f, &advice);
	if (!advice.size)
		return;
	fprintf(stderr, "            ");
	print_text(stderr, buf_str(&advice));
	fputc('\n', stderr);
}
