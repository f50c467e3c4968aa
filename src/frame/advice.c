/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What to do about an address without a name: by the reason, the place of the look-up, and the known facts of the file.
 */
#include "frame/frame.h"

#define ASKED_MAX 300u /* bytes of the list of servers: anything may be in it */

static void next_choice(struct buf *out, size_t before)
{
	if (out->size > before)
		buf_add_str(out, STR("; or "));
}

/* A server that failed is asked again: by lode serve itself, by a command with its next run. */
static const char *advice_of_asked(const struct frame_case *c)
{
	/* Its file may have come from one of them, without debug information. */
	if (memchr(c->asked.p, ' ', c->asked.size) &&
	    (c->reason == FRAME_NO_DEBUG_INFO || c->reason == FRAME_NO_SYMBOLS))
		return "it was asked for, in this order until one had a file, at";
	if (c->reason != FRAME_UPSTREAM_FAILED && c->reason != FRAME_TIMED_OUT)
		return "it was asked for at";
	return c->at_server ? "wait, it will be asked for again at"
			    : "run the command again later, when its server answers: it was asked for at";
}

static void advise_after_sent(const struct frame_case *c, struct buf *out)
{
	bool was_asked = c->asked.size && c->server.size &&
			 memmem(c->asked.p, c->asked.size, c->server.p, c->server.size);
	struct str other = c->server.size && !was_asked ? c->server : STR("URL");

	buf_add_str(out, STR("its file without debug information was sent"));
	if (c->sent.size)
		buf_printf(out, " from %.*s", (int)MIN(c->sent.size, (size_t)ASKED_MAX), c->sent.p);
	else
		buf_add_str(out, STR(" before"));
	buf_printf(out,
		   ", so servers after that one were not asked: remove %.*s, and ask another one alone by "
		   "--server %.*s",
		   (int)c->kept.size, c->kept.p, (int)other.size, other.p);
}

static void advise_servers(const struct frame_case *c, struct buf *out)
{
	if (c->kept.size) {
		advise_after_sent(c, out);
		return;
	}
	if (c->asked.size) {
		buf_printf(out, "%s %.*s%s", advice_of_asked(c), (int)MIN(c->asked.size, (size_t)ASKED_MAX),
			   c->asked.p, c->asked.size > ASKED_MAX ? " and so on" : "");
		if (c->keeps_misses)
			buf_add_str(out, STR(" (a miss is remembered for minutes; --server URL asks again at "
					     "once)"));
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
		buf_printf(out, "no server was asked: ask one by --server %.*s", (int)c->server.size,
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

/* Profiles are sent to a service, and given to a command. */
#define SENT            "send profiles that have"
#define GIVEN           "use a profile that has"
#define EITHER(of_verb) of_verb(SENT), of_verb(GIVEN)
#define ALWAYS(text)    text, text

#define NAMED_BY_ITSELF                                                                                   \
	"its code was made while the program ran: let the program write /tmp/perf-PID.map (Node.js: "     \
	"--perf-basic-prof, Python: -X perf, Java: -XX:+DumpPerfMapAtExit) and convert the profile with " \
	"perf script on that machine"

#define NAMED_AT_PROCESS(verb) \
	"name it on the machine of the process: lode symbolize --pid PID; or " verb " its build ID"

#define NAMED_AT_KERNEL(verb)                                                                          \
	verb " the build IDs of the kernel and its modules, as perf's have; or name the addresses on " \
	     "that machine, as root and before it is started again: lode symbolize --kernel ADDRESS"

#define NAMED_AT_WINDOWS                                                                                    \
	"it seems to be a file of Windows: lode names addresses of ELF files; name them there before they " \
	"are sent"

#define NAMED_AT_APPLE                                                                                  \
	"it seems to be a file of Apple's systems: lode names addresses of ELF files; name them there " \
	"before they are sent"

#define NAMED_BY_LINK(verb) "the profile names a link of the process, not its file: " verb " build IDs"

#define REPLACED "the file was replaced while the program ran: "

#define NAMED_AT_MAP "convert the profile with perf script on the machine of the program, where this file is"

struct named_advice {
	struct str part; /* of the name: its begin, or its end */
	const char *at_server, *at_command;
};

/* Advice by the name of a mapping: such a name is not the path of a file that could have a build ID. */
static const struct named_advice *advice_of_name(struct str file)
{
	static const struct named_advice begins[] = {
		{ STR("[vdso"), EITHER(NAMED_AT_PROCESS) },
		{ STR("linux-vdso"), EITHER(NAMED_AT_PROCESS) },
		{ STR("[kernel"), EITHER(NAMED_AT_KERNEL) },
		{ STR("["), ALWAYS(NAMED_BY_ITSELF) },
		{ STR("//"), ALWAYS(NAMED_BY_ITSELF) },
		{ STR("anon_inode:"), ALWAYS(NAMED_BY_ITSELF) },
		{ STR("/memfd:"), ALWAYS(NAMED_BY_ITSELF) },
		{ STR("/SYSV"), ALWAYS(NAMED_BY_ITSELF) },
		{ STR("/dev/zero"), ALWAYS(NAMED_BY_ITSELF) },
		{ STR("/proc/"), EITHER(NAMED_BY_LINK) },
	};

	static const struct named_advice ends[] = {
		{ STR(".exe"), ALWAYS(NAMED_AT_WINDOWS) },
		{ STR(".dll"), ALWAYS(NAMED_AT_WINDOWS) },
		{ STR(".sys"), ALWAYS(NAMED_AT_WINDOWS) },
		{ STR(".dylib"), ALWAYS(NAMED_AT_APPLE) },
		{ STR(".ko"), EITHER(NAMED_AT_KERNEL) },
		{ STR(".ko.xz"), EITHER(NAMED_AT_KERNEL) },
		{ STR(".ko.zst"), EITHER(NAMED_AT_KERNEL) },
		{ STR(".ko.gz"), EITHER(NAMED_AT_KERNEL) },
		{ STR(" (deleted)"), REPLACED SENT " build IDs, and push the debug file of that version",
		  REPLACED GIVEN " build IDs, and put the debug file of that version below /usr/lib/debug" },
	};

	static const struct named_advice apple = { STR(""), ALWAYS(NAMED_AT_APPLE) },
					 map = { STR(""), ALWAYS(NAMED_AT_MAP) };

	if (!file.size)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(begins); i++)
		if (str_starts(file, begins[i].part))
			return &begins[i];
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (str_ends(file, ends[i].part))
			return &ends[i];
	if (memmem(file.p, file.size, ".app/Contents/", 14) || memmem(file.p, file.size, ".framework/", 11))
		return &apple;
	if (str_ends(file, STR(".map")) && str_starts(path_basename(file), STR("perf-")))
		return &map;
	return NULL;
}

static void advise_by_name(const struct frame_case *c, struct buf *out)
{
	const struct named_advice *a = advice_of_name(c->file);

	if (a)
		buf_add_str(out, str_of(c->at_server ? a->at_server : a->at_command));
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
		return "install the package that has the supplementary (dwz) file, put it at its path, or "
		       "name it: lode symbolize -e FILE --alt FILE";
	case FRAME_SPLIT_MISSING:
		return "put the .dwo files where the compiler wrote them, or a package of them (dwp -e "
		       "PROGRAM -o "
		       "PROGRAM.dwp) beside the program";
	case FRAME_NO_BUILD_ID:
		return "build the file with -Wl,--build-id, or use a profile that has build IDs";
	case FRAME_NO_MAPPING:
		return "use a profile that has its mappings";
	case FRAME_NO_LAYOUT:
		return "put the program itself where the profile has it, or beside its debug file";
	default:
		return frame_reason_help(r);
	}
}

/* What waiting does not mend. The server's own words are beside the reason; the reason is one for all of these. */
static const char *advice_of_refusals(const struct frame_case *c)
{
	if (c->reason != FRAME_UPSTREAM_FAILED)
		return "";
	if (c->at_server)
		return ". If a server answered 401 or 403, add credentials to its URL (USER:PASSWORD@HOST); "
		       "if one redirects to another host, allow that by --upstream-redirects, or name that "
		       "host; "
		       "if one sent a file of another build ID, replace the file there";
	return ". If a server answered 401 or 403, put credentials into the file $DEBUGINFOD_HEADERS_FILE; "
	       "if one redirects where no client may follow, name the server that has the file; "
	       "if one sent a file of another build ID, replace the file there";
}

void frame_advice(const struct frame_case *c, struct buf *out)
{
	size_t before = out->size;

	if (frame_reason_lacks_file(c->reason)) {
		advise_servers(c, out);
		if (c->asked.size)
			buf_add_str(out, str_of(advice_of_refusals(c)));
		advise_package(c, out, before);
	}
	if (c->reason == FRAME_NO_BUILD_ID)
		advise_by_name(c, out);
	if (out->size == before)
		buf_add_str(out, str_of(c->at_server ? frame_reason_help(c->reason)
						     : advice_of_command(c->reason)));
	if ((c->reason == FRAME_ALT_MISSING || c->reason == FRAME_SPLIT_MISSING) && c->missing.size)
		buf_printf(out, "; missing: %.*s", (int)c->missing.size, c->missing.p);
}
