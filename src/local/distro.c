/* SPDX-License-Identifier: Apache-2.0 */
/* Distributions, and the names of their packages of debug information. */
#include "local/distro.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#define OS_MAX   KIB(64)
#define LIST_MAX MIB(64)

static const struct distro_row {
	const char *id, *name, *server;
	enum local_installer installer;
} rows[] = {
	{ "debian", "Debian", "https://debuginfod.debian.net", LOCAL_APT },
	{ "ubuntu", "Ubuntu", "https://debuginfod.ubuntu.com", LOCAL_APT },
	{ "fedora", "Fedora", "https://debuginfod.fedoraproject.org", LOCAL_DNF },
	{ "centos", "CentOS", "https://debuginfod.centos.org", LOCAL_DNF },
	{ "opensuse", "openSUSE", "https://debuginfod.opensuse.org", LOCAL_ZYPPER },
	{ "suse", "SUSE", "https://debuginfod.opensuse.org", LOCAL_ZYPPER },
	{ "arch", "Arch Linux", "https://debuginfod.archlinux.org", LOCAL_NO_INSTALLER },
};
static const char any_server[] = "https://debuginfod.elfutils.org";

/* ---- os-release ---- */

static struct str release_field(struct str text, struct str name)
{
	while (text.size) {
		struct str line = str_trim(str_cut(&text, '\n'));

		if (!str_starts(line, name))
			continue;
		line = (struct str){ line.p + name.size, line.size - name.size };
		if (line.size >= 2 && (line.p[0] == '"' || line.p[0] == '\''))
			line = (struct str){ line.p + 1, line.size - 2 };
		return line;
	}
	return STR("");
}

static void copy_plain(struct str s, char *ret, size_t room)
{
	size_t n = 0;

	for (size_t i = 0; i < s.size && n + 1 < room; i++)
		if (s.p[i] > ' ' && s.p[i] < 127)
			ret[n++] = s.p[i];
	ret[n] = '\0';
}

static const struct distro_row *row_of(struct str id)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		/* "opensuse-leap" */
		if (str_eq(id, str_of(rows[i].id)) ||
		    (str_starts(id, str_of(rows[i].id)) && id.p[strlen(rows[i].id)] == '-'))
			return &rows[i];
	return NULL;
}

void local_distro_read(const char *root, struct local_distro *ret)
{
	AUTO(mem_freep) char *etc = mem_printf("%s/etc/os-release", root);
	AUTO(mem_freep) char *usr = mem_printf("%s/usr/lib/os-release", root);
	AUTO(buf_done) struct buf os = { 0 };
	const struct distro_row *row;
	struct str like;

	*ret = (struct local_distro){ .server = any_server };
	if (file_read(etc, OS_MAX, &os, NULL) != 0)
		(void)!file_read(usr, OS_MAX, &os, NULL);
	copy_plain(release_field(buf_str(&os), STR("ID=")), ret->id, sizeof(ret->id));
	copy_plain(release_field(buf_str(&os), STR("VERSION_CODENAME=")), ret->codename,
		   sizeof(ret->codename));
	row = row_of(str_of(ret->id));
	like = release_field(buf_str(&os), STR("ID_LIKE="));
	while (!row && like.size)
		row = row_of(str_cut(&like, ' '));
	if (!row)
		return;
	ret->name = row->name;
	ret->server = row->server;
	ret->installer = row->installer;
}

/* ---- packages ---- */

static bool list_has(struct str list, struct str path)
{
	for (struct str rest = list; rest.size >= path.size;) {
		const char *at = memmem(rest.p, rest.size, path.p, path.size);
		size_t end;

		if (!at)
			return false;
		end = (size_t)(at - list.p) + path.size;
		if ((at == list.p || at[-1] == '\n') && (end == list.size || list.p[end] == '\n'))
			return true;
		rest = (struct str){ at + 1, list.size - (size_t)(at + 1 - list.p) };
	}
	return false;
}

/* dpkg has a file under the path in its package, which may be that before /usr was merged. */
static bool package_has(struct str list, struct str path)
{
	static const struct str usr = { "/usr", 4 };

	if (list_has(list, path))
		return true;
	return str_starts(path, STR("/usr/")) &&
	       list_has(list, (struct str){ path.p + usr.size, path.size - usr.size });
}

/*
 * Debug packages of Debian that its sources name themselves, as all were before 2015. They are in the main archive. glibc's
 * is the one that is needed most often.
 */
static bool has_dbg_package(struct str package)
{
	static const struct str names[] = { STR("libc6"),       STR("libbinutils"), STR("libctf0"),
					    STR("libgprofng0"), STR("libdb5.3"),    STR("libpcre3"),
					    STR("valgrind"),    STR("librados2"),   STR("ceph-osd"),
					    STR("ceph-mon"),    STR("ceph-mgr"),    STR("ceph-mds") };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_eq(package, names[i]))
			return true;
	/* Ubuntu's kernels have other endings, and -dbgsym. */
	return str_starts(package, STR("linux-image-")) &&
	       (str_ends(package, STR("-amd64")) || str_ends(package, STR("-arm64")));
}

static void debug_package_add(struct str package, struct buf *out)
{
	buf_add_str(out, package);
	buf_add_str(out, has_dbg_package(package) ? STR("-dbg") : STR("-dbgsym"));
}

bool local_package_installed(const char *root, struct str path, struct buf *out)
{
	AUTO(mem_freep) char *dir = mem_printf("%s/var/lib/dpkg/info", root);
	AUTO(buf_done) struct buf list = { 0 };
	bool found = false;
	DIR *d;

	if (path.size < 2 || path.p[0] != '/' || !(d = opendir(dir)))
		return false;
	for (const struct dirent *e; !found && (e = readdir(d));) {
		struct str name = str_of(e->d_name);
		AUTO(mem_freep) char *file = NULL;

		if (!str_ends(name, STR(".list")))
			continue;
		file = mem_printf("%s/%s", dir, e->d_name);
		list.size = 0;
		if (file_read(file, LIST_MAX, &list, NULL) != 0 || !package_has(buf_str(&list), path))
			continue;
		name.size -= 5;
		debug_package_add(str_cut(&name, ':'), out);
		found = true;
	}
	closedir(d);
	return found;
}

static bool is_name_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* A character of a file's name as names of packages have it. */
static char package_char(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (char)(c + 32);
	return c == '_' ? '-' : c;
}

/* Debian Policy, section 8.1: "libz.so.1.2.13" is of zlib's package libz1; a name that ends in a digit gets a hyphen. */
bool local_package_by_rule(struct str path, struct buf *out)
{
	struct str name = path_basename(path), version;
	AUTO(buf_done) struct buf package = { 0 };
	const char *so = name.size ? memmem(name.p, name.size, ".so.", 4) : NULL;

	if (!so || !str_starts(name, STR("lib")))
		return false;
	version = (struct str){ so + 4, name.size - (size_t)(so + 4 - name.p) };
	version = str_cut(&version, '.');
	name.size = (size_t)(so - name.p);
	for (size_t i = 0; i < name.size; i++) {
		char c = package_char(name.p[i]);

		if (!is_name_digit(c) && (c < 'a' || c > 'z') && (!c || !strchr("+-.", c)))
			return false;
	}
	for (size_t i = 0; i < version.size; i++)
		if (!is_name_digit(version.p[i]))
			return false;
	if (!version.size)
		return false;
	for (size_t i = 0; i < name.size; i++)
		buf_add_char(&package, package_char(name.p[i]));
	if (is_name_digit(name.p[name.size - 1]))
		buf_add_char(&package, '-');
	buf_add_str(&package, version);
	debug_package_add(buf_str(&package), out);
	return true;
}

static bool cut_last_part(struct str *name, char at)
{
	const char *last = name->size ? memrchr(name->p, at, name->size) : NULL;

	if (!last || last == name->p)
		return false;
	name->size = (size_t)(last - name->p);
	return true;
}

bool local_package_beside(struct str file, struct buf *out)
{
	struct str name = path_basename(file);

	if (str_ends(name, STR(".deb")) || str_ends(name, STR(".ddeb"))) {
		name = str_cut(&name, '_');
		if (str_ends(name, STR("-dbgsym")) || str_ends(name, STR("-dbg")) ||
		    str_ends(name, STR(".deb")))
			return false;
		debug_package_add(name, out);
		return true;
	}
	/* name-version-release.architecture.rpm */
	if (!str_ends(name, STR(".rpm")) || !cut_last_part(&name, '-') || !cut_last_part(&name, '-') ||
	    memmem(name.p, name.size, "-debuginfo", 10))
		return false;
	buf_add_str(out, name);
	buf_add_str(out, STR("-debuginfo"));
	return true;
}

/* It may be pasted into a shell: @path is from a profile, which anyone may have made. */
static bool is_plain_path(struct str path)
{
	for (size_t i = 0; i < path.size; i++) {
		char c = path.p[i];

		if (!is_name_digit(c) && ((c | 32) < 'a' || (c | 32) > 'z') && (!c || !strchr("/+-._:@~", c)))
			return false;
	}
	return path.size && path.p[0] == '/';
}

void local_install_advice(const struct local_distro *d, struct str package, struct str path, struct buf *out)
{
	struct str id = str_of(d->id);
	bool is_debian = str_eq(id, STR("debian")), is_ubuntu = str_eq(id, STR("ubuntu"));

	if (d->installer == LOCAL_APT && package.size) {
		buf_printf(out, "apt install %.*s", (int)package.size, package.p);
		if (str_ends(package, STR("-dbg")))
			return;
		/* Updates of a release are in other suites until they are in it: the release's has another build ID. */
		if (is_debian && d->codename[0])
			buf_printf(out,
				   " (it is in: deb http://deb.debian.org/debian-debug %s-debug main; of a "
				   "security update in: deb http://deb.debian.org/debian-security-debug "
				   "%s-security-debug main)",
				   d->codename, d->codename);
		else if (is_ubuntu && d->codename[0])
			buf_printf(out,
				   " (it is in: deb http://ddebs.ubuntu.com %s main restricted universe "
				   "multiverse; of an update in: %s-updates instead of %s)",
				   d->codename, d->codename, d->codename);
		return;
	}
	if (!is_plain_path(path))
		return;
	if (d->installer == LOCAL_DNF)
		buf_printf(out, "dnf debuginfo-install \"$(rpm -qf '%.*s')\"", (int)path.size, path.p);
	else if (d->installer == LOCAL_ZYPPER)
		buf_printf(out, "zypper install \"$(rpm -qf --qf '%%{name}' '%.*s')-debuginfo\"",
			   (int)path.size, path.p);
}
