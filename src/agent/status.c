/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One list of numbers makes the JSON and the metrics. The JSON is also what `lode agent --status` reads, from a process that
 * may be of another version: it prints the fields that it knows.
 */
#include "agent/status.h"

#include <jansson.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* 0: the process is gone. */
static uint64_t rss_of(const char *statm)
{
	AUTO(buf_done) struct buf b = { 0 };
	struct err ignored = { 0 };
	uint64_t pages = 0;

	if (file_read(statm, 256, &b, &ignored) == 0) {
		struct str text = buf_str(&b);

		str_word(&text);
		if (!str_to_u64(str_word(&text), &pages))
			pages = 0;
	}
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void agent_status_usage(struct agent_status *s)
{
	char path[64];

	s->cpu_ns = clock_cpu_ns() + s->agent.parsing.cpu_ns;
	s->rss = rss_of("/proc/self/statm");
	snprintf(path, sizeof(path), "/proc/%d/statm", s->agent.parsing.pid);
	s->parser_rss = s->agent.parsing.pid ? rss_of(path) : 0;
}

/* ---- numbers ---- */

struct status_number {
	const char *key; /* in the JSON */
	const struct metric_family *family;
	uint64_t value;
};

#define STATUS_FAMILY(var, metric, text, kind) \
	static const struct metric_family var = { .name = metric, .help = text, .type = kind, .labels = "" }

STATUS_FAMILY(family_samples, "lode_agent_samples_total", "Samples in profiles.", METRIC_COUNTER);
STATUS_FAMILY(family_filtered, "lode_agent_samples_filtered_total", "Samples dropped by rules or --pid.",
	      METRIC_COUNTER);
STATUS_FAMILY(family_lost, "lode_agent_samples_lost_total", "Samples lost: the ring or a profile was full.",
	      METRIC_COUNTER);
STATUS_FAMILY(family_held, "lode_agent_samples_held_total",
	      "Samples whose stack was copied until their process was known.", METRIC_COUNTER);
STATUS_FAMILY(family_sleeps_lost, "lode_agent_sleeps_lost_total",
	      "Sleeps whose end was lost, or for which there was no room.", METRIC_COUNTER);
STATUS_FAMILY(family_asleep, "lode_agent_asleep", "Sleeping threads whose stack is known.", METRIC_GAUGE);
STATUS_FAMILY(family_processes, "lode_agent_processes", "Known processes.", METRIC_GAUGE);
STATUS_FAMILY(family_gone, "lode_agent_processes_gone_total", "Processes that ended before they were read.",
	      METRIC_COUNTER);
STATUS_FAMILY(family_recovered, "lode_agent_processes_recovered_total",
	      "Processes that ended before they were read, and whose mappings were known by records.",
	      METRIC_COUNTER);
STATUS_FAMILY(family_made_frames, "lode_agent_made_frames_total",
	      "Frames in samples of code that was made at run time.", METRIC_COUNTER);
STATUS_FAMILY(family_made_named, "lode_agent_made_frames_named_total",
	      "Frames of code that was made at run time, with a name by a perf map.", METRIC_COUNTER);
STATUS_FAMILY(family_python_frames, "lode_agent_python_frames_total", "Frames of Python in samples.",
	      METRIC_COUNTER);
STATUS_FAMILY(family_python_named, "lode_agent_python_frames_named_total",
	      "Frames of Python with a name: the function was there, and read in time.", METRIC_COUNTER);
STATUS_FAMILY(family_python_early, "lode_agent_python_early_samples_total",
	      "Samples of a new interpreter of Python that show its own functions: it was not known yet.",
	      METRIC_COUNTER);
STATUS_FAMILY(family_python_functions, "lode_agent_python_functions_total",
	      "Functions of Python that were read from processes.", METRIC_COUNTER);
STATUS_FAMILY(family_python_gone, "lode_agent_python_functions_gone_total",
	      "Functions of Python that were gone when they were read.", METRIC_COUNTER);
STATUS_FAMILY(family_python_bytes, "lode_agent_python_bytes", "Memory for names and lines of Python.",
	      METRIC_GAUGE);
STATUS_FAMILY(family_mappings, "lode_agent_mappings", "Mappings of code of known processes.", METRIC_GAUGE);
STATUS_FAMILY(family_files, "lode_agent_files", "Known files.", METRIC_GAUGE);
STATUS_FAMILY(family_files_waiting, "lode_agent_files_waiting", "Files that wait to be read.", METRIC_GAUGE);
STATUS_FAMILY(family_tables, "lode_agent_tables_total", "Tables of unwind rows that were built.",
	      METRIC_COUNTER);
STATUS_FAMILY(family_tables_failed, "lode_agent_tables_failed_total", "Files without unwind rows.",
	      METRIC_COUNTER);
STATUS_FAMILY(family_parsers_failed, "lode_agent_parsers_failed_total",
	      "Processes that parse files that crashed, took too long, or could not be started.",
	      METRIC_COUNTER);
STATUS_FAMILY(family_table_bytes, "lode_agent_table_bytes", "Bytes of tables of unwind rows.", METRIC_GAUGE);
STATUS_FAMILY(family_tables_shared, "lode_agent_tables_shared",
	      "Files whose table is kept once with an equal one of another file.", METRIC_GAUGE);
STATUS_FAMILY(family_evicted, "lode_agent_tables_evicted_total", "Tables removed for lack of room.",
	      METRIC_COUNTER);
STATUS_FAMILY(family_labels, "lode_agent_label_sets", "Different sets of labels.", METRIC_GAUGE);
STATUS_FAMILY(family_containers, "lode_agent_containers_named_total", "Containers whose names were found.",
	      METRIC_COUNTER);
STATUS_FAMILY(family_unnamed, "lode_agent_containers_unnamed_total",
	      "Containers whose names were not found at the first try.", METRIC_COUNTER);
STATUS_FAMILY(family_kernel, "lode_agent_kernel_functions", "Names of the kernel's functions.", METRIC_GAUGE);
STATUS_FAMILY(family_sent, "lode_agent_profiles_sent_total", "Profiles that the server has.", METRIC_COUNTER);
STATUS_FAMILY(family_refused, "lode_agent_profiles_refused_total",
	      "Profiles that the server refused for good.", METRIC_COUNTER);
STATUS_FAMILY(family_dropped, "lode_agent_profiles_dropped_total",
	      "Profiles that were dropped: neither sent nor kept.", METRIC_COUNTER);
STATUS_FAMILY(family_send_failures, "lode_agent_send_failures_total", "Requests that failed.",
	      METRIC_COUNTER);
STATUS_FAMILY(family_sent_bytes, "lode_agent_sent_bytes_total", "Bytes of profiles that were sent.",
	      METRIC_COUNTER);
STATUS_FAMILY(family_spool_files, "lode_agent_spool_profiles", "Profiles that wait on disk.", METRIC_GAUGE);
STATUS_FAMILY(family_spool_bytes, "lode_agent_spool_bytes", "Bytes of profiles that wait on disk.",
	      METRIC_GAUGE);
STATUS_FAMILY(family_spool_dropped, "lode_agent_spool_dropped_total",
	      "Profiles dropped from the spool by its limits.", METRIC_COUNTER);
STATUS_FAMILY(family_uploads, "lode_agent_uploads_total", "Debug files that were uploaded.", METRIC_COUNTER);
STATUS_FAMILY(family_uploads_missing, "lode_agent_uploads_missing_total",
	      "Build IDs without a debug file here.", METRIC_COUNTER);
STATUS_FAMILY(family_uploads_failed, "lode_agent_uploads_failed_total", "Uploads that failed.",
	      METRIC_COUNTER);
STATUS_FAMILY(family_upload_bytes, "lode_agent_upload_bytes_total", "Bytes of debug files that were sent.",
	      METRIC_COUNTER);
STATUS_FAMILY(family_rss, "lode_agent_resident_bytes", "Resident memory of the agent.", METRIC_GAUGE);
STATUS_FAMILY(family_parser_rss, "lode_agent_parser_resident_bytes",
	      "Resident memory of the process that parses files; most of it is shared with the agent.",
	      METRIC_GAUGE);
STATUS_FAMILY(family_cpu, "lode_agent_cpu_milliseconds_total",
	      "CPU time of the agent and its parser, without BPF.", METRIC_COUNTER);

static const struct metric_family family_ends = { .name = "lode_agent_stacks_total",
						  .help = "User stacks by the reason why they end.",
						  .type = METRIC_COUNTER,
						  .labels = "end" };

#define STATUS_NUMBERS 48

static size_t status_numbers(const struct agent_status *s, struct status_number *out)
{
	const struct agent_stats *a = &s->agent;
	const struct status_number all[] = {
		{ "samples", &family_samples, a->n_samples },
		{ "samples_filtered", &family_filtered, a->n_filtered },
		{ "samples_lost", &family_lost, a->sampler.lost + a->n_lost },
		{ "samples_held", &family_held, a->sampler.held },
		{ "sleeps_lost", &family_sleeps_lost, a->sampler.lost_sleeps },
		{ "asleep", &family_asleep, a->sampler.n_asleep },
		{ "processes", &family_processes, a->n_processes },
		{ "processes_gone", &family_gone, a->n_processes_gone },
		{ "processes_recovered", &family_recovered, a->n_processes_recovered },
		{ "mappings", &family_mappings, a->n_maps },
		{ "made_frames", &family_made_frames, a->n_made_frames },
		{ "made_frames_named", &family_made_named, a->n_made_named },
		{ "python_frames", &family_python_frames, a->python.n_frames },
		{ "python_frames_named", &family_python_named, a->python.n_named },
		{ "python_early_samples", &family_python_early, a->python.n_early },
		{ "python_functions", &family_python_functions, a->python.n_functions },
		{ "python_functions_gone", &family_python_gone, a->python.n_gone },
		{ "python_bytes", &family_python_bytes, a->python.bytes },
		{ "files", &family_files, a->n_files },
		{ "files_waiting", &family_files_waiting, a->n_files_waiting },
		{ "tables", &family_tables, a->n_tables },
		{ "tables_failed", &family_tables_failed, a->n_tables_failed },
		{ "parsers_failed", &family_parsers_failed, a->parsing.n_failed },
		{ "table_bytes", &family_table_bytes, a->sampler.table_bytes },
		{ "tables_shared", &family_tables_shared, a->sampler.n_table_files - a->sampler.n_tables },
		{ "tables_evicted", &family_evicted, a->sampler.evicted },
		{ "label_sets", &family_labels, a->n_label_sets },
		{ "containers_named", &family_containers, a->containers.n_named },
		{ "containers_unnamed", &family_unnamed, a->containers.n_unnamed },
		{ "kernel_functions", &family_kernel, a->n_kernel_names },
		{ "resident_bytes", &family_rss, s->rss },
		{ "parser_resident_bytes", &family_parser_rss, s->parser_rss },
		{ "cpu_ms", &family_cpu, (uint64_t)s->cpu_ns / 1000000 },
		{ "profiles_sent", &family_sent, s->sender.n_sent },
		{ "profiles_refused", &family_refused, s->sender.n_refused },
		{ "profiles_dropped", &family_dropped, s->sender.n_dropped },
		{ "send_failures", &family_send_failures, s->sender.n_failures },
		{ "sent_bytes", &family_sent_bytes, s->sender.bytes_sent },
		{ "spool_profiles", &family_spool_files, s->sender.spool.n },
		{ "spool_bytes", &family_spool_bytes, s->sender.spool.bytes },
		{ "spool_dropped", &family_spool_dropped, s->sender.spool.n_dropped },
		{ "uploads", &family_uploads, s->home.n_sent },
		{ "uploads_missing", &family_uploads_missing, s->home.n_missing },
		{ "uploads_failed", &family_uploads_failed, s->home.n_failed },
		{ "upload_bytes", &family_upload_bytes, s->home.bytes_sent },
	};

	_Static_assert(ARRAY_SIZE(all) <= STATUS_NUMBERS, "room for all numbers");
	memcpy(out, all, sizeof(all));
	return ARRAY_SIZE(all);
}

void agent_status_metrics(const struct agent_status *s)
{
	struct status_number v[STATUS_NUMBERS];
	size_t n = status_numbers(s, v);

	for (size_t i = 0; i < n; i++)
		metric_set(metric_get(v[i].family), (int64_t)v[i].value);
	for (unsigned i = 0; i < SAMPLER_N_ENDS; i++)
		metric_set(metric_get(&family_ends, sampler_end_name((enum sampler_end)i)),
			   (int64_t)s->agent.ends[i]);
}

void agent_status_json(const struct agent_status *s, struct json_writer *w)
{
	struct status_number v[STATUS_NUMBERS];
	size_t n = status_numbers(s, v);

	json_open_object(w, NULL);
	json_put_int(w, "pid", getpid());
	json_put_text(w, "version", LODE_VERSION);
	json_put_int(w, "time_ms", clock_wall_ms());
	json_put_int(w, "start_ms", s->agent.start_ms);
	json_put_int(w, "first_sample_ms", s->agent.first_sample_ms);
	json_put_text(w, "sampler", s->agent.about.text);
	json_put_int(w, "parser_pid", s->agent.parsing.pid);
	json_put_text(w, "parser_failed", s->agent.parsing.why);
	json_open_array(w, "lacks");
	for (size_t i = 0; i < s->agent.about.n_lost; i++)
		json_put_text(w, NULL, s->agent.about.lost[i]);
	if (s->agent.kernel[0])
		json_put_printf(w, NULL, "functions of the kernel have no names: %s", s->agent.kernel);
	if (s->agent.parsing.lacks[0])
		json_put_printf(w, NULL, "the parser of files: %s", s->agent.parsing.lacks);
	if (s->agent.confined[0])
		json_put_printf(w, NULL, "a filter of the agent's own system calls: %s", s->agent.confined);
	if (s->agent.recent_lacks[0])
		json_put_printf(w, NULL, "mappings of processes that have ended: %s", s->agent.recent_lacks);
	if (s->agent.containers.error[0])
		json_put_printf(w, NULL, "names of containers: %s", s->agent.containers.error);
	json_close(w);
	for (size_t i = 0; i < n; i++)
		json_put_uint(w, v[i].key, v[i].value);
	json_open_object(w, "stacks");
	for (unsigned i = 0; i < SAMPLER_N_ENDS; i++)
		if (s->agent.ends[i])
			json_put_uint(w, sampler_end_name((enum sampler_end)i), s->agent.ends[i]);
	json_close(w);
	if (s->sends) {
		json_put_text(w, "server", s->url);
		json_put_int(w, "last_sent_ms", s->sender.last_sent_ms);
		json_put_int(w, "next_try_ms", s->sender.next_try_ms);
		json_put_text(w, "send_error", s->sender.error);
		json_put_int(w, "spool_oldest_ms", s->sender.spool.oldest_ms);
		json_put_text(w, "uploading", s->home.current);
		json_put_uint(w, "uploads_waiting", s->home.n_waiting);
		json_put_text(w, "upload_error", s->home.error);
	}
	json_close(w);
}

/* ---- for people ---- */

static int64_t status_number_at(const json_t *all, const char *key)
{
	return (int64_t)json_integer_value(json_object_get(all, key));
}

static const char *status_text_at(const json_t *all, const char *key)
{
	const char *s = json_string_value(json_object_get(all, key));

	return s ? s : "";
}

static void print_sending(const json_t *all, int64_t now_ms, struct buf *out)
{
	int64_t sent_ms = status_number_at(all, "last_sent_ms"),
		next_ms = status_number_at(all, "next_try_ms");

	buf_printf(out, "server        %s\n", status_text_at(all, "server"));
	buf_printf(out, "sent          %lld profiles, %lld bytes",
		   (long long)status_number_at(all, "profiles_sent"),
		   (long long)status_number_at(all, "sent_bytes"));
	if (sent_ms)
		buf_printf(out, ", the last one %lld s ago", (long long)(now_ms - sent_ms) / 1000);
	buf_printf(out, "\n");
	if (*status_text_at(all, "send_error"))
		buf_printf(out, "failing       %s; next try in %lld s\n", status_text_at(all, "send_error"),
			   (long long)MAX(next_ms - now_ms, INT64_C(0)) / 1000);
	buf_printf(out, "spool         %lld profiles, %lld bytes; dropped %lld\n",
		   (long long)status_number_at(all, "spool_profiles"),
		   (long long)status_number_at(all, "spool_bytes"),
		   (long long)(status_number_at(all, "spool_dropped") +
			       status_number_at(all, "profiles_dropped")));
	buf_printf(out, "debug files   %lld uploaded, %lld waiting, %lld not found here, %lld failed\n",
		   (long long)status_number_at(all, "uploads"),
		   (long long)status_number_at(all, "uploads_waiting"),
		   (long long)status_number_at(all, "uploads_missing"),
		   (long long)status_number_at(all, "uploads_failed"));
	if (*status_text_at(all, "uploading"))
		buf_printf(out, "uploading     %s\n", status_text_at(all, "uploading"));
	if (*status_text_at(all, "upload_error"))
		buf_printf(out, "upload error  %s\n", status_text_at(all, "upload_error"));
}

static void print_stacks(const json_t *stacks, struct buf *out)
{
	int64_t all = 0, complete = 0;
	const char *key;
	json_t *one;

	json_object_foreach((json_t *)stacks, key, one)
	{
		all += json_integer_value(one);
		for (unsigned i = 0; i < SAMPLER_N_ENDS; i++)
			if (sampler_end_complete((enum sampler_end)i) &&
			    strcmp(key, sampler_end_name((enum sampler_end)i)) == 0)
				complete += json_integer_value(one);
	}
	if (!all)
		return;
	buf_printf(out, "stacks        %.2f %% complete\n", 100.0 * (double)complete / (double)all);
	json_object_foreach((json_t *)stacks, key, one)
		buf_printf(out, "  %-20s %lld\n", key, (long long)json_integer_value(one));
}

int agent_status_print(struct bytes json, struct buf *out, struct err *err)
{
	json_error_t ignored;
	json_t *all = json_loadb((const char *)json.p, json.size, 0, &ignored), *one;
	int64_t now_ms = clock_wall_ms(), start_ms = status_number_at(all, "start_ms");
	size_t i;

	if (!json_is_object(all) || !start_ms) {
		json_decref(all);
		return err_set(err, ERR_INVALID, "not the state of an agent");
	}
	buf_printf(out, "process       %lld, since %lld s; %lld ms of CPU time, %lld KiB of memory\n",
		   (long long)status_number_at(all, "pid"), (long long)(now_ms - start_ms) / 1000,
		   (long long)status_number_at(all, "cpu_ms"),
		   (long long)status_number_at(all, "resident_bytes") / 1024);
	buf_printf(out, "sampler       %s\n", status_text_at(all, "sampler"));
	json_array_foreach(json_object_get(all, "lacks"), i, one)
		buf_printf(out, "lacks         %s\n", json_string_value(one));
	buf_printf(out, "samples       %lld; filtered %lld, lost %lld, held %lld; the first after %lld ms\n",
		   (long long)status_number_at(all, "samples"),
		   (long long)status_number_at(all, "samples_filtered"),
		   (long long)status_number_at(all, "samples_lost"),
		   (long long)status_number_at(all, "samples_held"),
		   (long long)status_number_at(all, "first_sample_ms"));
	print_stacks(json_object_get(all, "stacks"), out);
	buf_printf(
		out,
		"processes     %lld known, %lld gone before they were read, %lld of them known by records\n",
		(long long)status_number_at(all, "processes"),
		(long long)(status_number_at(all, "processes_gone") +
			    status_number_at(all, "processes_recovered")),
		(long long)status_number_at(all, "processes_recovered"));
	buf_printf(
		out,
		"files         %lld known, %lld waiting; %lld tables, %lld bytes, %lld shared, %lld "
		"evicted\n",
		(long long)status_number_at(all, "files"), (long long)status_number_at(all, "files_waiting"),
		(long long)status_number_at(all, "tables"), (long long)status_number_at(all, "table_bytes"),
		(long long)status_number_at(all, "tables_shared"),
		(long long)status_number_at(all, "tables_evicted"));
	if (status_number_at(all, "python_frames") || status_number_at(all, "python_early_samples"))
		buf_printf(out,
			   "python        %lld frames, %lld named; %lld functions; %lld samples before the "
			   "interpreter was known\n",
			   (long long)status_number_at(all, "python_frames"),
			   (long long)status_number_at(all, "python_frames_named"),
			   (long long)status_number_at(all, "python_functions"),
			   (long long)status_number_at(all, "python_early_samples"));
	if (status_number_at(all, "made_frames"))
		buf_printf(out,
			   "run time      %lld frames of code made at run time, %lld named by perf maps\n",
			   (long long)status_number_at(all, "made_frames"),
			   (long long)status_number_at(all, "made_frames_named"));
	if (status_number_at(all, "parsers_failed"))
		buf_printf(out, "parser        failed %lld times; the last time: %s\n",
			   (long long)status_number_at(all, "parsers_failed"),
			   status_text_at(all, "parser_failed"));
	if (status_number_at(all, "containers_named") || status_number_at(all, "containers_unnamed"))
		buf_printf(out, "containers    %lld named, %lld not at the first try\n",
			   (long long)status_number_at(all, "containers_named"),
			   (long long)status_number_at(all, "containers_unnamed"));
	if (json_object_get(all, "server"))
		print_sending(all, now_ms, out);
	json_decref(all);
	return 0;
}
