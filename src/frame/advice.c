/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What to do about an address without a name: by the reason, by where it was looked up, and by what is known of the file.
 */
#include "frame/frame.h"

static void next_choice(struct buf *out, size_t before)
{
	if (out->size > before)
		buf_add_str(out, STR("; or "));
}

/* A server that failed is asked again: by lode serve itself, by a command with its next run. */
static const char *advice_of_asked(const struct frame_case *c)
{
	if (c->reason != FRAME_UPSTREAM_FAILED && c->reason != FRAME_TIMED_OUT)
		return "it was asked for at";
	return c->at_server ? "wait, it will be asked for again at"
			    : "run the command again later, when its server answers: it was asked for at";
}

static void advise_servers(const struct frame_case *c, struct buf *out)
{
	if (c->asked.size) {
		buf_printf(out, "%s %.*s", advice_of_asked(c), (int)c->asked.size, c->asked.p);
		if (c->server.size && !memmem(c->asked.p, c->asked.size, c->server.p, c->server.size)) {
			buf_add_str(out, STR("; or "));
			buf_printf(out,
				   c->at_server ? "add --debuginfod-upstream-servers %.*s to lode serve"
						: "ask %.*s too: --server URL",
				   (int)c->server.size, c->server.p);
		}
		return;
	}
	if (!c->asks_nobody || !c->server.size)
		return;
	if (c->at_server)
		buf_printf(out, "this server asks no other: start it with --debuginfod-upstream-servers %.*s",
			   (int)c->server.size, c->server.p);
	else
		buf_printf(out, "no server was asked: lode symbolize --server %.*s", (int)c->server.size,
			   c->server.p);
}

static void advise_package(const struct frame_case *c, struct buf *out, size_t before)
{
	if (c->install.size) {
		next_choice(out, before);
		buf_add_str(out, c->install);
	}
	if (!c->at_server) {
		if (c->place.size) {
			next_choice(out, before);
			buf_printf(out, "put its debug file at %.*s", (int)c->place.size, c->place.p);
		}
		return;
	}
	next_choice(out, before);
	if (c->package.size)
		buf_printf(out, "put the package %.*s into a scanned folder", (int)c->package.size,
			   c->package.p);
	else
		buf_add_str(
			out,
			STR("put its package (Debian: -dbgsym, Fedora: -debuginfo) into a scanned folder"));
	next_choice(out, before);
	buf_add_str(out, STR("push the debug file: lode push FILE --to URL"));
}

/* ---- mappings without a build ID ---- */

#define NAMED_BY_ITSELF                                                                                   \
	"its code was made while the program ran: let the program write /tmp/perf-PID.map (Node.js: "     \
	"--perf-basic-prof, Python: -X perf, Java: -XX:+DumpPerfMapAtExit) and convert the profile with " \
	"perf script on that machine"

#define NAMED_AT_PROCESS                                                                                   \
	"name it on the machine of the process: lode symbolize --pid PID; or send profiles that have its " \
	"build ID"

#define NAMED_AT_KERNEL                                                                                    \
	"send profiles that have the build IDs of the kernel and its modules, as perf's have; or name it " \
	"on its "                                                                                          \
	"machine: lode symbolize PROFILE"

#define NAMED_AT_WINDOWS                                                                                    \
	"it seems to be a file of Windows: lode names addresses of ELF files; name them there before they " \
	"are sent"

#define NAMED_AT_APPLE                                                                                  \
	"it seems to be a file of Apple's systems: lode names addresses of ELF files; name them there " \
	"before they are sent"

#define NAMED_BY_LINK \
	"the profile names a link of the process, not its file: send profiles that have build IDs"

struct named_advice {
	struct str part; /* of the name: its begin, or its end */
	const char *advice;
};

/* Advice by the name of a mapping: such a name is not the path of a file that could have a build ID. */
static const char *advice_of_name(struct str file)
{
	static const struct named_advice begins[] = {
		{ STR("[vdso"), NAMED_AT_PROCESS },    { STR("linux-vdso"), NAMED_AT_PROCESS },
		{ STR("[kernel"), NAMED_AT_KERNEL },   { STR("["), NAMED_BY_ITSELF },
		{ STR("//"), NAMED_BY_ITSELF },        { STR("anon_inode:"), NAMED_BY_ITSELF },
		{ STR("/memfd:"), NAMED_BY_ITSELF },   { STR("/SYSV"), NAMED_BY_ITSELF },
		{ STR("/dev/zero"), NAMED_BY_ITSELF }, { STR("/proc/"), NAMED_BY_LINK },
	};

	static const struct named_advice ends[] = {
		{ STR(".exe"), NAMED_AT_WINDOWS },   { STR(".dll"), NAMED_AT_WINDOWS },
		{ STR(".sys"), NAMED_AT_WINDOWS },   { STR(".dylib"), NAMED_AT_APPLE },
		{ STR(".ko"), NAMED_AT_KERNEL },     { STR(".ko.xz"), NAMED_AT_KERNEL },
		{ STR(".ko.zst"), NAMED_AT_KERNEL }, { STR(".ko.gz"), NAMED_AT_KERNEL },
	};

	if (!file.size)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(begins); i++)
		if (str_starts(file, begins[i].part))
			return begins[i].advice;
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (str_ends(file, ends[i].part))
			return ends[i].advice;
	if (memmem(file.p, file.size, ".app/Contents/", 14) || memmem(file.p, file.size, ".framework/", 11))
		return NAMED_AT_APPLE;
	if (str_ends(file, STR(" (deleted)")))
		return "the file was replaced while the program ran: send profiles that have build IDs, and "
		       "push the debug file of that version";
	if (str_ends(file, STR(".map")) && str_starts(path_basename(file), STR("perf-")))
		return "convert the profile with perf script on the machine of the program, where this file "
		       "is";
	return NULL;
}

/* ---- all ---- */

bool frame_reason_lacks_file(enum frame_reason r)
{
	return r == FRAME_UNKNOWN || r == FRAME_UPSTREAM_404 || r == FRAME_NO_SYMBOLS ||
	       r == FRAME_NO_DEBUG_INFO || r == FRAME_UPSTREAM_FAILED || r == FRAME_TIMED_OUT ||
	       r == FRAME_NOT_ELF;
}

/* A command reads files of this machine: nothing has to be pushed. */
static const char *advice_of_command(enum frame_reason r)
{
	switch (r) {
	case FRAME_DAMAGED:
		return "put a sound copy of the file in its place, or reinstall its package";
	case FRAME_ALT_MISSING:
		return "install the package that has the supplementary (dwz) file, or name the file: --alt "
		       "FILE";
	case FRAME_SPLIT_MISSING:
		return "put the .dwo files where the compiler wrote them, or a package of them (dwp -e "
		       "PROGRAM -o "
		       "PROGRAM.dwp) beside the program";
	default:
		return frame_reason_help(r);
	}
}

void frame_advice(const struct frame_case *c, struct buf *out)
{
	size_t before = out->size;

	if (frame_reason_lacks_file(c->reason)) {
		advise_servers(c, out);
		advise_package(c, out, before);
	}
	if (c->reason == FRAME_NO_BUILD_ID && advice_of_name(c->file))
		buf_add_str(out, str_of(advice_of_name(c->file)));
	if (out->size == before)
		buf_add_str(out, str_of(c->at_server ? frame_reason_help(c->reason)
						     : advice_of_command(c->reason)));
	if ((c->reason == FRAME_ALT_MISSING || c->reason == FRAME_SPLIT_MISSING) && c->missing.size)
		buf_printf(out, "; missing: %.*s", (int)c->missing.size, c->missing.p);
}
