/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels of processes: from cgroup paths of all managers that are known, and by rules.
 */
#include "test.h"

#include "agent/labels.h"

#define ID   "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define UID  "3f2b1c44-0a5d-4e8c-9b1e-55aa66bb77cc"
#define UID_ "3f2b1c44_0a5d_4e8c_9b1e_55aa66bb77cc"

static void every_form_of_path_is_understood(void **state)
{
	static const struct {
		const char *path, *unit, *container, *runtime, *pod;
	} cases[] = {
		{ "/", "", "", "", "" },
		{ "/init.scope", "", "", "", "" },
		{ "/system.slice/nginx.service", "nginx.service", "", "", "" },
		{ "/user.slice/user-1000.slice/user@1000.service/app.slice/foo.service", "foo.service", "",
		  "", "" },
		{ "/user.slice/user-1000.slice/session-3.scope", "", "", "", "" },
		{ "/docker/" ID, "", ID, "docker", "" },
		{ "/system.slice/docker-" ID ".scope", "", ID, "docker", "" },
		{ "/system.slice/docker-" ID ".scope/init.scope", "", ID, "docker", "" },
		{ "/machine.slice/libpod-" ID ".scope/container", "", ID, "podman", "" },
		{ "/machine.slice/libpod-conmon-" ID ".scope", "", "", "", "" },
		{ "/machine.slice/machine-debian.scope", "", "debian", "nspawn", "" },
		{ "/lxc/web", "", "web", "lxc", "" },
		{ "/lxc.payload.web/system.slice/cron.service", "", "web", "lxc", "" },
		{ "/kubepods/burstable/pod" UID "/" ID, "", ID, "", UID },
		{ "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_
		  ".slice/cri-containerd-" ID ".scope",
		  "", ID, "containerd", UID_ },
		{ "/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" ID ".scope", "", ID, "crio", UID_ },
		{ "/system.slice/containerd.service/kubepods-besteffort-pod" UID_ ".slice:cri-containerd:" ID,
		  "", ID, "containerd", UID_ },
		{ "/system.slice/podman.service", "podman.service", "", "", "" },
		{ "/../../docker/" ID, "", ID, "docker", "" },
		{ "/docker-xyz.scope", "", "", "", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct cgroup_facts f;

		cgroup_parse(str_of(cases[i].path), &f);
		assert_str(f.unit, cases[i].unit);
		assert_str(f.container, cases[i].container);
		assert_str(f.runtime, cases[i].runtime);
		assert_str(f.pod, cases[i].pod);
	}
}

static void the_hierarchy_that_names_most_counts(void **state)
{
	struct cgroup_facts f;

	cgroup_read(STR("12:cpuset:/docker/" ID "\n1:name=systemd:/system.slice/docker.service\n0::/\n"), &f);
	assert_str(f.container, ID);
	cgroup_read(STR("2:cpu:/a\n1:name=systemd:/system.slice/a.service\n0::/system.slice/b.service\n"),
		    &f);
	assert_str(f.unit, "b.service");
	cgroup_read(STR("nothing of use"), &f);
	assert_str(f.unit, "");
}

static struct agent_labels labels_of(struct label_maker *m, struct label_facts f)
{
	uint32_t n;

	assert_true(label_maker_get(m, &f, &n));
	return *label_maker_set(m, n);
}

static void labels_are_made_and_equal_ones_are_one(void **state)
{
	struct label_maker *m = label_maker_new(&(struct label_options){ .exe = true, .pid = true }, NULL);
	struct label_facts f = { .comm = STR("nginx"),
				 .exe = STR("/usr/sbin/nginx"),
				 .cgroup = STR("0::/system.slice/nginx@a.service\n"),
				 .pid = 7 };
	struct agent_labels l = labels_of(m, f);
	uint32_t a, b;

	assert_str(agent_labels_get(&l, STR("comm")), "nginx");
	assert_str(agent_labels_get(&l, STR("exe")), "nginx");
	assert_str(agent_labels_get(&l, STR("service")), "nginx");
	assert_str(agent_labels_get(&l, STR("unit")), "nginx@a.service");
	assert_str(agent_labels_get(&l, STR("pid")), "7");
	assert_true(label_maker_get(m, &f, &a) && label_maker_get(m, &f, &b));
	assert_int_equal(a, b);
	f.pid = 8;
	assert_true(label_maker_get(m, &f, &b));
	assert_int_not_equal(a, b);
	label_maker_free(m);
}

static void threads_of_the_kernel_have_the_name_of_their_kind(void **state)
{
	struct label_maker *m = label_maker_new(&(struct label_options){ 0 }, NULL);
	struct agent_labels l = labels_of(
		m, (struct label_facts){ .comm = STR("kworker/u8:3-events"), .is_kernel = true });

	assert_str(agent_labels_get(&l, STR("comm")), "kworker");
	l = labels_of(m, (struct label_facts){ .comm = STR("rcu_tasks_kthre"), .is_kernel = true });
	assert_str(agent_labels_get(&l, STR("comm")), "rcu_tasks_kthre");
	label_maker_free(m);
}

static void hostile_names_become_valid_values(void **state)
{
	struct label_maker *m = label_maker_new(&(struct label_options){ 0 }, NULL);
	struct agent_labels l = labels_of(m, (struct label_facts){ .comm = STR("a\n\x1b[31m\xff\xc3\xa4") });

	assert_str(agent_labels_get(&l, STR("comm")), "a??[31m?\xc3\xa4");
	label_maker_free(m);
}

static void further_sets_are_one(void **state)
{
	struct label_maker *m = label_maker_new(&(struct label_options){ .pid = true }, NULL);
	uint32_t n = 0;

	for (uint32_t pid = 1; pid <= LABEL_SETS_MAX; pid++)
		assert_true(label_maker_get(m, &(struct label_facts){ .comm = STR("a"), .pid = pid }, &n));
	assert_int_equal(n, LABEL_SET_OTHER);
	assert_int_equal(label_maker_n(m), LABEL_SETS_MAX);
	assert_str(agent_labels_get(label_maker_set(m, n), STR("comm")), "[other]");
	/* Between two profiles there is room again. */
	label_maker_renew(m);
	assert_int_equal(label_maker_round(m), 1);
	assert_true(label_maker_get(m, &(struct label_facts){ .comm = STR("b"), .pid = 1 }, &n));
	assert_int_equal(n, LABEL_SETS_FIRST);
	assert_str(agent_labels_get(label_maker_set(m, n), STR("comm")), "b");
	label_maker_renew(m);
	assert_int_equal(label_maker_round(m), 1);
	label_maker_free(m);
}

/* ---- rules ---- */

static void rules_are_applied_in_order(void **state)
{
	struct relabel *r = relabel_new();
	struct agent_labels l = {
		.v = { { STR("comm"), STR("nginx") }, { STR("unit"), STR("nginx.service") } }, .n = 2
	};
	struct agent_labels other = { .v = { { STR("comm"), STR("cron") } }, .n = 1 };
	struct err err;

	assert_done(relabel_add(r, STR("keep comm=ngi.*|httpd"), &err));
	assert_done(relabel_add(r, STR("rename unit=job"), &err));
	assert_done(relabel_add(r, STR("drop job=x.*"), &err));
	assert_done(relabel_add(r, STR("remove comm"), &err));
	assert_done(relabel_add(r, STR("set region=eu=1"), &err));
	assert_true(relabel_apply(r, &l));
	assert_int_equal(l.n, 2);
	assert_str(agent_labels_get(&l, STR("job")), "nginx.service");
	assert_str(agent_labels_get(&l, STR("region")), "eu=1");
	assert_false(relabel_apply(r, &other));
	relabel_free(r);
}

static void a_label_that_is_not_there_replaces_none(void **state)
{
	struct relabel *r = relabel_new();
	struct agent_labels l = { .v = { { STR("comm"), STR("nginx") }, { STR("service"), STR("nginx") } },
				  .n = 2 };
	struct agent_labels both = {
		.v = { { STR("container"), STR("web") }, { STR("service"), STR("docker") } }, .n = 2
	};
	struct err err;

	assert_done(relabel_add(r, STR("rename container=service"), &err));
	assert_true(relabel_apply(r, &l));
	assert_int_equal(l.n, 2);
	assert_str(agent_labels_get(&l, STR("service")), "nginx");
	assert_true(relabel_apply(r, &both));
	assert_int_equal(both.n, 1);
	assert_str(agent_labels_get(&both, STR("service")), "web");
	relabel_free(r);
}

static void a_pattern_matches_the_whole_value(void **state)
{
	struct relabel *r = relabel_new();
	struct agent_labels l = { .v = { { STR("comm"), STR("nginx") } }, .n = 1 };
	struct err err;

	assert_done(relabel_add(r, STR("drop comm=ngin"), &err));
	assert_true(relabel_apply(r, &l));
	assert_done(relabel_add(r, STR("drop pod="), &err));
	assert_false(relabel_apply(r, &l));
	relabel_free(r);
}

static void mistakes_in_rules_are_reported(void **state)
{
	static const char *const rules[] = { "",
					     "keep",
					     "keep comm",
					     "keep =a",
					     "hold comm=a",
					     "keep comm=(",
					     "remove comm=a",
					     "remove",
					     "rename a=b-c",
					     "set 1a=b",
					     "keep a b=c" };
	struct relabel *r = relabel_new();
	struct err err;

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		assert_fails(relabel_add(r, str_of(rules[i]), &err), ERR_INVALID, "");
	for (unsigned i = 0; i < RELABEL_MAX_RULES; i++)
		assert_done(relabel_add(r, STR("remove a"), &err));
	assert_fails(relabel_add(r, STR("remove a"), &err), ERR_LIMIT, "rules");
	relabel_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_form_of_path_is_understood),
		cmocka_unit_test(the_hierarchy_that_names_most_counts),
		cmocka_unit_test(labels_are_made_and_equal_ones_are_one),
		cmocka_unit_test(threads_of_the_kernel_have_the_name_of_their_kind),
		cmocka_unit_test(hostile_names_become_valid_values),
		cmocka_unit_test(further_sets_are_one),
		cmocka_unit_test(rules_are_applied_in_order),
		cmocka_unit_test(a_label_that_is_not_there_replaces_none),
		cmocka_unit_test(a_pattern_matches_the_whole_value),
		cmocka_unit_test(mistakes_in_rules_are_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
