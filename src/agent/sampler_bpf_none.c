/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In place of sampler_bpf.c in a build without clang or libbpf-dev (the option "agent" of Meson).
 */
#include "agent/sampler_bpf.h"

int sampler_bpf_open(const struct sampler_options *options, struct sampler **ret, struct err *err)
{
	return err_set(err, ERR_INTERNAL,
		       "BPF: this program was built without it: clang or libbpf-dev was missing");
}
