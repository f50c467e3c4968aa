/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf.data, through perf itself: the output of perf script, and the build IDs of perf buildid-list. The
 * format is internal to perf, and a machine with such a file mostly has perf.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cmd/child.h"
#include "cmd/profile/profile.h"
#include "profile/input.h"

#define MAX_MESSAGE 500u
#define MAX_IDS     MIB(64)

/* Append the first line of perf's stderr. */
static void add_perf_message(int fd, struct buf *out)
{
	char text[MAX_MESSAGE + 1];
	ssize_t n = pread(fd, text, MAX_MESSAGE, 0);
	struct str all = { text, n > 0 ? (size_t)n : 0 }, line;

	while (all.p && all.size) {
		line = str_trim(str_cut(&all, '\n'));
		if (!line.size)
			continue;
		buf_printf(out, ": " STR_FMT, STR_ARG(line));
		return;
	}
}

/* Append the whole output of perf. */
static int run_perf(const char *const *argv, size_t max, struct buf *out, struct err *err)
{
	AUTO(fd_close) int said = memfd_create("lode-perf", MFD_CLOEXEC);
	AUTO(buf_done) struct buf why = { 0 };
	int status = 0, r;

	if (said < 0)
		return err_os(err, errno, "no memory for a temporary file");
	r = child_run(&(struct child){ .argv = argv, .max = max, .said = said }, out, &status, err);
	if (r == FILE_MISSING)
		return err_set(err, ERR_IO,
			       "a perf.data file, and perf is not installed here to read it; install it "
			       "(linux-perf), or give the "
			       "output of perf script --show-mmap-events of the machine that has it");
	if (r == CHILD_TOO_MUCH)
		return err_set(err, ERR_LIMIT,
			       "the output of perf script is larger than the limit of %llu MiB",
			       (unsigned long long)(max >> 20));
	if (r < 0)
		return -1;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	add_perf_message(said, &why);
	return err_set(err, ERR_INVALID, "perf cannot read it%s", buf_cstr(&why));
}

/* Set the build IDs of mappings without one, from lines "6ecd6ec2... /usr/bin/x". */
static void set_build_ids(struct profile *p, struct str text)
{
	while (text.p && text.size) {
		struct str file = str_trim(str_cut(&text, '\n')), hex = str_cut(&file, ' ');
		bool kernel = str_starts(file, STR("[kernel"));
		struct build_id id;

		if (!file.p || !file.size || !build_id_parse(&id, hex))
			continue;
		for (uint32_t i = 0; i < p->mappings.n; i++) {
			struct profile_mapping *m = &p->mappings.p[i];
			struct str of = profile_str(p, m->file);

			if (!m->build_id && (kernel ? str_starts(of, file) : str_eq(of, file)))
				m->build_id = profile_add_string(p, hex);
		}
	}
}

int perf_script_read(const char *path, struct profile **ret, struct err *err)
{
	const char *const script[] = { "perf", "script", "--show-mmap-events", "--no-inline", "-f", "-i",
				       path,   NULL };
	const char *const list[] = { "perf", "buildid-list", "-f", "-i", path, NULL };
	AUTO(buf_done) struct buf text = { 0 };
	AUTO(buf_done) struct buf ids = { 0 };
	AUTO(profile_freep) struct profile *p = NULL;
	struct err ignored = { 0 };

	if (run_perf(script, PROFILE_MAX_SIZE, &text, err) < 0)
		return -1;
	if (!text.size)
		return err_set(err, ERR_INVALID, "the profile has no samples");
	if (profile_read_perf(buf_str(&text), NULL, &p, err) < 0)
		return err_in(err, "perf script");
	if (run_perf(list, MAX_IDS, &ids, &ignored) == 0)
		set_build_ids(p, buf_str(&ids));
	if (profile_build_end(p, err) < 0)
		return -1;
	*ret = TAKE(p);
	return 0;
}

int perf_script_read_bytes(struct bytes data, struct profile **ret, struct err *err)
{
	/* perf inherits it and opens it by this name. */
	AUTO(fd_close) int fd = memfd_create("lode-perf-data", 0);
	char path[32];

	if (fd < 0)
		return err_os(err, errno, "no memory for a temporary file");
	if (fd_write(fd, data.p, data.size, err) < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return perf_script_read(path, ret, err);
}
