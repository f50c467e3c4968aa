/* SPDX-License-Identifier: Apache-2.0 */
/* Files that agents offer: is one wanted? Shared by the services of Pyroscope and Parca. */
#pragma once

#include "server/profiles/profiles.h"
#include "server/push/push.h"

/* Clients compare this text: it means "ask again in five minutes"; they keep any other answer for as long as they run. */
#define OFFER_IN_PROGRESS \
	"A previous upload is still in-progress and not stale yet (only stale uploads can be retried)."

enum offer {
	OFFER_NEW,    /* no file of it with symbols is here */
	OFFER_RUNS,   /* another client is uploading it, or is about to */
	OFFER_DYNSYM, /* a file with dynamic symbols alone is here */
	OFFER_HERE,   /* a file with symbols is here, in the store or scanned */
};
enum offer offer_judge(struct api *a, const struct build_id *id);
const char *offer_reason(enum offer o);
/* Without a store there is no such service. */
int offer_check_store(struct api *a, struct err *err);
/* The text, or the number, of a field of a message. */
struct str offer_text(struct bytes message, uint32_t number);
uint64_t offer_number(struct bytes message, uint32_t number);
