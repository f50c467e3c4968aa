/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/PID/cgroup, and labels made of it: values are UTF-8 without control characters.
 */
#include "fuzz.h"

#include "agent/labels.h"

static void check_view(struct str s, const uint8_t *data, size_t size)
{
	FUZZ_CHECK(!s.size || s.size <= size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct label_maker *m = label_maker_new(&(struct label_options){ .cgroup = true, .exe = true }, NULL);
	struct str text = { (const char *)data, size };
	const struct agent_labels *l;
	struct cgroup_facts f;
	uint32_t number;

	cgroup_read(text, &f);
	check_view(f.unit, data, size);
	check_view(f.container, data, size);
	check_view(f.pod, data, size);
	FUZZ_CHECK(label_maker_get(m, &(struct label_facts){ .comm = text, .exe = text, .cgroup = text },
				   &number));
	l = label_maker_set(m, number);
	for (size_t i = 0; i < l->n; i++) {
		struct str rest = l->v[i].value;

		while (rest.size) {
			uint32_t code;
			size_t n = str_utf8(rest, &code);

			FUZZ_CHECK(n && code >= 0x20 && code != 0x7f);
			rest.p += n;
			rest.size -= n;
		}
	}
	label_maker_free(m);
	return 0;
}
