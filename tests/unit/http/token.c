/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of tokens: it appears, changes, is damaged and removed.
 */
#include "test.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
#include "http/token.h"

struct token_fixture {
	char dir[TEST_PATH_SIZE], path[TEST_PATH_SIZE + 8];
	struct tokens *t;
};

static int set_up(void **state)
{
	struct token_fixture *f = NEW(struct token_fixture);

	clock_test_freeze(1000000);
	test_dir_make(f->dir);
	snprintf(f->path, sizeof(f->path), "%s/tokens", f->dir);
	f->t = tokens_new(f->path);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct token_fixture *f = *state;

	clock_test_thaw();
	tokens_free(f->t);
	test_dir_remove(f->dir);
	free(f);
	return 0;
}

/* Write another token; the server reads the file again. */
static void write_one(struct token_fixture *f, const char *name, unsigned scopes,
		      char secret[TOKEN_SECRET_SIZE])
{
	struct token t;
	struct err err = { 0 };

	assert_done(token_make(str_of(name), scopes, &t, secret, &err));
	assert_done(tokens_write(f->path, &t, 1, &err));
	clock_test_advance(1000);
}

static int check(struct token_fixture *f, const char *secret, enum token_scope scope)
{
	char name[TOKEN_MAX_NAME] = "";

	return tokens_check(f->t, str_of(secret), scope, name);
}

static void without_a_file_there_are_none(void **state)
{
	struct token_fixture *f = *state;
	struct tokens *none = tokens_new(NULL);
	char name[TOKEN_MAX_NAME];

	assert_false(tokens_any(f->t));
	assert_int_equal(check(f, "lode_00", TOKEN_READ), TOKEN_UNKNOWN);
	assert_false(tokens_any(none));
	assert_int_equal(tokens_check(none, STR("lode_00"), TOKEN_READ, name), TOKEN_UNKNOWN);
	tokens_free(none);
	tokens_free(NULL);
}

static void a_token_has_its_scopes_and_what_they_imply(void **state)
{
	struct token_fixture *f = *state;
	static const struct {
		unsigned has;
		bool read, push, admin;
	} rows[] = { { TOKEN_READ, true, false, false },
		     { TOKEN_PUSH, true, true, false },
		     { TOKEN_ADMIN, true, true, true } };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char secret[TOKEN_SECRET_SIZE], name[TOKEN_MAX_NAME];

		write_one(f, "ci", rows[i].has, secret);
		assert_true(tokens_any(f->t));
		assert_int_equal(check(f, secret, TOKEN_READ), rows[i].read ? 0 : TOKEN_NOT_ALLOWED);
		assert_int_equal(check(f, secret, TOKEN_PUSH), rows[i].push ? 0 : TOKEN_NOT_ALLOWED);
		assert_int_equal(check(f, secret, TOKEN_ADMIN), rows[i].admin ? 0 : TOKEN_NOT_ALLOWED);
		assert_int_equal(tokens_check(f->t, str_of(secret), TOKEN_READ, name), 0);
		assert_string_equal(name, "ci");
		secret[TOKEN_SECRET_SIZE - 2] ^= 1;
		assert_int_equal(check(f, secret, TOKEN_READ), TOKEN_UNKNOWN);
		assert_int_equal(check(f, "", TOKEN_READ), TOKEN_UNKNOWN);
	}
}

static void a_replaced_token_is_refused(void **state)
{
	struct token_fixture *f = *state;
	char first[TOKEN_SECRET_SIZE], second[TOKEN_SECRET_SIZE];

	write_one(f, "a", TOKEN_PUSH, first);
	assert_int_equal(check(f, first, TOKEN_PUSH), 0);
	write_one(f, "a", TOKEN_PUSH, second);
	assert_int_equal(check(f, first, TOKEN_PUSH), TOKEN_UNKNOWN);
	assert_int_equal(check(f, second, TOKEN_PUSH), 0);
	assert_int_equal(unlink(f->path), 0);
	clock_test_advance(1000);
	assert_int_equal(check(f, second, TOKEN_PUSH), TOKEN_UNKNOWN);
	assert_false(tokens_any(f->t));
}

/* A mistake in the file must not let any client in. */
static void an_unreadable_token_file_lets_no_client_in(void **state)
{
	struct token_fixture *f = *state;
	char secret[TOKEN_SECRET_SIZE];
	struct err err = { 0 };

	write_one(f, "a", TOKEN_ADMIN, secret);
	assert_int_equal(check(f, secret, TOKEN_READ), 0);
	assert_done(file_write_durable(f->path, "nonsense\n", 9, 0600, &err));
	clock_test_advance(1000);
	assert_true(tokens_any(f->t));
	assert_int_equal(check(f, secret, TOKEN_READ), TOKEN_UNKNOWN);
}

static void a_file_that_could_not_be_read_for_a_moment_is_read_again(void **state)
{
	struct token_fixture *f = *state;
	char secret[TOKEN_SECRET_SIZE];
	struct rlimit was, none;
	int fd;

	write_one(f, "ci", TOKEN_PUSH, secret);
	fd = dup(STDERR_FILENO);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = (struct rlimit){ (rlim_t)fd, was.rlim_max };
	close(fd);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(check(f, secret, TOKEN_PUSH), TOKEN_UNKNOWN);
		assert_true(tokens_any(f->t));
		clock_test_advance(1000);
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(check(f, secret, TOKEN_PUSH), 0);
}

/* Of a volume that is not mounted yet. */
static void a_link_that_leads_nowhere_lets_no_client_in(void **state)
{
	struct token_fixture *f = *state;
	char secret[TOKEN_SECRET_SIZE], link[sizeof(f->path)];

	memcpy(link, f->path, sizeof(link));
	snprintf(f->path, sizeof(f->path), "%s/later", f->dir);
	assert_int_equal(symlink(f->path, link), 0);
	assert_true(tokens_any(f->t));
	write_one(f, "ci", TOKEN_PUSH, secret);
	assert_int_equal(check(f, secret, TOKEN_PUSH), 0);
	assert_int_equal(unlink(f->path), 0);
	clock_test_advance(1000);
	assert_int_equal(check(f, secret, TOKEN_PUSH), TOKEN_UNKNOWN);
	assert_true(tokens_any(f->t));
}

static void a_file_without_tokens_lets_no_client_in(void **state)
{
	struct token_fixture *f = *state;
	struct err err = { 0 };

	assert_false(tokens_any(f->t));
	assert_done(file_write_durable(f->path, "", 0, 0600, &err));
	clock_test_advance(1000);
	assert_true(tokens_any(f->t));
	assert_done(file_write_durable(f->path, "# none yet\n\n", 12, 0600, &err));
	clock_test_advance(1000);
	assert_true(tokens_any(f->t));
	assert_int_equal(check(f, "", TOKEN_READ), TOKEN_UNKNOWN);
	/* So also after the last token was removed. */
	assert_done(tokens_write(f->path, NULL, 0, &err));
	clock_test_advance(1000);
	assert_true(tokens_any(f->t));
	assert_int_equal(unlink(f->path), 0);
	clock_test_advance(1000);
	assert_false(tokens_any(f->t));
}

/* The times of the content may be the same: what is corrected then is the owner or the permissions. */
static void a_file_whose_inode_changed_is_read_again(void **state)
{
	struct token_fixture *f = *state;
	char secret[TOKEN_SECRET_SIZE];
	AUTO(buf_done) struct buf right = { 0 };
	AUTO(fd_close) int fd = -1;
	struct timespec times[2];
	struct err err = { 0 };
	struct stat st, wrong;

	write_one(f, "a", TOKEN_PUSH, secret);
	assert_int_equal(file_read(f->path, 1000, &right, &err), 0);
	fd = open(f->path, O_RDWR | O_CLOEXEC);
	assert_int_equal(pwrite(fd, " ", 1, 0), 1);
	assert_int_equal(fstat(fd, &wrong), 0);
	clock_test_advance(1000);
	assert_int_equal(check(f, secret, TOKEN_PUSH), TOKEN_UNKNOWN);
	assert_int_equal(pwrite(fd, right.p, right.size, 0), right.size);
	times[0] = wrong.st_atim;
	times[1] = wrong.st_mtim;
	/* The clock of file systems has steps of some milliseconds. */
	do {
		assert_int_equal(futimens(fd, times), 0);
		assert_int_equal(fstat(fd, &st), 0);
	} while (st.st_ctim.tv_sec == wrong.st_ctim.tv_sec && st.st_ctim.tv_nsec == wrong.st_ctim.tv_nsec);
	clock_test_advance(1000);
	assert_int_equal(check(f, secret, TOKEN_PUSH), 0);
}

/* A service with a user of its own has to read it. */
static void a_file_that_root_writes_has_the_owner_of_its_folder(void **state)
{
	struct token_fixture *f = *state;
	char secret[TOKEN_SECRET_SIZE];
	struct stat st;

	if (geteuid() != 0)
		skip();
	assert_int_equal(chown(f->dir, 12345, 54321), 0);
	write_one(f, "a", TOKEN_PUSH, secret);
	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(st.st_uid, 12345);
	assert_int_equal(st.st_gid, 54321);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(check(f, secret, TOKEN_PUSH), 0);
}

static void a_path_that_is_no_file_lets_no_client_in(void **state)
{
	struct token_fixture *f = *state;
	struct tokens *t;
	AUTO(mem_freep) char *path = mem_printf("%s/%0300d", f->dir, 0);

	/* A folder. */
	t = tokens_new(f->dir);
	assert_true(tokens_any(t));
	tokens_free(t);
	/* A path that cannot be searched; root can search all but those with too long a name. */
	t = tokens_new(path);
	assert_true(tokens_any(t));
	tokens_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(without_a_file_there_are_none, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_token_has_its_scopes_and_what_they_imply, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_replaced_token_is_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_unreadable_token_file_lets_no_client_in, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_file_that_could_not_be_read_for_a_moment_is_read_again,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_link_that_leads_nowhere_lets_no_client_in, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_file_without_tokens_lets_no_client_in, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_file_whose_inode_changed_is_read_again, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_file_that_root_writes_has_the_owner_of_its_folder, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_path_that_is_no_file_lets_no_client_in, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
