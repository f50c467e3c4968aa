/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON shared by several answers.
 */
#include "server/profiles/profiles.h"

void api_put_labels(struct api *a, const struct profilestore_label *labels, size_t n)
{
	json_open_object(&a->json, "labels");
	for (size_t i = 0; i < n; i++) {
		json_key(&a->json, labels[i].name);
		json_put_str(&a->json, NULL, labels[i].value);
	}
	json_close(&a->json);
}

void api_put_damaged(struct api *a, uint64_t n)
{
	if (n)
		json_put_uint(&a->json, "damaged", n);
}
