/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of container runtimes: the first byte says which one; names have a limited size.
 */
#include "fuzz.h"

#include "agent/container.h"

static void check_container_name(bool found, struct container_name *n)
{
	const char *const all[] = { n->container, n->pod, n->space, n->service };

	FUZZ_CHECK(found ? n->container || n->pod : !n->container && !n->pod && !n->space && !n->service);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		FUZZ_CHECK(!all[i] || (*all[i] && strlen(all[i]) <= 256));
	container_name_done(n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct str id = STR("0123456789abcdef");
	struct container_name n;
	struct bytes json;

	if (!size)
		return 0;
	json = bytes_of(data + 1, size - 1);
	switch (data[0]) {
	case 's':
		check_container_name(container_parse_spec(json, &n), &n);
		break;
	case 'd':
		check_container_name(container_parse_docker(json, &n), &n);
		break;
	case 'l':
		check_container_name(container_parse_storage(json, id, &n), &n);
		break;
	default:
		check_container_name(
			container_parse_log((struct str){ (const char *)json.p, json.size }, id, &n), &n);
	}
	return 0;
}
