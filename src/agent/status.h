/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an agent does, as JSON (the state file that `lode agent --status` reads) and as metrics.
 */
#pragma once

#include "agent/agent.h"
#include "agent/home.h"
#include "agent/sender.h"
#include "base/json.h"

struct agent_status {
	struct agent_stats agent;
	bool sends; /* sender and home are set */
	struct sender_stats sender;
	struct home_stats home;
	const char *url; /* of the server, shown */
	int64_t cpu_ns;  /* of this process and the parser */
	uint64_t rss, parser_rss;
};
/* Fill in cpu_ns, rss and parser_rss; agent is set. */
void agent_status_usage(struct agent_status *s);
void agent_status_json(const struct agent_status *s, struct json_writer *w);
/* Set the metrics, lode_agent_*. */
void agent_status_metrics(const struct agent_status *s);
/* For people, from the state file's JSON. ERR_INVALID: it is not such a file. */
int agent_status_print(struct bytes json, struct buf *out, struct err *err);
