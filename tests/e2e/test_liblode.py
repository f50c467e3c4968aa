# SPDX-License-Identifier: Apache-2.0
"""liblode: the example is built and run as in its documentation, and threads share a table."""

import os
import pathlib
import re
import subprocess

import pytest

from conftest import LODE, ROOT
from test_symbolize import Built, built  # noqa: F401

BUILD = pathlib.Path(LODE).resolve().parent
LIBRARY = BUILD / "lib" / "liblode.so.1"

THREADS = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <lode/lode.h>

static struct lode_table *table;
static uint64_t from, to;

static void *ask(void *arg)
{
	struct lode_finder *f = lode_finder_new(table);
	const struct lode_frame *frames;
	size_t n, found = 0;

	for (int round = 0; round < 20; round++)
		for (uint64_t a = from; a < to; a++)
			found += lode_frames(f, a, round % 2 ? LODE_MANGLED : 0, &frames, &n) == 0 && n && frames[0].line;
	lode_finder_free(f);
	return found ? &table : NULL;
}

int main(int argc, char **argv)
{
	struct lode_options o = { .size = sizeof(o), .local_only = 1, .threads = 1 };
	struct lode *l = lode_new(&o);
	char *path = NULL;
	pthread_t t[4];
	int bad = 0;

	if (lode_open(l, "/nowhere", NULL, &table) >= 0 || !*lode_error(l) || lode_open(l, NULL, NULL, &table) >= 0)
		return 2;
	if (lode_find(l, LODE_DEBUGINFO, "0011223344556677", &path) != LODE_NONE || lode_find(l, LODE_DEBUGINFO, "xyz", &path) >= 0)
		return 3;
	if (lode_open(l, argv[1], NULL, &table) < 0)
		return 4;
	lode_free(l);
	if (strcmp(lode_build_id(table), argv[4]) != 0 || lode_is_incomplete(table))
		return 5;
	from = strtoull(argv[2], NULL, 16);
	to = strtoull(argv[3], NULL, 16);
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, ask, NULL);
	for (int i = 0; i < 4; i++) {
		void *ok;

		pthread_join(t[i], &ok);
		bad += !ok;
	}
	lode_close(table);
	return bad ? 6 : 0;
}
"""


@pytest.fixture
def cc(tmp_path):
    sanitized = re.findall(r"lib([at])san", subprocess.run(["ldd", str(LIBRARY)], capture_output=True, text=True).stdout)
    flags = ["-fsanitize=address,undefined"] if "a" in sanitized else ["-fsanitize=thread"] if sanitized else []
    (tmp_path / "liblode.so").symlink_to(LIBRARY)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DEBUGINFOD_", "LODE_"))}
    env.update(LD_LIBRARY_PATH=str(BUILD / "lib"), XDG_CACHE_HOME=str(tmp_path / "cache"))

    def build(source, name):
        out = tmp_path / name
        subprocess.run(["gcc", "-g", "-O1", "-Wall", "-Werror", "-pthread", *flags, f"-I{ROOT / 'include'}", "-o", str(out), str(source),
                        f"-L{tmp_path}", "-llode"], check=True)
        return lambda *args: subprocess.run([str(out), *map(str, args)], capture_output=True, text=True, env=env)

    return build


def test_the_example_tells_its_own_stack(cc):
    r = cc(ROOT / "examples" / "frames.c", "frames")()
    assert r.returncode == 0, r.stderr
    text = (ROOT / "examples" / "frames.c").read_text().splitlines()
    line = next(i for i, l in enumerate(text, 1) if "backtrace(stack" in l)
    assert re.search(rf"^tell_stack \S*frames\.c:{line}$", r.stdout, re.M), r.stdout
    assert re.search(r"^main \S*frames\.c:\d+$", r.stdout, re.M), r.stdout


def test_the_example_tells_an_address_as_the_command_does(cc, built):  # noqa: F811
    frames = cc(ROOT / "examples" / "frames.c", "frames")
    for addr in built.code[::30]:
        r = frames(built.full, hex(addr))
        want = built.oracle([addr], "--no-demangle")[0]
        assert r.returncode == 0
        got = [re.match(r"(.*) (\S*):(\d+)( \(inlined\))?$", l).groups() for l in r.stdout.splitlines()]
        assert [(g[1], int(g[2])) for g in got] == [(w[1], w[2]) for w in want]
        assert [bool(g[3]) for g in got] == [True] * (len(got) - 1) + [False]
    r = frames("/nowhere", "1")
    assert r.returncode == 1 and "no such file" in r.stderr
    assert frames(built.full, "1").returncode == 1


def test_threads_share_a_table(cc, built, tmp_path):  # noqa: F811
    (tmp_path / "threads.c").write_text(THREADS)
    r = cc(tmp_path / "threads.c", "threads")(built.full, hex(built.code[0]), hex(built.code[0] + 64), built.id)
    assert r.returncode == 0, r.stderr


MISSING = r"""
#include <stdio.h>
#include <lode/lode.h>

/* Of the server argv[1]; without one, of DEBUGINFOD_URLS. */
int main(int argc, char **argv)
{
	struct lode_options o = { .size = sizeof(o), .urls = argv[1] };
	struct lode *l = lode_new(&o);
	char *path;

	for (int i = 0; i < 2; i++)
		printf("%d %d ", lode_find(l, LODE_DEBUGINFO, "00112233445566778899", &path),
		       lode_find(l, LODE_EXECUTABLE, "00112233445566778899", &path));
	printf("%s\n", lode_error(l));
	lode_free(l);
	return 0;
}
"""


def test_a_file_that_no_server_has_is_none_and_one_that_fails_is_a_failure(cc, tmp_path):
    (tmp_path / "missing.c").write_text(MISSING)
    (tmp_path / "empty").mkdir()
    missing = cc(tmp_path / "missing.c", "missing")
    # The second time by the note in the cache folder.
    assert missing(f"file://{tmp_path}/empty").stdout.startswith("1 1 1 1 ")
    assert missing().stdout.startswith("1 1 1 1 ")  # there is no server
    out = missing("http://127.0.0.1:1").stdout
    assert out.startswith("-1 -1 -1 -1 ") and "refused" in out


DETAILS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <lode/lode.h>

/* With "-": as one that was compiled before there were discriminators, whose options are shorter. */
int main(int argc, char **argv)
{
	struct lode_options o = { .size = sizeof(o), .local_only = 1, .discriminators = 1 };
	const struct lode_frame *frames;
	struct lode_table *t;
	struct lode_finder *f;
	struct lode *l;
	size_t n;

	if (argv[2][0] == '-')
		o.size = offsetof(struct lode_options, discriminators);
	l = lode_new(&o);
	if (lode_open(l, argv[1], NULL, &t) < 0)
		return 2;
	lode_free(l);
	f = lode_finder_new(t);
	for (int i = 3; i < argc; i++) {
		if (lode_frames(f, strtoull(argv[i], NULL, 16), (unsigned)atoi(argv[2] + 1), &frames, &n) != 0)
			return 3;
		for (size_t k = 0; k < n; k++)
			printf("%s\t%u\n", frames[k].function, lode_discriminator(f, k));
		if (lode_discriminator(f, n))
			return 4;
		if (lode_frames(f, 1, 0, &frames, &n) != LODE_NONE || lode_discriminator(f, 0))
			return 5;
	}
	lode_finder_free(f);
	lode_close(t);
	return 0;
}
"""


def test_discriminators_and_degrees_of_names(cc, built, tmp_path):  # noqa: F811
    (tmp_path / "details.c").write_text(DETAILS)
    details = cc(tmp_path / "details.c", "details")

    def ask(flags, addrs):
        r = details(built.full, flags, *map(hex, addrs))
        assert r.returncode == 0, (r.returncode, r.stderr)
        return [l.rsplit("\t", 1) for l in r.stdout.splitlines()]

    addrs = built.code[::5]
    want = [d for a in built.discriminators(addrs) for d in a]
    assert any(want)
    assert [int(d) for _, d in ask("+0", addrs)] == want
    assert {d for _, d in ask("-0", addrs)} == {"0"}
    addr = next(a for a, c in zip(built.code, built.oracle(built.code)) if c[-1][0].startswith("int shop::sum"))
    names = [ask(f"+{flags}", [addr])[-1][0] for flags in (0, 2, 4, 8)]
    assert names[0].startswith("int shop::sum<int>(") and names[1].startswith("_ZN4shop3sumIiEE")
    assert names[2:] == ["shop::sum<int>", "shop::sum"]


def test_only_its_own_names_are_exported():
    out = subprocess.run(["nm", "-D", "--defined-only", str(LIBRARY)], capture_output=True, text=True, check=True).stdout
    names = {l.split()[2] for l in out.splitlines()} - {"LODE_1", "LODE_2"}
    header = (ROOT / "include" / "lode" / "lode.h").read_text()
    declared = set(re.findall(r"^[a-z].*?\b(lode_\w+)\(", header, re.M))
    assert {n.split("@")[0] for n in names} == declared
