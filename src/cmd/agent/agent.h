/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode agent, in parts:
 *
 *   agent.c   options, the run, a profile to a file
 *   sink.c    profiles to a server: labels, spool, uploads, the state file
 *   listen.c  /metrics
 */
#pragma once

#include "agent/agent.h"
#include "agent/home.h"
#include "agent/sender.h"
#include "cmd/internal.h"
#include "cmd/push/target.h"

struct agent_settings {
	unsigned frequency_hz;
	int64_t duration_s, window_s, spool_age_s;
	struct setting_list pids, rules;
	const char *clock, *node, *state, *listen, *container_names, *to_otlp, *otlp_packing;
	uint64_t unwind_memory, spool_size, upload_rate;
	bool off_cpu, no_kernel, no_bpf, no_names, label_exe, label_cgroup, label_pid;
	bool no_upload, upload_executables, status;
};
static inline struct agent_settings *agent_settings(const struct settings *s)
{
	return s->own;
}
/* It sends profiles, and does not write one. */
static inline bool agent_sends(const struct settings *s)
{
	return s->push.to || agent_settings(s)->to_otlp;
}
#define AGENT_AT(type, field) OPTION_OWN_AT(struct agent_settings, type, field)
#define AGENT_ON(field)       OPTION_ON, AGENT_AT(bool, field)
#define AGENT_TEXT(field)     OPTION_TEXT, AGENT_AT(const char *, field)
#define AGENT_LIST(field)     OPTION_LIST, AGENT_AT(struct setting_list, field)
#define AGENT_NUMBER(field)   OPTION_NUMBER, AGENT_AT(unsigned, field)
#define AGENT_SIZE(field)     OPTION_SIZE, AGENT_AT(uint64_t, field)
#define AGENT_SECONDS(field)  OPTION_SECONDS, AGENT_AT(int64_t, field)

struct agent_listener;

/* One run of the command. */
struct agent_run {
	struct arena arena;
	struct agent *agent;
	int *pids;
	size_t n_pids;
	struct relabel *rules;
	pid_t child; /* the COMMAND; 0: none */
	bool child_over;
	int child_status;
	/* with --to and --to-otlp */
	struct sender *sender;
	struct home *home;
	struct agent_listener *listener;
	const char *url, *state_file;
	const char *shown_url; /* without a password */
	int64_t state_ms;      /* when it was written last */
	bool state_failed;
};

/* ---- sink.c ---- */

int agent_sink_open(const struct settings *s, struct agent_run *r, struct err *err);
void agent_sink_close(struct agent_run *r); /* sends the rest */
void agent_sink_window(void *run, struct profile *taken);
void agent_sink_tick(void *run);
int agent_show_status(const struct settings *s); /* the exit status */

/* ---- listen.c ---- */

/*
 * Serve the metrics of this process at @port of the loopback interface. agent_listener_poll() answers the requests that
 * have arrived.
 */
int agent_listener_open(const char *port, struct agent_listener **ret, struct err *err);
void agent_listener_poll(struct agent_listener *l);  /* takes NULL */
void agent_listener_close(struct agent_listener *l); /* takes NULL */
