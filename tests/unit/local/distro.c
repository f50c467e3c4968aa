/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <sys/stat.h>
#include "local/distro.h"

static void write_file(const char *root, const char *path, const char *text)
{
	AUTO(mem_freep) char *to = mem_printf("%s%s", root, path);
	FILE *f;

	for (char *at = to + strlen(root) + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		(void)!mkdir(to, 0755);
		*at = '/';
	}
	f = fopen(to, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void distributions(void **state)
{
	static const struct {
		const char *text, *name, *server;
	} list[] = {
		{ "ID=debian\nVERSION_CODENAME=bookworm\n", "Debian", "https://debuginfod.debian.net" },
		{ "NAME=\"Linux Mint\"\nID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", "Ubuntu",
		  "https://debuginfod.ubuntu.com" },
		{ "ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n", "openSUSE",
		  "https://debuginfod.opensuse.org" },
		{ "ID=fedora\n", "Fedora", "https://debuginfod.fedoraproject.org" },
		{ "ID=archlinux\nID_LIKE=arch\n", "Arch Linux", "https://debuginfod.archlinux.org" },
		{ "ID=other\n", NULL, "https://debuginfod.elfutils.org" },
		{ "", NULL, "https://debuginfod.elfutils.org" },
	};
	char root[TEST_PATH_SIZE];

	test_dir_make(root);
	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		struct local_distro d;

		write_file(root, "/etc/os-release", list[i].text);
		local_distro_read(root, &d);
		if (list[i].name)
			assert_string_equal(d.name, list[i].name);
		else
			assert_null(d.name);
		assert_string_equal(d.server, list[i].server);
	}
	test_dir_remove(root);
}

static void assert_package(bool found, struct buf *got, const char *want)
{
	assert_int_equal(found, want != NULL);
	assert_string_equal(buf_cstr(got), want ? want : "");
	got->size = 0;
}

static void packages_of_files(void **state)
{
	static const struct {
		const char *path, *package;
	} rules[] = {
		{ "/usr/lib/x86_64-linux-gnu/liblzma.so.5.4.1", "liblzma5-dbgsym" },
		{ "libz.so.1", "libz1-dbgsym" },
		{ "/usr/lib/x86_64-linux-gnu/libc.so.6", "libc6-dbg" },
		{ "/opt/libboost_thread-1.so.3", "libboost-thread-1-3-dbgsym" },
		{ "/usr/lib/libQt5Core.so.5.15.8", "libqt5core5-dbgsym" },
		{ "/usr/lib/libapt-pkg6.so.6", "libapt-pkg6-6-dbgsym" },
		{ "/usr/lib/libx.so", NULL },
		{ "/usr/lib/libx.so.a", NULL },
		{ "/usr/lib/libx$(id).so.1", NULL },
		{ "/usr/lib/.so.1", NULL },
		{ "/usr/bin/bash", NULL },
		{ "", NULL },
		{ "/", NULL },
		{ "[vdso]", NULL },
	}, beside[] = {
		{ "/pool/liblzma5_5.4.1-0.2_amd64.deb", "liblzma5-dbgsym" },
		{ "linux-image-6.1.0-53-amd64_6.1.187-1_amd64.deb", "linux-image-6.1.0-53-amd64-dbg" },
		{ "linux-image-6.8.0-45-generic_6.8.0-45.45_amd64.deb", "linux-image-6.8.0-45-generic-dbgsym" },
		{ "liblzma5-dbgsym_5.4.1-0.2_amd64.deb", NULL },
		{ "xz-libs-5.4.1-1.fc38.x86_64.rpm", "xz-libs-debuginfo" },
		{ "xz-debuginfo-5.4.1-1.fc38.x86_64.rpm", NULL },
		{ "x.rpm", NULL },
		{ "x.deb", NULL },
		{ "x.tar", NULL },
		{ "", NULL },
	};
	char root[TEST_PATH_SIZE];
	struct buf b = { 0 };

	test_dir_make(root);
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		assert_package(local_package_by_rule(str_of(rules[i].path), &b), &b, rules[i].package);
	for (size_t i = 0; i < ARRAY_SIZE(beside); i++)
		assert_package(local_package_beside(str_of(beside[i].path), &b), &b, beside[i].package);
	write_file(root, "/var/lib/dpkg/info/liblzma5:amd64.list", "/.\n/lib\n/lib/libl.so.5.4.1\n");
	write_file(root, "/var/lib/dpkg/info/bash.list", "/.\n/bin/bash\n/usr/share/doc/libl.so.5.4.1");
	assert_package(local_package_installed(root, STR("/usr/lib/libl.so.5.4.1"), &b), &b,
		       "liblzma5-dbgsym");
	assert_package(local_package_installed(root, STR("/lib/libl.so.5.4.1"), &b), &b, "liblzma5-dbgsym");
	assert_package(local_package_installed(root, STR("/usr/bin/bash"), &b), &b, "bash-dbgsym");
	assert_package(local_package_installed(root, STR("/usr/share/doc/libl.so.5.4.1"), &b), &b,
		       "bash-dbgsym");
	assert_package(local_package_installed(root, STR("/lib/libl.so.5"), &b), &b, NULL);
	assert_package(local_package_installed(root, STR("/libl.so.5.4.1"), &b), &b, NULL);
	assert_package(local_package_installed("/nonexistent", STR("/bin/bash"), &b), &b, NULL);
	buf_done(&b);
	test_dir_remove(root);
}

static void how_to_install(void **state)
{
	const struct local_distro debian = { "debian", "bookworm", "Debian", "", LOCAL_APT },
				  ubuntu = { "ubuntu", "noble", "Ubuntu", "", LOCAL_APT },
				  fedora = { "fedora", "", "Fedora", "", LOCAL_DNF },
				  other = { "", "", NULL, "", LOCAL_NO_INSTALLER };
	struct buf b = { 0 };

	local_install_advice(&debian, STR("libc6-dbg"), STR("/lib/l.so"), &b);
	assert_string_equal(buf_cstr(&b), "apt install libc6-dbg");
	b.size = 0;
	local_install_advice(&debian, STR("liblzma5-dbgsym"), STR("/lib/l.so"), &b);
	assert_string_equal(buf_cstr(&b),
			    "apt install liblzma5-dbgsym (it is in: deb "
			    "http://deb.debian.org/debian-debug bookworm-debug main; of a security "
			    "update in: deb http://deb.debian.org/debian-security-debug "
			    "bookworm-security-debug main)");
	b.size = 0;
	local_install_advice(&ubuntu, STR("liblzma5-dbgsym"), STR("/lib/l.so"), &b);
	assert_string_equal(buf_cstr(&b),
			    "apt install liblzma5-dbgsym (it is in: deb http://ddebs.ubuntu.com noble "
			    "main restricted universe multiverse; of an update in: noble-updates "
			    "instead of noble)");
	b.size = 0;
	local_install_advice(&fedora, STR(""), STR("/lib/l.so"), &b);
	assert_string_equal(buf_cstr(&b), "dnf debuginfo-install \"$(rpm -qf '/lib/l.so')\"");
	b.size = 0;
	local_install_advice(&other, STR("x"), STR("/lib/l.so"), &b);
	local_install_advice(&debian, STR(""), STR("/lib/l.so"), &b);
	/* A path from a profile may be made to run in a shell. */
	local_install_advice(&fedora, STR(""), STR("/lib/l';id;'.so"), &b);
	assert_int_equal(b.size, 0);
	buf_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(distributions),
		cmocka_unit_test(packages_of_files),
		cmocka_unit_test(how_to_install),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
