/* SPDX-License-Identifier: Apache-2.0 */
#include "base/proc_status.h"

#include <stdlib.h>
#include "base/base.h"

#define STATUS_MAX KIB(64)

static bool next_user(struct str *line, uid_t *ret)
{
	uint64_t user;

	if (!str_to_u64(str_word(line), &user) || user > UINT32_MAX)
		return false;
	*ret = (uid_t)user;
	return true;
}

bool proc_status_read(const char *pid, struct proc_status *ret)
{
	AUTO(mem_freep) char *path = mem_printf("/proc/%s/status", pid);
	AUTO(buf_done) struct buf b = { 0 };
	struct err ignored = { 0 };
	bool has_user = false;

	*ret = (struct proc_status){ .number = strtoull(pid, NULL, 10) };
	if (file_read(path, STATUS_MAX, &b, &ignored) != 0)
		return false;
	for (size_t i = 0; i < b.size; i++)
		if (b.p[i] == '\t')
			b.p[i] = ' ';
	for (struct str rest = buf_str(&b); rest.size;) {
		struct str line = str_cut(&rest, '\n'), key = str_word(&line), word;

		if (str_eq(key, STR("Uid:"))) {
			has_user = next_user(&line, &ret->real) && next_user(&line, &ret->effective);
			if (!has_user)
				return false;
		} else if (str_eq(key, STR("NSpid:"))) {
			while ((word = str_word(&line)).size)
				if (!str_to_u64(word, &ret->number))
					return false;
		}
	}
	return has_user;
}
