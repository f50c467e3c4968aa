/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The distribution of this machine, and the package with the debug information of a file: for advice to a person. Nothing
 * here fails, and nothing is certain.
 */
#pragma once

#include "base/base.h"

enum local_installer { LOCAL_NO_INSTALLER, LOCAL_APT, LOCAL_DNF, LOCAL_ZYPPER };
struct local_distro {
	char id[32], codename[32]; /* "debian", "bookworm"; empty: not known */
	const char *name;          /* "Debian"; NULL: a distribution that is not known here */
	const char *server;        /* its debuginfod server, else that of elfutils, which asks many */
	enum local_installer installer;
};
/* @root: the folder of the system's files, "" usually. */
void local_distro_read(const char *root, struct local_distro *ret);

/*
 * Append the name of the package with the debug information of the file @path: "liblzma5-dbgsym". false: nothing is
 * appended. The first asks dpkg's lists of installed files; the second has only a path, whose library's name Debian's
 * packages have by rule; the third has the name of the package with the file itself (a .deb or .rpm).
 */
bool local_package_installed(const char *root, struct str path, struct buf *out);
bool local_package_by_rule(struct str path, struct buf *out);
bool local_package_beside(struct str package_file, struct buf *out);
/* Append how to install @package (empty: the one of @path): commands and where it is; nothing if that is not known. */
void local_install_advice(const struct local_distro *d, struct str package, struct str path, struct buf *out);
