/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program that `lode demo` profiles: it is embedded in lode, is written to a folder and run there, and
 * samples itself.
 */
#include "cmd/demo/demo.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/embedded.h"
#include "cmd/profile/profile.h"
#include "profile/input.h"

#define NAME      "demo-shop"
#define INSTALLED "/opt/shop/" NAME /* its path in profiles, wherever it ran */
#define MAX_SLICE MIB(64)

extern const struct embedded demo_assets[];

static const char *const threads[] = { "web-1", "web-2", "indexer" };

struct bytes demo_program_debug(void)
{
	return embedded_get(demo_assets, NAME ".debug");
}

struct bytes demo_program_sources(void)
{
	return embedded_get(demo_assets, NAME ".tar");
}

/* ---- the folder ---- */

static int remove_demo_file(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	remove(path);
	return 0;
}

void demo_folder_remove(char *folder)
{
	if (folder)
		nftw(folder, remove_demo_file, 16, FTW_DEPTH | FTW_PHYS);
	free(folder);
}

static int write_program(const char *folder, struct err *err)
{
	AUTO(mem_freep) char *path = mem_printf("%s/" NAME, folder);
	AUTO(fd_close) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	struct bytes program = embedded_get(demo_assets, NAME);

	if (fd < 0)
		return err_os(err, errno, "%s", path);
	return fd_write(fd, program.p, program.size, err) < 0 ? err_in(err, "%s", path) : 0;
}

/* access() fails on file systems that are mounted with noexec. */
static bool can_run(const char *folder)
{
	AUTO(mem_freep) char *path = mem_printf("%s/" NAME, folder);

	return access(path, X_OK) == 0;
}

int demo_folder_make(char **ret, struct err *err)
{
	const char *places[] = { getenv("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm" };

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		char *folder = places[i] && *places[i] ? mem_printf("%s/lode-demo-XXXXXX", places[i]) : NULL;

		if (!folder || !mkdtemp(folder)) {
			free(folder);
			continue;
		}
		if (write_program(folder, err) == 0 && can_run(folder)) {
			*ret = folder;
			return 0;
		}
		demo_folder_remove(folder);
	}
	return err_set(err, ERR_IO, "no folder allows to run programs; set $TMPDIR to one that does");
}

/* ---- running ---- */

static int run_program(const struct demo_program *d, struct err *err)
{
	AUTO(mem_freep) char *path = mem_printf("%s/" NAME, d->folder);
	char slices[16], ms[16];
	char *const argv[] = { path, (char *)d->folder, slices, ms, NULL };
	int status = 0, r;
	pid_t pid;

	snprintf(slices, sizeof(slices), "%u", d->n_slices);
	snprintf(ms, sizeof(ms), "%u", d->slice_ms);
	r = posix_spawn(&pid, path, NULL, NULL, argv, environ);
	if (r)
		return err_os(err, r, "%s", path);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGTERM))
		return err_set(err, ERR_CANCELLED, "stopped");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return err_set(err, ERR_INTERNAL, "the profiled program has failed");
	return 0;
}

static bool has_samples(const struct buf *b)
{
	uint64_t words[8];

	if (b->size < sizeof(words))
		return false;
	memcpy(words, b->p, sizeof(words));
	return words[5] != 0; /* the first record after the head; 0 is the end mark */
}

static void name_mappings(struct profile *p, const char *folder)
{
	for (uint32_t i = 0; i < p->mappings.n; i++)
		if (str_starts(profile_str(p, p->mappings.p[i].file), str_of(folder)))
			p->mappings.p[i].file = profile_add_string(p, STR(INSTALLED));
}

static int read_slice(const struct demo_program *d, unsigned slice, const char *thread, struct err *err)
{
	AUTO(mem_freep) char *path = mem_printf("%s/%u-%s", d->folder, slice, thread);
	AUTO(profile_freep) struct profile *p = NULL;
	AUTO(buf_done) struct buf b = { 0 };
	int r = file_read(path, MAX_SLICE, &b, err);

	if (r)
		return r < 0 ? -1 : err_set(err, ERR_IO, "%s: the profile is missing", path);
	/* On a busy machine the thread may not have run at all. */
	if (!has_samples(&b))
		return 0;
	if (profile_read(buf_bytes(&b), PROFILE_FORMAT_CPU, NULL, &p, err) < 0)
		return err_in(err, "%s", path);
	profile_fill_build_ids(p);
	name_mappings(p, d->folder);
	p->duration_ns = (int64_t)d->slice_ms * 1000000;
	if (profile_build_end(p, err) < 0)
		return -1;
	return d->slice(d->arg, slice, str_of(thread), p, err);
}

int demo_program_run(const struct demo_program *d, struct err *err)
{
	if (run_program(d, err) < 0)
		return -1;
	for (unsigned i = 0; i < d->n_slices; i++)
		for (size_t k = 0; k < ARRAY_SIZE(threads); k++) {
			int r = read_slice(d, i, threads[k], err);

			if (r)
				return r;
		}
	return 0;
}
