/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode agent: sample this machine; write the profile to a file, or send one after another to a server.
 */
#include "cmd/agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/profile/profile.h"

#define MAX_PIDS 1024u

/* ---- the options ---- */

static int parse_pids(const struct settings *s, struct agent_run *r, struct err *err)
{
	const struct setting_list *l = &agent_settings(s)->pids;

	if (l->n > MAX_PIDS)
		return err_set(err, ERR_LIMIT, "--pid: more than %u processes", MAX_PIDS);
	r->pids = ARENA_NEW_N(&r->arena, int, l->n + 1);
	for (size_t i = 0; i < l->n; i++) {
		uint64_t pid;

		if (!str_to_u64(l->items[i], &pid) || !pid || pid > INT32_MAX)
			return err_set(err, ERR_INVALID, "--pid '%s': not the number of a process",
				       l->items[i].p);
		r->pids[r->n_pids++] = (int)pid;
	}
	return 0;
}

static int parse_rules(const struct settings *s, struct agent_run *r, struct err *err)
{
	const struct setting_list *l = &agent_settings(s)->rules;

	r->rules = relabel_new();
	for (size_t i = 0; i < l->n; i++)
		if (relabel_add(r->rules, l->items[i], err) < 0)
			return err_in(err, "--relabel");
	return 0;
}

static int check_agent_options(const struct settings *s, struct agent_run *r, struct err *err)
{
	const struct agent_settings *o = agent_settings(s);

	if (o->frequency_hz > SAMPLER_MAX_HZ || !o->frequency_hz)
		return err_set(err, ERR_INVALID, "--frequency: not from 1 to %u", SAMPLER_MAX_HZ);
	if (s->push.to && o->to_otlp)
		return err_set(err, ERR_INVALID, "--to and --to-otlp cannot be used together");
	if (agent_sends(s) && s->profile.output)
		return err_set(err, ERR_INVALID, "%s and -o cannot be used together",
			       o->to_otlp ? "--to-otlp" : "--to");
	if (!agent_sends(s) && !s->profile.output && !s->profile.output_format)
		return err_set(err, ERR_INVALID, "give -o FILE, --to URL or --to-otlp URL");
	if (o->clock && strcmp(o->clock, "cpu") != 0 && strcmp(o->clock, "cycles") != 0)
		return err_set(err, ERR_INVALID, "--clock '%s': not cpu or cycles", o->clock);
	if (o->container_names && *o->container_names != '/')
		return err_set(err, ERR_INVALID, "--container-names '%s': not an absolute path",
			       o->container_names);
	if (s->profile.type && strcmp(s->profile.type, "cpu") != 0 &&
	    (!o->off_cpu || strcmp(s->profile.type, "off_cpu") != 0))
		return err_set(err, ERR_INVALID, "--sample-type '%s': not cpu, or off_cpu with --off-cpu",
			       s->profile.type);
	if (o->window_s < 1 || o->window_s > 3600)
		return err_set(err, ERR_INVALID, "--window: not from 1 to 3600 seconds");
	if (parse_pids(s, r, err) < 0 || parse_rules(s, r, err) < 0)
		return -1;
	return 0;
}

/* Before hours of samples: the file is written at the end, by a name of its own in its folder. */
static int check_agent_output(const struct settings *s, struct err *err)
{
	const char *path = s->profile.output, *slash = path ? strrchr(path, '/') : NULL;
	AUTO(mem_freep) char *folder = NULL;
	struct stat st;

	if (!path || !strcmp(path, "-") || (stat(path, &st) == 0 && !S_ISREG(st.st_mode)))
		return 0;
	folder = slash ? mem_strndup(path, MAX((size_t)(slash - path), (size_t)1)) : mem_strdup(".");
	if (faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS))
		return err_os(err, errno, "-o %s: no file can be made in its folder", path);
	return 0;
}

/* ---- a command that is started ---- */

/* It waits until samples are taken. *ret_go: writing to it lets it start. */
static int start_command(const struct settings *s, struct agent_run *r, int *ret_go, struct err *err)
{
	char **argv = ARENA_NEW_N(&r->arena, char *, s->paths.n + 1);
	int go[2];

	for (size_t i = 0; i < s->paths.n; i++)
		argv[i] = arena_strdup(&r->arena, s->paths.items[i]);
	if (pipe2(go, O_CLOEXEC) < 0)
		return err_os(err, errno, "pipe");
	r->child = fork();
	if (r->child < 0) {
		close(go[0]);
		close(go[1]);
		return err_os(err, errno, "fork");
	}
	if (r->child == 0) {
		char byte;

		close(go[1]);
		if (read(go[0], &byte, 1) != 1)
			_exit(125);
		execvp(argv[0], argv);
		fprintf(stderr, "lode: agent: %s: %s\n", argv[0], strerror(errno));
		_exit(errno == ENOENT ? 127 : 126);
	}
	close(go[0]);
	*ret_go = go[1];
	r->pids[r->n_pids++] = r->child;
	return 0;
}

static bool is_run_stopped(void *arg)
{
	struct agent_run *r = arg;
	int status;

	if (r->child > 0 && !r->child_over && waitpid(r->child, &status, WNOHANG) == r->child) {
		r->child_over = true;
		r->child_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	}
	return signals_stopped() || r->child_over;
}

/* ---- the run ---- */

static void agent_options_of(const struct settings *s, struct agent_run *r, struct agent_options *ret)
{
	const struct agent_settings *o = agent_settings(s);

	*ret = (struct agent_options){
		.sampler = { .frequency_hz = o->frequency_hz,
			     .clock = o->clock && strcmp(o->clock, "cycles") == 0 ? SAMPLER_CLOCK_CYCLES
										  : SAMPLER_CLOCK_CPU,
			     .off_cpu = o->off_cpu,
			     .no_bpf = o->no_bpf,
			     .no_kernel = o->no_kernel,
			     .table_memory = o->unwind_memory },
		.labels = { .pid = o->label_pid,
			    .exe = o->label_exe,
			    .cgroup = o->label_cgroup,
			    .root = o->container_names },
		.rules = r->rules,
		.pids = r->pids,
		.n_pids = r->n_pids,
		.window_ms = o->window_s * 1000,
		.run_ms = o->duration_s * 1000,
		.stopped = is_run_stopped,
		.arg = r,
	};
	if (agent_sends(s)) {
		ret->window = agent_sink_window;
		ret->tick = agent_sink_tick;
	}
}

static void print_ends(const struct agent_stats *st)
{
	uint64_t complete = 0, all = 0;

	for (unsigned i = 0; i < SAMPLER_N_ENDS; i++) {
		all += st->ends[i];
		complete += sampler_end_complete((enum sampler_end)i) ? st->ends[i] : 0;
	}
	if (complete == all)
		return;
	fprintf(stderr, "lode: agent: %.1f %% of the stacks are complete;",
		100.0 * (double)complete / (double)all);
	for (unsigned i = 0; i < SAMPLER_N_ENDS; i++)
		if (st->ends[i] && !sampler_end_complete((enum sampler_end)i))
			fprintf(stderr, " %s: %llu;", sampler_end_name((enum sampler_end)i),
				(unsigned long long)st->ends[i]);
	fputc('\n', stderr);
}

static void print_run(struct agent_run *r)
{
	struct agent_stats st;

	agent_stats(r->agent, &st);
	fprintf(stderr, "lode: agent: %llu samples of %zu processes and %zu files, by %s\n",
		(unsigned long long)st.n_samples, st.n_processes, st.n_files, st.about.text);
	if (st.sampler.lost)
		fprintf(stderr, "lode: agent: %llu samples were lost: more arrived than could be read\n",
			(unsigned long long)st.sampler.lost);
	if (st.n_lost)
		fprintf(stderr,
			"lode: agent: %llu samples were lost: the profile is full, at 1 GiB of memory\n",
			(unsigned long long)st.n_lost);
	print_ends(&st);
	if (st.recent_lacks[0])
		fprintf(stderr, "lode: agent: processes that ended before they were read have no names: %s\n",
			st.recent_lacks);
	if (st.n_made_named < st.n_made_frames)
		fprintf(stderr,
			"lode: agent: %llu frames of code made at run time have no names; a perf map has "
			"them: "
			"java -XX:+PreserveFramePointer and 'jcmd PID Compiler.perfmap' meanwhile; "
			"node --perf-basic-prof; python3 -X perf; others: see lode-agent(1)\n",
			(unsigned long long)(st.n_made_frames - st.n_made_named));
	if (st.kernel[0])
		fprintf(stderr, "lode: agent: functions of the kernel have no names: %s\n", st.kernel);
}

static int write_run(struct settings *s, struct agent_run *r)
{
	AUTO(profile_freep) struct profile *p = agent_take(r->agent);
	bool quiet = s->profile.quiet;
	struct err err = { 0 };

	if (!quiet)
		print_run(r);
	agent_free(TAKE(r->agent));
	if (!p) {
		err_set(&err, ERR_INVALID, "there was no sample: nothing that was asked for has run");
		return tell_error("agent", &err);
	}
	if (!agent_settings(s)->no_names && profile_name_here(p, s, &err) < 0)
		return tell_error("agent", &err);
	return profile_output(s, p, NULL, &err) < 0 ? tell_error("agent", &err) : EXIT_DONE;
}

static int open_agent(const struct settings *s, struct agent_run *r, struct err *err)
{
	struct agent_options o;
	struct err first = { 0 };

	agent_options_of(s, r, &o);
	if (agent_new(&o, &r->agent, &first) == 0)
		return 0;
	/* An ordinary user may sample processes of their own. */
	o.sampler.pids = r->pids;
	o.sampler.n_pids = r->n_pids;
	if (r->n_pids && agent_new(&o, &r->agent, err) == 0)
		return 0;
	*err = first;
	return -1;
}

/* At the end of the run a COMMAND that still runs is ended, as by perf record. */
static void stop_command(const struct agent_run *r)
{
	if (r->child > 0 && !r->child_over)
		kill(r->child, SIGTERM);
}

/* It may ignore the signal: the profile is written or sent before. */
static void end_command(const struct agent_run *r)
{
	if (r->child <= 0)
		return;
	if (!r->child_over)
		waitpid(r->child, NULL, 0);
	else if (r->child_status)
		fprintf(stderr, "lode: agent: the command has ended with status %d\n", r->child_status);
}

static int run_opened(struct settings *s, struct agent_run *r, int go, struct err *err)
{
	if (r->child > 0 && write(go, "", 1) != 1)
		return err_os(err, errno, "starting the command");
	for (size_t i = 0; i < agent_about(r->agent)->n_lost && !s->profile.quiet; i++)
		fprintf(stderr, "lode: agent: %s\n", agent_about(r->agent)->lost[i]);
	agent_confine(r->agent);
	return agent_run(r->agent, err);
}

static int run_agent_with(struct settings *s, struct agent_run *r)
{
	struct err err = { 0 };
	int go = -1, status = EXIT_DONE, result;

	if (s->paths.n && start_command(s, r, &go, &err) < 0)
		return tell_error("agent", &err);
	signals_catch();
	/*
	 * A reader of the report that goes away must not cost the profile. The command was forked before: it does not
	 * inherit this.
	 */
	if (s->profile.output && strcmp(s->profile.output, "-") != 0)
		signal(SIGPIPE, SIG_IGN);
	if (open_agent(s, r, &err) < 0 || (agent_sends(s) && agent_sink_open(s, r, &err) < 0))
		status = tell_error("agent", &err);
	result = status == EXIT_DONE ? run_opened(s, r, go, &err) : -1;
	/* Without a byte in the pipe a command that did not start does not. */
	fd_close(&go);
	stop_command(r);
	if (result < 0 && status == EXIT_DONE)
		status = tell_error("agent", &err);
	if (status == EXIT_DONE && !agent_sends(s))
		status = write_run(s, r);
	agent_sink_close(r);
	agent_free(r->agent);
	end_command(r);
	return status;
}

static int run_agent(struct settings *s)
{
	struct agent_run r = { 0 };
	struct err err = { 0 };
	int status;

	if (agent_settings(s)->status)
		return agent_show_status(s);
	/* It runs for months: large blocks go back to the system. */
	mem_return_early();
	arena_init(&r.arena);
	if (check_agent_options(s, &r, &err) < 0)
		status = usage_error("agent", "%s", err.text);
	else if (!agent_sends(s) && profile_output_check(s, "agent") != EXIT_DONE)
		status = EXIT_USAGE;
	else if (!agent_sends(s) && check_agent_output(s, &err) < 0)
		status = tell_error("agent", &err);
	else
		status = run_agent_with(s, &r);
	relabel_free(r.rules);
	arena_done(&r.arena);
	return status;
}

static void agent_defaults(struct settings *s)
{
	struct agent_settings *o = s->own;

	o->frequency_hz = 19;
	o->window_s = AGENT_WINDOW_S;
	o->upload_rate = MIB(1);
	o->spool_size = SPOOL_USUAL_BYTES;
	o->spool_age_s = SPOOL_USUAL_S;
	o->unwind_memory = MIB(64);
}

static const struct option_row sampling_rows[] = {
	{ 'F', "frequency", "HZ", "samples a second of each processor [19]", AGENT_NUMBER(frequency_hz) },
	{ 0, "duration", "S",
	  "end after so many seconds, and end COMMAND [until a signal, or the end of COMMAND]",
	  AGENT_SECONDS(duration_s) },
	{ 'p', "pid", "PID", "only this process and those that it starts; may be given again",
	  AGENT_LIST(pids) },
	{ 0, "clock", "NAME",
	  "cpu, or cycles: the processor's counter, which sees code without interrupts, too [cpu]",
	  AGENT_TEXT(clock) },
	{ 0, "off-cpu", NULL, "also the time that threads sleep or wait, as sample type off_cpu",
	  AGENT_ON(off_cpu) },
	{ 0, "no-kernel", NULL, "leave out frames of the kernel", AGENT_ON(no_kernel) },
	{ 0, "no-bpf", NULL, "use perf events, also where a BPF program could be loaded", AGENT_ON(no_bpf) },
	{ 0, "unwind-memory", "SIZE",
	  "memory for the tables by which stacks are walked; the least used are removed [64M]",
	  AGENT_SIZE(unwind_memory) },
	{ 0 },
};
static const struct option_group sampling_group = { "Sampling", sampling_rows };

static const struct option_row output_rows[] = {
	{ 'o', "output", "FILE",
	  "write one profile to FILE, in the format of its suffix: .pb.gz, .folded, .html, .svg, .json, .txt",
	  OPT_TEXT(profile.output) },
	{ 0, "output-format", "FORMAT", "pprof, folded, speedscope, svg, html, top [by the suffix]",
	  OPT_TEXT(profile.output_format) },
	{ 0, "sample-type", "TYPE", "with --off-cpu: cpu or off_cpu, in formats that have one type [cpu]",
	  OPT_TEXT(profile.type) },
	{ 0, "no-names", NULL, "do not name the addresses in files; they keep their build IDs",
	  AGENT_ON(no_names) },
	{ 'q', "quiet", NULL, "do not report samples, losses and addresses without a name",
	  OPT_ON(profile.quiet) },
	{ 0 },
};
static const struct option_group agent_output_group = { "To a file", output_rows };

static const struct option_row server_rows[] = {
	TARGET_ROWS,
	{ 0, "to-otlp", "URL",
	  "instead of --to: a receiver of OTLP over HTTP, as http://collector:4318; it gets no debug "
	  "information",
	  AGENT_TEXT(to_otlp) },
	{ 0, "otlp-compression", "NAME", "gzip, zstd or none [gzip]", AGENT_TEXT(otlp_packing) },
	{ 0, "label", "NAME=VALUE", "a label of all profiles; may be given again", OPT_LIST(labels) },
	{ 0, "node", "NAME", "the label node [the name of this machine]", AGENT_TEXT(node) },
	{ 0, "window", "S", "seconds that a profile covers [10]", AGENT_SECONDS(window_s) },
	{ 0, "relabel", "RULE",
	  "keep|drop NAME=REGEX, rename NAME=NEW, remove NAME or set NAME=VALUE, in order; may be given "
	  "again",
	  AGENT_LIST(rules) },
	{ 0, "container-names", "ROOT",
	  "name containers and pods by the files of their runtimes below ROOT: /, or /proc/1/root in a "
	  "container",
	  AGENT_TEXT(container_names) },
	{ 0, "label-exe", NULL, "add the label exe, the name of the program's file", AGENT_ON(label_exe) },
	{ 0, "label-cgroup", NULL, "add the label cgroup", AGENT_ON(label_cgroup) },
	{ 0, "label-pid", NULL, "add the label pid: a series for every process", AGENT_ON(label_pid) },
	{ 0, "state", "DIR",
	  "where the spool and the state are kept [/var/lib/lode-agent; not root: in $XDG_STATE_HOME]",
	  AGENT_TEXT(state) },
	{ 0, "spool-size", "SIZE", "disk space for profiles that wait for the server; 0: none [64M]",
	  AGENT_SIZE(spool_size) },
	{ 0, "spool-age", "S", "drop profiles that have waited longer than so many seconds [21600]",
	  AGENT_SECONDS(spool_age_s) },
	{ 0, "no-upload", NULL, "do not upload debug information that the server lacks",
	  AGENT_ON(no_upload) },
	{ 0, "upload-executables", NULL, "upload programs without a debug file themselves, too",
	  AGENT_ON(upload_executables) },
	{ 0, "upload-rate", "SIZE", "bytes of debug information a second [1M]", AGENT_SIZE(upload_rate) },
	{ 0, "listen", "PORT", "serve /metrics for Prometheus at this port of 127.0.0.1",
	  AGENT_TEXT(listen) },
	{ 0, "status", NULL, "print the state of the running agent, and end", AGENT_ON(status) },
	{ 0 },
};
static const struct option_group server_group = { "To a server", server_rows };

const struct command command_agent = {
	.name = "agent",
	.args = "-o FILE [-- COMMAND...] | --to URL | --status",
	.summary = "sample all processes of this machine; write a profile, or send profiles to a server",
	.examples = "  lode agent -o machine.pb.gz --duration 10\n"
		    "  lode agent -o make.html -F 99 -- make -j8\n"
		    "  lode agent --to http://lode.example:8002 --token-file /etc/lode/agent.token\n"
		    "  lode agent --status\n",
	.groups = { &sampling_group, &agent_output_group, &server_group, &group_output },
	.max_args = SIZE_MAX,
	.own_size = sizeof(struct agent_settings),
	.defaults = agent_defaults,
	.run = run_agent,
};
