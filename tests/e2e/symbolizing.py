# SPDX-License-Identifier: Apache-2.0
"""lode symbolize, as a command of a user who has no configuration, and a program that crashes."""

import os
import subprocess

import pytest

from conftest import LODE

CRASH = r"""
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline __attribute__((always_inline)) void inner(char *p, int n)
{
	p[n] = 1; /* the bad line */
}

__attribute__((noinline)) void outer(char *p, int n)
{
	inner(p, n);
	__asm__("");
}

__attribute__((noinline)) void trace(void)
{
	void *list[10];

	backtrace_symbols_fd(list, backtrace(list, 10), 1);
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		printf("%p\n", (void *)outer);
		fflush(stdout);
		getchar();
		return 0;
	}
	trace();
	fflush(stdout);
#ifdef __SANITIZE_ADDRESS__
	outer(malloc(5), 5);
#endif
	return 0;
}
"""


@pytest.fixture
def run(tmp_path):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DEBUGINFOD_", "LODE_"))}
    env.update(XDG_CACHE_HOME=str(tmp_path / "cache"), HOME=str(tmp_path / "home"))

    def call(*args, text=None, status=0, extra=None):
        r = subprocess.run([LODE, "symbolize", *map(str, args)], input=text, capture_output=True, text=True,
                           stdin=subprocess.DEVNULL if text is None else None, env={**env, **(extra or {})})
        assert r.returncode == status, (r.returncode, r.stderr, r.stdout)
        return r.stdout if status == 0 else r.stderr

    return call


def program(tmp_path, *flags):
    (tmp_path / "crash.c").write_text(CRASH)
    subprocess.run(["gcc", "-g", "-O1", "-Wl,--build-id=sha1", *flags, "-o", "crash", "crash.c"], cwd=tmp_path, check=True)
    return tmp_path / "crash"


def line_of(text):
    return next(i for i, l in enumerate(CRASH.splitlines(), 1) if text in l)
