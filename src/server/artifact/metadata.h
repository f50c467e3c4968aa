/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What metadata.c and metadata_relay.c ask of each other.
 */
#pragma once

#include "server/json.h"

/*
 * Ask the other servers for the same. false: there are none, or they are not to be asked: reply. true: @over
 * will be called on a worker, to reply, with @results and theirs, and whether these and @complete are; @req
 * is not to be touched any more.
 */
bool metadata_relay(struct request *req, struct str key, struct str value, json_t *results, bool complete,
		    size_t max_results, void (*over)(struct request *req, json_t *results, bool complete));
