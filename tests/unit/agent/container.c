/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of containers and pods, by the files of each runtime in a made-up root folder.
 */
#include "test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "agent/labels.h"

#define ID   "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define UID  "3f2b1c44-0a5d-4e8c-9b1e-55aa66bb77cc"
#define TASK "run/containerd/io.containerd.runtime.v2.task/"

struct container_fixture {
	char dir[TEST_PATH_SIZE];
};

static int container_setup(void **state)
{
	struct container_fixture *f = NEW(struct container_fixture);

	test_dir_make(f->dir);
	clock_test_freeze(1700000000);
	*state = f;
	return 0;
}

static int container_teardown(void **state)
{
	struct container_fixture *f = *state;

	clock_test_thaw();
	test_dir_remove(f->dir);
	free(f);
	return 0;
}

static void make_folders(struct container_fixture *f, const char *path)
{
	char full[2 * TEST_PATH_SIZE];

	snprintf(full, sizeof(full), "%s/%s", f->dir, path);
	for (char *c = full + strlen(f->dir) + 1; (c = strchr(c, '/')); c++) {
		*c = '\0';
		(void)mkdir(full, 0755);
		*c = '/';
	}
}

static void put_state(struct container_fixture *f, const char *path, const char *text)
{
	char full[2 * TEST_PATH_SIZE];
	FILE *out;

	make_folders(f, path);
	snprintf(full, sizeof(full), "%s/%s", f->dir, path);
	out = fopen(full, "w");
	assert_non_null(out);
	fputs(text, out);
	fclose(out);
}

/* "container/pod/namespace/service" of a process in the cgroup. */
static const char *names_in(struct label_maker *m, const char *cgroup)
{
	static char text[400];
	const struct agent_labels *l;
	uint32_t n;

	assert_true(
		label_maker_get(m, &(struct label_facts){ .comm = STR("x"), .cgroup = str_of(cgroup) }, &n));
	l = label_maker_set(m, n);
	snprintf(text, sizeof(text), STR_FMT "/" STR_FMT "/" STR_FMT "/" STR_FMT,
		 STR_ARG(agent_labels_get(l, STR("container"))), STR_ARG(agent_labels_get(l, STR("pod"))),
		 STR_ARG(agent_labels_get(l, STR("namespace"))),
		 STR_ARG(agent_labels_get(l, STR("service"))));
	return text;
}

static void check_names(struct container_fixture *f, const char *cgroup, const char *want)
{
	struct label_maker *m = label_maker_new(&(struct label_options){ .root = f->dir }, NULL);

	assert_string_equal(names_in(m, cgroup), want);
	label_maker_free(m);
}

#define POD_CGROUP "0::/kubepods/burstable/pod" UID "/" ID "\n"

static void containerd_of_kubernetes(void **state)
{
	put_state(*state, TASK "other/empty", "");
	put_state(*state, TASK "k8s.io/" ID "/config.json",
		  "{\"ociVersion\":\"1.0\",\"annotations\":{\"io.kubernetes.cri.container-name\":\"web\","
		  "\"io.kubernetes.cri.sandbox-name\":\"shop-1\",\"io.kubernetes.cri.sandbox-namespace\":"
		  "\"prod\"}}");
	check_names(*state, POD_CGROUP, "web/shop-1/prod/");
	check_names(*state,
		    "1:name=systemd:/kubepods.slice/kubepods-pod3f2b1c44_0a5d_4e8c_9b1e_55aa66bb77cc.slice/"
		    "cri-containerd-" ID ".scope\n",
		    "web/shop-1/prod/");
}

static void a_sandbox_has_no_name_of_its_own(void **state)
{
	put_state(*state, "run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io/" ID "/config.json",
		  "{\"annotations\":{\"io.kubernetes.cri.container-type\":\"sandbox\","
		  "\"io.kubernetes.cri.sandbox-name\":\"shop-1\",\"io.kubernetes.cri.sandbox-namespace\":"
		  "\"prod\"}}");
	check_names(*state, POD_CGROUP, "/shop-1/prod/");
}

/* A namespace alone is no name, and costs no memory. */
static void a_namespace_alone_names_nothing(void **state)
{
	put_state(*state, TASK "a/" ID "/config.json",
		  "{\"annotations\":{\"io.kubernetes.cri.sandbox-namespace\":\"prod\"}}");
	put_state(*state, TASK "b/" ID "/config.json",
		  "{\"annotations\":{\"io.kubernetes.cri.sandbox-namespace\":\"prod\"}}");
	check_names(*state, POD_CGROUP, "0123456789ab/" UID "//");
}

static void nerdctl_and_docker(void **state)
{
	put_state(*state, TASK "default/" ID "/config.json", "{\"annotations\":{\"nerdctl/name\":\"db\"}}");
	check_names(*state, "0::/system.slice/nerdctl-" ID ".scope\n", "db///");
	/* A container of Docker has a bundle of containerd, without a name. */
	put_state(*state, TASK "moby/" ID "/config.json", "{\"annotations\":{}}");
	put_state(*state, TASK "default/" ID "/config.json", "{}");
	put_state(*state, "var/lib/docker/containers/" ID "/config.v2.json",
		  "{\"Name\":\"/shop_db_1\",\"Config\":{\"Env\":[\"PASSWORD=x\"],\"Labels\":{"
		  "\"com.docker.compose.service\":\"db\"}}}");
	check_names(*state, "0::/docker/" ID "\n", "shop_db_1///db");
	check_names(*state, "0::/system.slice/docker-" ID ".scope/init.scope\n", "shop_db_1///db");
}

static void a_sandbox_of_docker_has_no_name_of_its_own(void **state)
{
	put_state(*state, "var/lib/docker/containers/" ID "/config.v2.json",
		  "{\"Name\":\"/k8s_POD_shop-1_prod_x_0\",\"Config\":{\"Labels\":{"
		  "\"io.kubernetes.container.name\":\"POD\",\"io.kubernetes.pod.name\":\"shop-1\","
		  "\"io.kubernetes.pod.namespace\":\"prod\"}}}");
	check_names(*state, "0::/docker/" ID "\n", "/shop-1/prod/");
}

static void crio_and_podman(void **state)
{
	put_state(*state, "var/lib/containers/storage/overlay-containers/containers.json",
		  "[{\"id\":\"ff\",\"names\":[\"no\"]},{\"id\":\"" ID "\",\"names\":[\"pg\"]}]");
	check_names(*state, "0::/machine.slice/libpod-" ID ".scope/container\n", "pg///");
	put_state(*state, "var/lib/containers/storage/overlay-containers/containers.json",
		  "[{\"id\":\"" ID "\",\"names\":[\"k8s_web_shop-1_prod_" UID "_0\"]}]");
	check_names(*state, "0::/kubepods.slice/crio-" ID ".scope\n", "web/shop-1/prod/");
	put_state(*state, "run/containers/storage/overlay-containers/" ID "/userdata/config.json",
		  "{\"annotations\":{\"io.kubernetes.container.name\":\"POD\",\"io.kubernetes.pod.name\":"
		  "\"shop-2\","
		  "\"io.kubernetes.pod.namespace\":\"prod\"}}");
	check_names(*state, "0::/kubepods.slice/crio-" ID ".scope\n", "/shop-2/prod/");
}

/* The kubelet makes its link after the start. */
static void links_of_the_kubelet_are_found_later(void **state)
{
	struct container_fixture *f = *state;
	struct label_maker *m = label_maker_new(&(struct label_options){ .root = f->dir }, NULL);
	int64_t again_ms;

	assert_string_equal(names_in(m, POD_CGROUP), "0123456789ab/" UID "//");
	again_ms = label_maker_again_ms(m);
	assert_true(again_ms > clock_mono_ms());
	put_state(f, "var/log/containers/shop-1_prod_web-" ID ".log", "");
	assert_string_equal(names_in(m, POD_CGROUP), "0123456789ab/" UID "//");
	clock_test_advance(again_ms - clock_mono_ms());
	assert_string_equal(names_in(m, POD_CGROUP), "web/shop-1/prod/");
	assert_int_equal(label_maker_again_ms(m), 0);
	label_maker_free(m);
}

static void a_process_without_a_container_is_not_looked_for(void **state)
{
	struct container_fixture *f = *state;
	struct label_maker *m = label_maker_new(&(struct label_options){ .root = f->dir }, NULL);
	struct container_stats st;

	assert_string_equal(names_in(m, "0::/system.slice/nginx.service\n"), "///nginx");
	assert_int_equal(label_maker_again_ms(m), 0);
	/* A name that a manager of machines chose is no part of a path. */
	assert_string_equal(names_in(m, "0::/machine.slice/machine-..%2f..%2fx.scope\n"), "..%2f..%2fx///");
	assert_true(label_maker_containers(m, &st));
	assert_int_equal(st.n_unnamed, 0);
	label_maker_free(m);
}

static void hostile_files(void **state)
{
	struct container_fixture *f = *state;
	char text[3000] = "{\"annotations\":{\"nerdctl/name\":\"", path[TEST_PATH_SIZE * 2],
	     target[TEST_PATH_SIZE * 2];

	/* Control characters; a NUL makes the text none of JSON. */
	put_state(f, TASK "default/" ID "/config.json", "{\"annotations\":{\"nerdctl/name\":\"a\\u0000b\"}}");
	check_names(f, "0::/docker/" ID "\n", "0123456789ab///");
	put_state(f, TASK "default/" ID "/config.json", "{\"annotations\":{\"nerdctl/name\":\"a\\u001bb\"}}");
	check_names(f, "0::/docker/" ID "\n", "a?b///");
	/* A name without an end: 256 bytes of it. */
	memset(text + strlen(text), 'y', sizeof(text) - 5 - strlen(text));
	memcpy(text + sizeof(text) - 5, "\"}}", 4);
	put_state(f, TASK "default/" ID "/config.json", text);
	assert_true(strlen(text) > 2900);
	{
		struct label_maker *m = label_maker_new(&(struct label_options){ .root = f->dir }, NULL);

		assert_int_equal(strlen(names_in(m, "0::/docker/" ID "\n")), 256 + 3);
		label_maker_free(m);
	}
	/* Texts that are none of JSON. */
	put_state(f, TASK "default/" ID "/config.json", "{\"annotations\":[1,2,{}],\"x\":");
	check_names(f, "0::/docker/" ID "\n", "0123456789ab///");
	put_state(f, TASK "default/" ID "/config.json", "{\"annotations\":{\"nerdctl/name\":7}}");
	check_names(f, "0::/docker/" ID "\n", "0123456789ab///");
	/* A symbolic link stays below the root folder. */
	put_state(f, "outside", "{\"annotations\":{\"nerdctl/name\":\"found\"}}");
	snprintf(path, sizeof(path), "%s/" TASK "default/" ID "/config.json", f->dir);
	snprintf(target, sizeof(target), "%s/outside", f->dir);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink(target, path), 0);
	check_names(f, "0::/docker/" ID "\n", "0123456789ab///");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("/outside", path), 0);
	check_names(f, "0::/docker/" ID "\n", "found///");
	/* A FIFO does not block. */
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0644), 0);
	check_names(f, "0::/docker/" ID "\n", "0123456789ab///");
}

static void many_containers_are_bounded(void **state)
{
	struct container_fixture *f = *state;
	struct container_names *n = container_names_new(f->dir);
	struct container_stats st;
	char id[65];
	int64_t again_ms;

	for (unsigned i = 0; i < CONTAINERS_MAX + 100; i++) {
		snprintf(id, sizeof(id), "%064x", i);
		assert_null(
			container_names_get(n, &(struct cgroup_facts){ .container = str_of(id) }, &again_ms));
	}
	container_names_stats(n, &st);
	assert_int_equal(st.n_unnamed, CONTAINERS_MAX + 100);
	container_names_free(n);
}

static void a_file_that_is_too_large_is_reported(void **state)
{
	struct container_fixture *f = *state;
	struct container_names *n = container_names_new(f->dir);
	struct container_stats st;
	char path[2 * TEST_PATH_SIZE];
	int64_t again_ms;

	put_state(f, "var/lib/docker/containers/" ID "/config.v2.json", "{");
	snprintf(path, sizeof(path), "%s/var/lib/docker/containers/" ID "/config.v2.json", f->dir);
	assert_int_equal(truncate(path, 1 << 30), 0);
	assert_null(container_names_get(n, &(struct cgroup_facts){ .container = STR(ID) }, &again_ms));
	container_names_stats(n, &st);
	assert_non_null(strstr(st.error, "more than"));
	container_names_free(n);
	n = container_names_new("/nonexistent");
	assert_null(container_names_get(n, &(struct cgroup_facts){ .container = STR(ID) }, &again_ms));
	container_names_stats(n, &st);
	assert_non_null(strstr(st.error, "/nonexistent"));
	container_names_free(n);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, container_setup, container_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(containerd_of_kubernetes),
		WITH(a_sandbox_has_no_name_of_its_own),
		WITH(a_namespace_alone_names_nothing),
		WITH(nerdctl_and_docker),
		WITH(a_sandbox_of_docker_has_no_name_of_its_own),
		WITH(crio_and_podman),
		WITH(links_of_the_kubelet_are_found_later),
		WITH(a_process_without_a_container_is_not_looked_for),
		WITH(hostile_files),
		WITH(many_containers_are_bounded),
		WITH(a_file_that_is_too_large_is_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
