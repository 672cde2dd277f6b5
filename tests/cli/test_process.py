"""What only a process of its own can show: start-up time, imports, pipes, encodings."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

HEAVY = ("torch", "streamlit", "duckdb", "polars", "pyarrow", "scipy", "numpy", "altair", "rich")
RLAUDIT = (sys.executable, "-c", "import sys; from audit.cli import main; main(sys.argv[1:])")


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command, capture_output=True, env=os.environ | environment, timeout=120, check=False
    )


def test_importing_the_package_and_its_command_line_imports_nothing_heavy() -> None:
    code = f"import sys, audit, audit.cli; print([name for name in {HEAVY} if name in sys.modules])"
    done = run(sys.executable, "-c", code)
    assert done.stdout.decode().strip() == "[]", done.stderr.decode()


@pytest.mark.parametrize("command", [(sys.executable, "-c", "import audit"), (*RLAUDIT, "--help")])
def test_it_starts_in_half_a_second(command) -> None:
    def seconds(*command: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert run(*command).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # Processor time, and the least of several: the bound is on the program, not on its neighbours. Where the
    # machine is so busy that the standard library alone takes longer than its usual tenth, it counts as one.
    plain = (
        sys.executable,
        "-c",
        "import asyncio, email, http.client, json, logging, unittest, xml.dom.minidom",
    )
    times = [(seconds(*command), seconds(*plain)) for _ in range(5)]
    slowness = max(1.0, min(yardstick for _, yardstick in times) / 0.1)
    assert min(own for own, _ in times) < 0.5 * slowness


def test_a_pipe_gets_plain_text_of_utf8(runs) -> None:
    done = run(*RLAUDIT, "summary", str(runs / "grpo-1"), PYTHONIOENCODING="utf-8")
    assert done.returncode == 0
    assert b"\x1b" not in done.stdout
    assert "grpo-1" in done.stdout.decode("utf-8")
    assert done.stderr == b""


def test_an_ascii_terminal_gets_ascii(runs) -> None:
    done = run(
        *RLAUDIT,
        "explain",
        str(runs / "grpo-1"),
        str(runs / "dr-1"),
        PYTHONIOENCODING="ascii",
        PYTHONUTF8="0",
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.isascii()
    assert b"####" in done.stdout


def test_a_reader_that_stops_reading_is_no_failure(runs) -> None:
    with subprocess.Popen(
        [*RLAUDIT, "explain", str(runs / "grpo-1"), str(runs / "dr-1")], stdout=-1, stderr=-1
    ) as p:
        assert p.stdout is not None
        p.stdout.close()
        assert p.stderr is not None
        assert p.stderr.read() == b""
        assert p.wait(timeout=120) == 0


def test_bad_input_is_one_line_and_exit_code_2() -> None:
    done = run(*RLAUDIT, "summary", "no/such/run")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"rlaudit: no/such/run: no such file or directory.\n"
