/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of the store in tests.
 */
#include "keys.h"

#include "test.h"

struct store_key key_of(const char *text)
{
	struct store_key key;

	if (!store_key_parse(str_of(text), &key))
		fail_msg("not a key: %s", text);
	return key;
}
