/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filters of system calls in classic BPF, without libseccomp: a list of numbers, and an action for those in it and for the
 * rest. All refusals are EPERM, not a signal: a C library that tries a newer call first goes on with the older one.
 */
#include "agent/confine.h"

#include <assert.h>
#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOBODY       65534u
#define PARSER_USER  0x7fff0000u /* and 15 bits of the process ID: a user that no other process has */
#define PARSER_DATA  MIB(512)
#define PARSER_FILES 16u
#define X32_BIT      0x40000000u
#define FILTER_MAX   200u
#define LAST_CAP_BIT 63
#define ALLOWED      SECCOMP_RET_ALLOW
#define REFUSED      (SECCOMP_RET_ERRNO | EPERM)
#define NOT_THERE    (SECCOMP_RET_ERRNO | ENOSYS)
#define NUMBER_AT    ((uint32_t)offsetof(struct seccomp_data, nr))
#define ARCH_AT      ((uint32_t)offsetof(struct seccomp_data, arch))
/* The lower half of argument @i: both architectures are little-endian. */
#define ARGUMENT_AT(i) ((uint32_t)(offsetof(struct seccomp_data, args) + (i)*8))

#if defined(__x86_64__)
#define THIS_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define THIS_ARCH AUDIT_ARCH_AARCH64
#endif

/* ---- filters ---- */

struct call_filter {
	struct sock_filter v[FILTER_MAX];
	unsigned short n;
};

static void filter_add(struct call_filter *f, uint16_t code, uint32_t k, uint8_t jt, uint8_t jf)
{
	assert(f->n < FILTER_MAX);
	f->v[f->n++] = (struct sock_filter){ code, jt, jf, k };
}

static void filter_return(struct call_filter *f, uint32_t action)
{
	filter_add(f, BPF_RET | BPF_K, action, 0, 0);
}

static void filter_load(struct call_filter *f, uint32_t at)
{
	filter_add(f, BPF_LD | BPF_W | BPF_ABS, at, 0, 0);
}

/* The number is loaded after it. Programs of other architectures are refused all. */
static void filter_start(struct call_filter *f)
{
#ifdef THIS_ARCH
	filter_load(f, ARCH_AT);
	filter_add(f, BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCH, 1, 0);
	filter_return(f, REFUSED);
#endif
	filter_load(f, NUMBER_AT);
	filter_add(f, BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
	filter_return(f, REFUSED);
}

static void filter_calls(struct call_filter *f, const int *calls, size_t n, uint32_t action)
{
	for (size_t i = 0; i < n; i++) {
		filter_add(f, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[i], 0, 1);
		filter_return(f, action);
	}
}

static int filter_install(const struct call_filter *f, unsigned flags, struct err *err)
{
	struct sock_fprog prog = { .len = f->n, .filter = (struct sock_filter *)f->v };

#ifndef THIS_ARCH
	return err_set(err, ERR_INVALID, "there is no filter of system calls for this processor");
#endif
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_os(err, errno, "no_new_privs");
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog) != 0)
		return err_os(err, errno, "seccomp");
	return 0;
}

/* ---- the parser ---- */

/* Those of reading files that are open, of memory, of the socket, and of ending. */
static const int parser_calls[] = {
	SYS_read,
	SYS_pread64,
	SYS_write,
	SYS_sendmsg,
	SYS_sendto,
	SYS_recvmsg,
	SYS_recvfrom,
	SYS_close,
	SYS_lseek,
	SYS_fstat,
#ifdef SYS_newfstatat
	SYS_newfstatat,
#endif
	SYS_statx,
	SYS_fcntl,
	SYS_mmap,
	SYS_munmap,
	SYS_mremap,
	SYS_mprotect,
	SYS_madvise,
	SYS_brk,
	SYS_futex,
	SYS_clock_gettime,
	SYS_clock_getres,
	SYS_gettimeofday,
	SYS_getrandom,
	SYS_getpid,
	SYS_gettid,
	SYS_setitimer,
	SYS_setpriority,
	SYS_getpriority,
	SYS_sched_yield,
	SYS_sched_getaffinity,
	SYS_rt_sigreturn,
	SYS_rt_sigaction,
	SYS_rt_sigprocmask,
	SYS_sigaltstack,
	SYS_restart_syscall,
	SYS_exit,
	SYS_exit_group,
	SYS_tgkill,
};

static bool become_user(uid_t user)
{
	return setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0;
}

/*
 * Any process of the same user may end the parser, or use up the user's limit of processes, and daemons and containers run as
 * nobody: that user is taken only where a user namespace has no other.
 */
static int drop_user(struct err *err)
{
	/* Without CAP_SETUID (in a container with few capabilities) it stays root, without a capability. */
	if (geteuid() != 0)
		return 0;
	if ((setgroups(0, NULL) < 0 ||
	     (!become_user(PARSER_USER | ((unsigned)getpid() & 0x7fff)) && !become_user(NOBODY))) &&
	    errno != EPERM && errno != EINVAL)
		return err_os(err, errno, "another user");
	return 0;
}

static int drop_capabilities(struct err *err)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };

	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capset, &head, none) < 0)
		return err_os(err, errno, "capset");
	return 0;
}

int confine_drop_rights(struct err *err)
{
	/* Fails without CAP_SETPCAP; no_new_privs makes the bounding set meaningless. */
	for (int cap = 0; cap <= LAST_CAP_BIT; cap++)
		(void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
	if (drop_user(err) < 0 || drop_capabilities(err) < 0)
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_os(err, errno, "no_new_privs");
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	return 0;
}

static void limit_parser(void)
{
	const struct rlimit data = { PARSER_DATA, PARSER_DATA }, files = { PARSER_FILES, PARSER_FILES },
			    none = { 0, 0 };

	/* The shadow memory of a sanitizer is larger. */
	if (!CONFINE_SANITIZED)
		(void)setrlimit(RLIMIT_DATA, &data);
	(void)setrlimit(RLIMIT_NOFILE, &files);
	(void)setrlimit(RLIMIT_FSIZE, &none);
	(void)setrlimit(RLIMIT_CORE, &none);
	(void)setrlimit(RLIMIT_NPROC, &none);
}

int confine_parser(const char **ret_lacks, struct err *err)
{
	struct call_filter f = { 0 };
	struct err lack = { 0 };

	*ret_lacks = NULL;
	if (confine_drop_rights(err) < 0)
		return -1;
	limit_parser();
	filter_start(&f);
	filter_calls(&f, parser_calls, ARRAY_SIZE(parser_calls), ALLOWED);
	filter_return(&f, REFUSED);
	if (filter_install(&f, 0, &lack) < 0)
		*ret_lacks = "a filter of its system calls";
	return 0;
}

/* ---- the agent ---- */

static const int refused_calls[] = {
	SYS_execve,
	SYS_execveat,
#ifdef SYS_fork
	SYS_fork,
	SYS_vfork,
#endif
	SYS_ptrace,
	SYS_process_vm_writev,
#ifdef SYS_pidfd_getfd
	SYS_pidfd_getfd, /* CAP_SYS_PTRACE takes any descriptor of any process, sockets too */
#endif
	SYS_mount,
	SYS_umount2,
	SYS_pivot_root,
	SYS_chroot,
	SYS_setns,
	SYS_unshare,
	SYS_init_module,
	SYS_finit_module,
	SYS_delete_module,
	SYS_kexec_load,
#ifdef SYS_kexec_file_load
	SYS_kexec_file_load,
#endif
	SYS_reboot,
	SYS_swapon,
	SYS_swapoff,
	SYS_acct,
	SYS_quotactl,
	SYS_personality,
	SYS_keyctl,
	SYS_add_key,
	SYS_request_key,
	SYS_userfaultfd,
	SYS_open_by_handle_at,
	SYS_mknodat,
	SYS_settimeofday,
	SYS_clock_settime,
	SYS_adjtimex,
	SYS_clock_adjtime,
	SYS_sethostname,
	SYS_setdomainname,
	SYS_setuid,
	SYS_setgid,
	SYS_setresuid,
	SYS_setresgid,
	SYS_setreuid,
	SYS_setregid,
	SYS_setgroups,
#ifdef SYS_iopl
	SYS_iopl,
	SYS_ioperm,
	SYS_modify_ldt,
	SYS_mknod,
#endif
#ifdef SYS_open_tree
	SYS_open_tree,
	SYS_move_mount,
	SYS_fsopen,
	SYS_fsconfig,
	SYS_fsmount,
	SYS_fspick,
#endif
#ifdef SYS_mount_setattr
	SYS_mount_setattr,
#endif
#ifdef SYS_io_uring_setup
	SYS_io_uring_setup, /* its requests pass no filter */
#endif
};

/* bpf() goes on for maps and for processors that are added, but loads no program. */
static void filter_bpf(struct call_filter *f)
{
	filter_add(f, BPF_JMP | BPF_JEQ | BPF_K, SYS_bpf, 0, 4);
	filter_load(f, ARGUMENT_AT(0));
	filter_add(f, BPF_JMP | BPF_JEQ | BPF_K, BPF_PROG_LOAD, 0, 1);
	filter_return(f, REFUSED);
	filter_return(f, ALLOWED);
}

/* Threads, but no processes. The flags of clone3() are in memory, where a filter sees nothing: C libraries use clone() then. */
static void filter_clone(struct call_filter *f)
{
#ifdef SYS_clone3
	filter_add(f, BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1);
	filter_return(f, NOT_THERE);
#endif
	filter_add(f, BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4);
	filter_load(f, ARGUMENT_AT(0));
	filter_add(f, BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0);
	filter_return(f, REFUSED);
	filter_return(f, ALLOWED);
}

int confine_agent(struct err *err)
{
	struct call_filter f = { 0 };

	filter_start(&f);
	filter_calls(&f, refused_calls, ARRAY_SIZE(refused_calls), REFUSED);
	filter_bpf(&f);
	filter_clone(&f);
	filter_return(&f, ALLOWED);
	return filter_install(&f, SECCOMP_FILTER_FLAG_TSYNC, err);
}
