/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sampler_cpus.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A decimal number below SAMPLER_MAX_CPUS at the start of *list, cut off. */
static bool take_cpu(struct str *list, size_t *ret)
{
	size_t v = 0, i = 0;

	for (; i < list->size && list->p[i] >= '0' && list->p[i] <= '9'; i++) {
		v = v * 10 + (size_t)(list->p[i] - '0');
		if (v >= SAMPLER_MAX_CPUS)
			return false;
	}
	*list = (struct str){ list->p + i, list->size - i };
	*ret = v;
	return i > 0;
}

static bool take_char(struct str *list, char c)
{
	if (list->size == 0 || list->p[0] != c)
		return false;
	*list = (struct str){ list->p + 1, list->size - 1 };
	return true;
}

int sampler_cpus_parse(struct str list, bool *set, struct err *err)
{
	struct str rest = str_trim(list);
	size_t first, last;

	memset(set, 0, SAMPLER_MAX_CPUS * sizeof(*set));
	do {
		if (!take_cpu(&rest, &first))
			goto bad;
		last = first;
		if (take_char(&rest, '-') && (!take_cpu(&rest, &last) || last < first))
			goto bad;
		memset(set + first, true, last - first + 1);
	} while (take_char(&rest, ','));
	if (rest.size == 0)
		return 0;
bad:
	return err_set(err, ERR_INVALID, "not a list of processors: \"" STR_FMT "\"", STR_ARG(list));
}

int sampler_cpus_online(bool *set, struct err *err)
{
	static const char path[] = "/sys/devices/system/cpu/online";
	AUTO(buf_done) struct buf text = { 0 };
	long n = sysconf(_SC_NPROCESSORS_ONLN);
	int r = file_read(path, KIB(16), &text, err);

	if (r < 0)
		return -1;
	if (r == 0)
		return sampler_cpus_parse(str_of(buf_cstr(&text)), set, err) ? err_in(err, "%s", path) : 0;
	/* No /sys: they are numbered without gaps, most likely. */
	memset(set, 0, SAMPLER_MAX_CPUS * sizeof(*set));
	memset(set, true, (size_t)MIN(MAX(n, 1L), (long)SAMPLER_MAX_CPUS) * sizeof(*set));
	return 0;
}

static bool is_no_counter(int e)
{
	return e == ENOENT || e == EOPNOTSUPP || e == ENODEV;
}

bool sampler_has_cycles(void)
{
	struct perf_event_attr a = { .size = sizeof(a),
				     .type = PERF_TYPE_HARDWARE,
				     .config = PERF_COUNT_HW_CPU_CYCLES,
				     .disabled = 1,
				     .exclude_kernel = 1,
				     .exclude_hv = 1 };
	AUTO(fd_close) int fd = (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	/* A refusal for lack of privileges is told by the events of the processors. */
	return fd >= 0 || !is_no_counter(errno);
}

int sampler_event_open(const struct sampler_options *o, const struct perf_event_attr *attr, int pid, int cpu,
		       struct err *err)
{
	struct perf_event_attr a = *attr;
	int fd;

	a.size = sizeof(a);
	a.type = o->clock == SAMPLER_CLOCK_CYCLES ? PERF_TYPE_HARDWARE : PERF_TYPE_SOFTWARE;
	a.config = o->clock == SAMPLER_CLOCK_CYCLES ? (uint64_t)PERF_COUNT_HW_CPU_CYCLES
						    : (uint64_t)PERF_COUNT_SW_CPU_CLOCK;
	a.freq = 1;
	a.sample_freq = o->frequency_hz;
	fd = (int)syscall(SYS_perf_event_open, &a, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd >= 0)
		return fd;
	switch (errno) {
	case EACCES:
	case EPERM:
		return err_os(err, errno,
			      "perf_event_open: give the program CAP_PERFMON, or set "
			      "kernel.perf_event_paranoid lower");
	case ENOENT:
	case EOPNOTSUPP:
	case ENODEV:
		return err_os(err, errno,
			      "perf_event_open: there is no counter of cycles here; use the CPU clock");
	case EINVAL:
		return err_os(err, errno,
			      "perf_event_open: kernel.perf_event_max_sample_rate may be below %u Hz",
			      o->frequency_hz);
	default:
		return err_os(err, errno, "perf_event_open");
	}
}
