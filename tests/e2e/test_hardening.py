# SPDX-License-Identifier: Apache-2.0
"""The program and its unit are built and set up so that a mistake in a parser is hard to use."""

import pathlib
import re
import shutil
import subprocess

import pytest

from conftest import LODE, ROOT

BUILD = pathlib.Path(LODE).parent


def out(*args):
    return subprocess.run([str(a) for a in args], capture_output=True, text=True, check=True).stdout


def test_addresses_are_bound_at_the_start_and_read_only():
    dynamic, segments = out("readelf", "-dW", LODE), out("readelf", "-lW", LODE)
    assert re.search(r"FLAGS_1.*\bNOW\b.*\bPIE\b|FLAGS_1.*\bPIE\b.*\bNOW\b", dynamic) or ("BIND_NOW" in dynamic and "PIE" in dynamic), dynamic
    assert "GNU_RELRO" in segments and "TEXTREL" not in dynamic
    assert re.search(r"GNU_STACK.* RW ", segments) and not re.search(r"LOAD.* RWE ", segments)


@pytest.mark.slow
def test_calls_and_the_stack_are_guarded():
    symbols = out("readelf", "--dyn-syms", "-W", LODE)
    assert "__stack_chk_fail" in symbols
    flags = out("meson", "introspect", "--targets", BUILD)
    assert "-fstack-clash-protection" in flags and "-fstack-protector-strong" in flags
    if "X86-64" in out("readelf", "-h", LODE):
        assert "-fcf-protection=full" in flags
        code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", LODE], stdout=subprocess.PIPE, text=True).stdout
        assert code.count("endbr64") > 1000


def test_library_calls_are_checked_where_it_is_optimised():
    options = out("meson", "introspect", "--buildoptions", BUILD)
    if re.search(r'"name": "optimization", "value": "[0g]"', options):
        pytest.skip("the checks need the optimiser")
    assert re.search(r"__\w+_chk@", out("readelf", "--dyn-syms", "-W", LODE))
    assert "-D_FORTIFY_SOURCE=3" in out("meson", "introspect", "--targets", BUILD)


def unit():
    return (ROOT / "contrib" / "lode.service.in").read_text()


def test_the_unit_limits_what_the_service_takes_and_sees():
    lines = unit().splitlines()
    for key in ("MemoryMax", "MemoryHigh", "TasksMax", "OOMPolicy", "ProtectProc", "ProcSubset", "PrivateUsers", "StartLimitBurst", "NoNewPrivileges",
                "ProtectSystem", "MemoryDenyWriteExecute", "SystemCallFilter", "CapabilityBoundingSet"):
        assert any(x.startswith(key + "=") for x in lines), key


def test_systemd_reads_the_unit(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("there is no systemd-analyze")
    file = tmp_path / "lode.service"
    file.write_text(unit().replace("@bindir@/lode", LODE))
    r = subprocess.run(["systemd-analyze", "verify", "--man=no", str(file)], capture_output=True, text=True)
    wrong = [x for x in r.stderr.splitlines() if "lode.service" in x]
    assert not wrong, wrong
    r = subprocess.run(["systemd-analyze", "security", "--offline=true", str(file)], capture_output=True, text=True)
    level = re.search(r"Overall exposure level for \S+: (\d+\.\d+)", r.stdout)
    assert not level or float(level[1]) <= 2.0, r.stdout
