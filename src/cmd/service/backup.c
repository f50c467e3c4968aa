/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode backup: profiles, store, tokens and kept pushes of a data directory into a folder, whether or not a service uses
 * them. Everything else in the data directory is made again.
 *
 * The parts do not depend on each other. One that fails leaves its former copy, and the others are copied all the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cmd/service/service.h"
#include "http/token.h"
#include "profilestore/copy.h"

#define SHOW_EVERY_MS 200
#define TOKENS_SIZE   MIB(4)

enum part_state { PART_NONE, PART_COPIED, PART_SKIPPED, PART_FAILED };
static const char *const state_names[] = { "none", "copied", "not copied", "failed" };

struct backup {
	const struct settings *s;
	const char *to;
	char *data, *profiles, *store, *tokens; /* the sources; store may be a URL */
	char *to_profiles, *to_store, *to_tokens, *local, *to_local;
	int lock_fd;
	bool show, any_failed;
	int64_t from_ms, shown_ms;
	/* the results */
	enum part_state profiles_state, store_state, held_state, tokens_state;
	uint64_t profiles_size;
	struct store_copied copied;
	uint64_t n_held;
};

static bool is_in_bucket(const struct backup *b)
{
	return s3_is_url(str_of(b->store));
}

static enum part_state part_failed(struct backup *b, const char *part, struct err *err)
{
	(void)err_in(err, "%s", part);
	(void)tell_error("backup", err);
	b->any_failed = true;
	return PART_FAILED;
}

/* ---- profiles ---- */

static int show_profiles(void *arg, uint64_t n_done, uint64_t n_all)
{
	struct backup *b = arg;
	int64_t now_ms = clock_mono_ms();
	double seconds = (double)(now_ms - b->from_ms) / 1000.0;
	AUTO(buf_done) struct buf line = { 0 };
	char done[32], all[32];

	if (signals_stopped())
		return 1;
	if (!b->show || now_ms - b->shown_ms < SHOW_EVERY_MS)
		return 0;
	b->shown_ms = now_ms;
	progress_add_bar(&line, n_all ? (double)n_done / (double)n_all : 0);
	buf_printf(&line, " profiles: %s of %s", size_text(n_done, done), size_text(n_all, all));
	if (n_done && seconds > 3)
		progress_add_left(&line, seconds / (double)n_done * (double)(n_all - n_done));
	progress_show(&line);
	return 0;
}

static void back_up_profiles(struct backup *b)
{
	const struct profilestore_copy_options o = {
		.dir = b->profiles, .to = b->to_profiles, .progress = show_profiles, .arg = b
	};
	struct err err = { 0 };
	int r;

	b->from_ms = clock_mono_ms();
	r = profilestore_copy(&o, &b->profiles_size, &err);
	if (b->shown_ms)
		progress_clear();
	b->profiles_state = r < 0 ? part_failed(b, "profiles", &err) : r ? PART_NONE : PART_COPIED;
	if (r < 0 && err.kind == ERR_DAMAGED)
		fprintf(stderr, "lode: backup: the service repairs damaged profiles at its start, and in use "
				"when it finds the page; back up again then\n");
}

/* ---- the store ---- */

/* Pushes that the bucket has not got yet. */
static void back_up_held(struct backup *b)
{
	struct err err = { 0 };

	if (store_held_copy(b->local, b->store, b->to_local, signals_stopped, &b->n_held, &err) < 0)
		b->held_state = part_failed(b, "kept pushes", &err);
	else
		b->held_state = b->n_held ? PART_COPIED : PART_NONE;
}

static void back_up_store(struct backup *b)
{
	const struct store_copy_names names = { .from = b->store, .to = b->to_store, .backup = true };
	struct err err = { 0 };
	int r = 0;

	if (is_in_bucket(b)) {
		back_up_held(b);
		return;
	}
	b->held_state = b->store_state = PART_NONE;
	if (access(b->store, F_OK) < 0 && errno == ENOENT)
		return;
	r = store_copy_all(&names, service_settings(b->s)->store.parallel, &b->copied, &err);
	b->store_state = PART_COPIED;
	if (r < 0)
		b->store_state = part_failed(b, "store", &err);
	else if (b->copied.result.n_bad)
		b->any_failed = true;
}

/* ---- tokens ---- */

static void back_up_tokens(struct backup *b)
{
	AUTO(mem_freep) struct token *list = NULL;
	AUTO(buf_done) struct buf text = { 0 };
	struct err err = { 0 };
	size_t n;
	/* A damaged file does not take the place of the copy with which it is to be mended. One without tokens may be meant. */
	int r = tokens_read(b->tokens, &list, &n, &err);

	if (r == 0)
		r = file_read(b->tokens, TOKENS_SIZE, &text, &err);
	if (r == 0)
		r = file_write_durable(b->to_tokens, text.p, text.size, 0600, &err);
	b->tokens_state = r < 0 ? part_failed(b, "tokens", &err) : r ? PART_NONE : PART_COPIED;
}

/* ---- where from, where to ---- */

static void places_init(struct backup *b)
{
	const struct service_settings *o = service_settings(b->s);

	b->profiles = o->profiles.dir ? mem_strdup(o->profiles.dir) : mem_printf("%s/profiles", b->data);
	b->store = o->store.dir ? mem_strdup(o->store.dir) : mem_printf("%s/store", b->data);
	b->tokens = tokens_path(o->tokens, b->data);
	b->local = mem_printf("%s/bucket", b->data);
	b->to_local = mem_printf("%s/bucket", b->to);
	b->to_profiles = mem_printf("%s/profiles", b->to);
	b->to_store = mem_printf("%s/store", b->to);
	b->to_tokens = mem_printf("%s/tokens", b->to);
}

static void backup_done(struct backup *b)
{
	free(b->data);
	free(b->profiles);
	free(b->store);
	free(b->tokens);
	free(b->local);
	free(b->to_local);
	free(b->to_profiles);
	free(b->to_store);
	free(b->to_tokens);
	buf_done(&b->copied.bad);
	fd_close(&b->lock_fd);
}

static int look_for_data(const struct backup *b, struct err *err)
{
	if (access(b->profiles, F_OK) == 0 || is_in_bucket(b) || access(b->store, F_OK) == 0 ||
	    access(b->tokens, F_OK) == 0)
		return 0;
	/* A folder without the right to look into it may have all of them. */
	if (errno != ENOENT && errno != ENOTDIR)
		return err_os(err, errno, "%s", b->tokens);
	return err_set(
		err, ERR_IO,
		"%s: there is nothing to back up: no service has stored anything there; give the --data DIR, "
		"or the --config FILE, of the service",
		b->data);
}

static bool is_within(const char *path, const char *folder)
{
	char a[PATH_MAX], b[PATH_MAX];
	size_t n;

	if (!realpath(path, a) || !realpath(folder, b))
		return false;
	n = strlen(b);
	return strncmp(a, b, n) == 0 && (a[n] == '/' || !a[n]);
}

/* Another backup into the folder, or a service that has it as its data directory: neither may be disturbed. */
static int destination_lock(struct backup *b, struct err *err)
{
	AUTO(mem_freep) char *lock = mem_printf("%s/lock", b->to);
	AUTO(fd_close) int service = open(lock, O_RDONLY | O_CLOEXEC);

	b->lock_fd = open(b->to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (b->lock_fd < 0)
		return err_os(err, errno, "%s", b->to);
	if (flock(b->lock_fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK
			       ? err_set(err, ERR_IO, "%s: another lode backup writes to it", b->to)
			       : err_os(err, errno, "%s: lock", b->to);
	if (service >= 0 && flock(service, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		return err_set(err, ERR_INVALID,
			       "%s is the data directory of a service that runs; choose another folder",
			       b->to);
	return 0;
}

/* A source that is within a part of the copy is removed with it, or mixed up with it. */
static bool is_part_of_data(const struct backup *b)
{
	const char *const sources[] = { b->data, b->profiles, b->store, b->tokens };

	for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
		if (is_within(sources[i], b->to_profiles) || is_within(sources[i], b->to_store) ||
		    is_within(sources[i], b->to_tokens))
			return true;
	return is_same_folder(b->to, b->data) || is_same_folder(b->to_profiles, b->profiles) ||
	       is_same_folder(b->to_store, b->store) || is_within(b->to, b->profiles) ||
	       is_within(b->to, b->store);
}

/* In a folder such as /tmp anyone can make a folder, and lead the copy elsewhere while it is made. */
static bool is_of_stranger(const char *to)
{
	AUTO(mem_freep) char *parent = mem_printf("%s/..", to);
	struct stat st, above;

	return stat(to, &st) == 0 && st.st_uid != geteuid() && st.st_uid != 0 && stat(parent, &above) == 0 &&
	       above.st_mode & S_ISVTX && above.st_mode & S_IWOTH;
}

static int destination_open(struct backup *b, struct err *err)
{
	bool is_new = access(b->to, F_OK) < 0;

	if (dir_make(b->to, 0700, err) < 0)
		return -1;
	if (is_of_stranger(b->to))
		return err_set(err, ERR_INVALID,
			       "%s belongs to another user, and anyone may make folders beside it; choose "
			       "another folder",
			       b->to);
	if (is_part_of_data(b)) {
		if (is_new)
			(void)rmdir(b->to);
		return err_set(err, ERR_INVALID,
			       "%s is part of the data that it is to be a copy of; choose another folder",
			       b->to);
	}
	return destination_lock(b, err);
}

/* ---- the result ---- */

static void warn_of_rest(const struct backup *b)
{
	if (b->profiles_state == PART_NONE && access(b->to_profiles, F_OK) == 0)
		fprintf(stderr,
			"lode: backup: there are no profiles; %s is of an earlier backup, and stays\n",
			b->to_profiles);
	if (b->store_state == PART_NONE && access(b->to_store, F_OK) == 0)
		fprintf(stderr, "lode: backup: there is no store; %s is of an earlier backup, and stays\n",
			b->to_store);
	if (b->tokens_state == PART_NONE && access(b->to_tokens, F_OK) == 0)
		fprintf(stderr,
			"lode: backup: there are no tokens; %s is of an earlier backup, and stays: remove it "
			"if the tokens in "
			"it are not to be valid again after a restore\n",
			b->to_tokens);
	if (is_in_bucket(b) && access(b->local, F_OK) < 0 && access(b->to_local, F_OK) == 0)
		fprintf(stderr,
			"lode: backup: there are no kept pushes; %s is of an earlier backup, and stays\n",
			b->to_local);
}

static int print_backup_json(const struct backup *b)
{
	struct buf text = { 0 };
	struct json_writer j = JSON_WRITER(&text);

	json_open_object(&j, NULL);
	json_put_text(&j, "destination", b->to);
	json_put_bool(&j, "complete", !b->any_failed && b->store_state != PART_SKIPPED);
	json_put_text(&j, "profiles", state_names[b->profiles_state]);
	json_put_uint(&j, "profiles_bytes", b->profiles_size);
	json_put_text(&j, "store", state_names[b->store_state]);
	if (b->copied.begun) {
		json_open_object(&j, "store_copy");
		store_copied_put(&j, &b->copied);
		json_close(&j);
	}
	json_put_text(&j, "tokens", state_names[b->tokens_state]);
	json_put_text(&j, "kept_pushes", state_names[b->held_state]);
	json_put_uint(&j, "n_kept_pushes", b->n_held);
	json_close(&j);
	return json_print_end(&text);
}

static void print_backup_text(const struct backup *b)
{
	char size[32];

	if (b->profiles_state == PART_COPIED)
		printf("profiles: copied: %s\n", size_text(b->profiles_size, size));
	else
		printf("profiles: %s\n", state_names[b->profiles_state]);
	printf("tokens: %s\n", state_names[b->tokens_state]);
	if (is_in_bucket(b)) {
		printf("store: not copied, since it is in a bucket; lode store copy ");
		print_text(stdout, str_of(b->store));
		printf(" FOLDER copies it\nkept pushes: %s", state_names[b->held_state]);
		if (b->held_state == PART_COPIED)
			printf(": %llu", (unsigned long long)b->n_held);
		putchar('\n');
		return;
	}
	printf("store: ");
	if (b->copied.begun)
		store_copied_print(&b->copied.result);
	else
		printf("%s\n", state_names[b->store_state]);
}

/* ---- the command ---- */

static int back_up_all(struct backup *b)
{
	int printed = EXIT_DONE;

	signals_catch();
	back_up_tokens(b);
	back_up_profiles(b);
	b->store_state = b->held_state = PART_SKIPPED;
	if (!signals_stopped())
		back_up_store(b);
	warn_of_rest(b);
	if (b->s->json)
		printed = print_backup_json(b);
	else
		print_backup_text(b);
	return b->any_failed || signals_stopped() ? EXIT_FAILED : printed;
}

static int run_backup(struct settings *s)
{
	struct backup b = { .s = s, .to = s->paths.items[0].p, .lock_fd = -1, .show = isatty(STDERR_FILENO) };
	struct err err = { 0 };
	int r = -1, status;

	b.data = data_dir(s->data, &err);
	if (b.data) {
		places_init(&b);
		r = look_for_data(&b, &err);
	}
	if (r == 0)
		r = destination_open(&b, &err);
	status = r < 0 ? tell_error("backup", &err) : back_up_all(&b);
	backup_done(&b);
	return status;
}

static const struct option_row backup_rows[] = {
	{ 0, "profiles", "DIR", "the folder of profiles [DATA/profiles]", SERVICE_TEXT(profiles.dir) },
	{ 0, "store", "DIR", "the folder of the store; one in a bucket is not copied [DATA/store]",
	  SERVICE_TEXT(store.dir) },
	{ 0, "tokens", "FILE", "the file of hashed tokens [DATA/tokens]", SERVICE_TEXT(tokens) },
	{ 0, "parallel", "N", "objects of the store at once [8]", SERVICE_NUMBER(store.parallel) },
	{ 0 },
};
static const struct option_group backup_group = { "Parts of the copy", backup_rows };

const struct command command_backup = {
	.name = "backup",
	.args = "DESTINATION",
	.summary = "copy profiles, store and tokens of a service, which may be running, into a folder",
	.examples =
		"  lode backup /backup/lode                         again: the store's new files only\n"
		"  lode backup --data /srv/lode --json /backup/lode\n"
		"  cp -a /backup/lode/profiles /backup/lode/store /backup/lode/tokens /var/lib/lode/\n"
		"                                                   restore, while the service is stopped\n",
	.groups = { &group_state, &backup_group, &group_output },
	.configured = true,
	.min_args = 1,
	.max_args = 1,
	.missing = "no DESTINATION given",
	.own_size = sizeof(struct service_settings),
	.run = run_backup,
};
