/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of objects as a bucket lists them: one that is read as a version or a generation is written again, and is the same.
 */
#include "fuzz.h"

#include <stdlib.h>
#include "store/bucket.h"

/* A name leads to no folder above that of the store, and is one line of a log. */
static void check_name(const char *name)
{
	FUZZ_CHECK(name[0] != '/' && !strstr(name, ".."));
	for (; *name; name++)
		FUZZ_CHECK(*name > ' ' && *name < 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(mem_freep) char *name = NULL;
	char out[BUCKET_NAME_SIZE], content[BLOB_CONTENT_NAME_SIZE], id[GENERATION_SIZE];
	struct version_name v;
	size_t blob;

	if (size >= BUCKET_NAME_SIZE)
		return 0;
	name = mem_strndup((const char *)data, size);
	if (version_name_read(name, &v, &blob)) {
		AUTO(mem_freep) char *of = mem_strndup(name, blob);

		check_name(of);
		version_name_write(of, &v, out);
		FUZZ_CHECK(strcmp(out, name) == 0);
	}
	if (generation_name_read(name, content, id)) {
		check_name(content);
		generation_name_write(content, id, out);
		FUZZ_CHECK(strcmp(out, name) == 0);
		generation_make(id, out);
		FUZZ_CHECK(strlen(out) == GENERATION_SIZE - 1);
	}
	return 0;
}
