/* SPDX-License-Identifier: Apache-2.0 */
#include "oracle.h"

struct oracle *oracle_new(void)
{
	return NULL;
}

void oracle_free(struct oracle *o)
{
}

enum oracle_verdict oracle_compare(struct oracle *o, const struct sampler_sample *s)
{
	return ORACLE_NOTHING;
}
