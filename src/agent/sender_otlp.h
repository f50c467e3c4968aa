/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles as requests of OTLP over HTTP, for receivers of all makes: the encoding, the headers, the answer.
 */
#pragma once

#include "profile/otlp.h"

#define SENDER_OTLP_PATH "/v1development/profiles"

/*
 * The request for a profile. Labels have the keys of OpenTelemetry's conventions: service.name, process.executable.name (comm),
 * container.name or container.id, k8s.pod.name or k8s.pod.uid, k8s.namespace.name; others keep their names.
 */
int sender_otlp_encode(const struct profile *p, const struct otlp_label *resource, size_t n_resource,
		       enum otlp_packing packing, struct buf *out, struct err *err);
/* The key of a label; valid as long as @label. */
struct str sender_otlp_key(struct str label, struct str value);
/* The headers for a body: type and, unless it is plain, encoding. Returns their number. */
size_t sender_otlp_headers(struct bytes body, const char *out[2]);
/*
 * Profiles that the answer to an accepted request (client_answer_otlp()) rejects. *ret_why: the receiver's message, on the
 * heap; NULL: none.
 */
uint64_t sender_otlp_rejected(struct bytes answer, char **ret_why);
/* The message of a refusal, for people; heap. */
char *sender_otlp_message(struct bytes answer);
