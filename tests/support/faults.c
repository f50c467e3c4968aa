/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library for LD_PRELOAD that makes system calls on files of one folder fail: a disk that is full or broken.
 * tests/e2e/faults.py controls it, through a file that both map: $LODE_FAULTS=FILE, struct control at its
 * beginning.
 *
 * Only regular files below the folder are concerned, and, when it is listed, the folder of them. A call fails before
 * anything was done, except for a write, which may also be short.
 */
#undef _FILE_OFFSET_BITS /* both open() and open64() are defined here */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum fault_call {
	CALL_WRITE,
	CALL_SYNC,
	CALL_RENAME,
	CALL_LINK,
	CALL_MMAP,
	CALL_TRUNCATE,
	CALL_OPEN,
	CALL_READ,
	CALL_LIST,
};

/* The layout is known to tests/e2e/faults.py. */
struct control {
	_Atomic uint32_t calls;  /* 1 << enum fault_call, of those that fail; 0: none */
	_Atomic uint32_t one_in; /* of so many calls one fails */
	_Atomic uint32_t number; /* errno; 0: EIO or ENOSPC, or a write that is short */
	_Atomic uint32_t seed;
	_Atomic uint64_t n_calls, n_failed;
	_Atomic uint64_t left; /* faults that are left; 0: none fails */
	char folder[256];
	char part[128]; /* of the path, after the folder; empty: all */
};

static struct control *control;

__attribute__((constructor)) static void faults_begin(void)
{
	const char *path = getenv("LODE_FAULTS");
	int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
	void *p;

	if (fd < 0)
		return;
	p = (void *)syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (p != MAP_FAILED)
		control = p;
}

static uint64_t fault_random(void)
{
	uint64_t x = ((uint64_t)control->seed << 32) + atomic_fetch_add(&control->n_calls, 1);

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

static bool path_is_concerned(const char *path)
{
	size_t n = strlen(control->folder);

	return strncmp(path, control->folder, n) == 0 && (!*control->part || strstr(path + n, control->part));
}

static bool fd_is_concerned(int fd)
{
	char link[64], path[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n <= 0)
		return false;
	path[n] = '\0';
	return path_is_concerned(path);
}

static bool call_may_fail(enum fault_call call)
{
	return control && atomic_load(&control->calls) >> call & 1 && atomic_load(&control->left);
}

/* -1: let it fail, errno is set; 1: let a write be short; 0: go on. */
static int fault_now(enum fault_call call)
{
	uint64_t x = fault_random(), left = atomic_load(&control->left);

	if (x % (control->one_in ? control->one_in : 1))
		return 0;
	do {
		if (!left)
			return 0;
	} while (!atomic_compare_exchange_weak(&control->left, &left, left - 1));
	atomic_fetch_add(&control->n_failed, 1);
	x >>= 32;
	if (!control->number && call == CALL_WRITE && x % 3 == 0)
		return 1;
	errno = control->number ? (int)control->number : call == CALL_READ || x % 2 ? EIO : ENOSPC;
	return -1;
}

static int fault_fd(enum fault_call call, int fd)
{
	return call_may_fail(call) && fd_is_concerned(fd) ? fault_now(call) : 0;
}

static int fault_path(enum fault_call call, const char *path)
{
	return call_may_fail(call) && path_is_concerned(path) ? fault_now(call) : 0;
}

#define REAL(name)                                                          \
	({                                                                  \
		static __typeof__(&name) real_;                             \
		if (!real_)                                                 \
			real_ = (__typeof__(&name))dlsym(RTLD_NEXT, #name); \
		real_;                                                      \
	})

/* ---- writes ---- */

#define FAULTY_WRITE(name, parameters, arguments, fd, size) \
	ssize_t name parameters                             \
	{                                                   \
		int fault_ = fault_fd(CALL_WRITE, fd);      \
                                                            \
		if (fault_ < 0)                             \
			return -1;                          \
		if (fault_ > 0 && size > 1)                 \
			size = size / 2;                    \
		return REAL(name) arguments;                \
	}

FAULTY_WRITE(write, (int fd, const void *p, size_t size), (fd, p, size), fd, size)
FAULTY_WRITE(pwrite, (int fd, const void *p, size_t size, off_t off), (fd, p, size, off), fd, size)
FAULTY_WRITE(pwrite64, (int fd, const void *p, size_t size, off64_t off), (fd, p, size, off), fd, size)
FAULTY_WRITE(writev, (int fd, const struct iovec *v, int n), (fd, v, n), fd, n)
FAULTY_WRITE(pwritev, (int fd, const struct iovec *v, int n, off_t off), (fd, v, n, off), fd, n)

/* ---- reads ---- */

#define FAULTY_READ(name, parameters, arguments, fd) \
	ssize_t name parameters                      \
	{                                            \
		if (fault_fd(CALL_READ, fd) < 0)     \
			return -1;                   \
		return REAL(name) arguments;         \
	}

FAULTY_READ(read, (int fd, void *p, size_t size), (fd, p, size), fd)
FAULTY_READ(pread, (int fd, void *p, size_t size, off_t off), (fd, p, size, off), fd)
FAULTY_READ(pread64, (int fd, void *p, size_t size, off64_t off), (fd, p, size, off), fd)
FAULTY_READ(sendfile, (int to, int fd, off_t *off, size_t size), (to, fd, off, size), fd)
FAULTY_READ(sendfile64, (int to, int fd, off64_t *off, size_t size), (to, fd, off, size), fd)

/* ---- listing ---- */

struct dirent *readdir(DIR *d)
{
	return fault_fd(CALL_LIST, dirfd(d)) < 0 ? NULL : REAL(readdir)(d);
}

struct dirent64 *readdir64(DIR *d)
{
	return fault_fd(CALL_LIST, dirfd(d)) < 0 ? NULL : REAL(readdir64)(d);
}

/* ---- the rest ---- */

#define FAULTY_INT(call, where, name, parameters, arguments, subject) \
	int name parameters                                           \
	{                                                             \
		if (where(call, subject) != 0)                        \
			return -1;                                    \
		return REAL(name) arguments;                          \
	}

FAULTY_INT(CALL_SYNC, fault_fd, fsync, (int fd), (fd), fd)
FAULTY_INT(CALL_SYNC, fault_fd, fdatasync, (int fd), (fd), fd)
FAULTY_INT(CALL_TRUNCATE, fault_fd, ftruncate, (int fd, off_t size), (fd, size), fd)
FAULTY_INT(CALL_TRUNCATE, fault_fd, ftruncate64, (int fd, off64_t size), (fd, size), fd)
FAULTY_INT(CALL_RENAME, fault_path, rename, (const char *from, const char *to), (from, to), from)
FAULTY_INT(CALL_LINK, fault_path, link, (const char *from, const char *to), (from, to), to)

/* Names may be relative to a folder: then the folder counts. */
static int fault_at(enum fault_call call, int dir, const char *path)
{
	return path[0] == '/' || dir == AT_FDCWD ? fault_path(call, path) : fault_fd(call, dir);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	return fault_at(CALL_RENAME, to_dir, to) ? -1 : REAL(renameat)(from_dir, from, to_dir, to);
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
	return fault_at(CALL_RENAME, to_dir, to) ? -1 : REAL(renameat2)(from_dir, from, to_dir, to, flags);
}

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
	return fault_at(CALL_LINK, to_dir, to) ? -1 : REAL(linkat)(from_dir, from, to_dir, to, flags);
}

static bool mapping_fails(int fd)
{
	if (fd < 0 || fault_fd(CALL_MMAP, fd) == 0)
		return false;
	errno = ENOMEM;
	return true;
}

void *mmap(void *at, size_t size, int prot, int flags, int fd, off_t off)
{
	return mapping_fails(fd) ? MAP_FAILED : REAL(mmap)(at, size, prot, flags, fd, off);
}

void *mmap64(void *at, size_t size, int prot, int flags, int fd, off64_t off)
{
	return mapping_fails(fd) ? MAP_FAILED : REAL(mmap64)(at, size, prot, flags, fd, off);
}

#define OPEN_MODE(flags)                                 \
	({                                               \
		mode_t mode_ = 0;                        \
		if ((flags) & (O_CREAT | __O_TMPFILE)) { \
			va_list ap_;                     \
			va_start(ap_, flags);            \
			mode_ = va_arg(ap_, mode_t);     \
			va_end(ap_);                     \
		}                                        \
		mode_;                                   \
	})

int open(const char *path, int flags, ...)
{
	mode_t mode = OPEN_MODE(flags);

	return fault_path(CALL_OPEN, path) ? -1 : REAL(open)(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
	mode_t mode = OPEN_MODE(flags);

	return fault_path(CALL_OPEN, path) ? -1 : REAL(open64)(path, flags, mode);
}

int openat(int dir, const char *path, int flags, ...)
{
	mode_t mode = OPEN_MODE(flags);

	return fault_at(CALL_OPEN, dir, path) ? -1 : REAL(openat)(dir, path, flags, mode);
}

int openat64(int dir, const char *path, int flags, ...)
{
	mode_t mode = OPEN_MODE(flags);

	return fault_at(CALL_OPEN, dir, path) ? -1 : REAL(openat64)(dir, path, flags, mode);
}
