"""Processes are measured as the kernel counts them; numbers are put together as said."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.frameworks import FRAMEWORKS
from bench.page import HEAD, PAGE, Section, keep, sections
from bench.process import Measured, python, run
from bench.sizes import ROOT
from bench.timing import Spread, interleave, net, over, significant


def test_memory_time_and_bytes(tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_bytes(bytes(5_000_000))
    idle = run(python("-c", "import time; time.sleep(0.1)"))
    busy = run(
        python(
            "-c",
            "import sys, time; kept = bytearray(200_000_000); kept = None; "
            "open(sys.argv[1], 'rb').read(); time.sleep(0.3)",
            file,
        )
    )
    assert 199e6 <= busy.peak - idle.peak < 230e6
    assert 5_000_000 <= busy.read - idle.read < 5_500_000
    assert busy.wall > 0.3
    assert idle.cpu > 0


def test_memory_of_children_counts() -> None:
    child = "import time; kept = bytearray(100_000_000); time.sleep(0.5)"
    start = f"[subprocess.Popen([sys.executable, '-c', {child!r}]) for _ in '12']"
    code = f"import subprocess, sys; [started.wait() for started in {start}]"
    assert run(python("-c", code)).peak > 200e6


def test_failure_is_told() -> None:
    with pytest.raises(RuntimeError, match=r"exit code 3: last words"):
        run(python("-c", "import sys; print('last words', file=sys.stderr); sys.exit(3)"))


def measured(wall: float) -> Measured:
    return Measured(wall, wall, 1, 1, "")


def test_interleaving_turns() -> None:
    order: list[str] = []
    tasks = {name: lambda name=name: order.append(name) or measured(1.0) for name in "abc"}
    found = interleave(tasks, 3)
    assert "".join(order) == "abcbcacab"
    assert {name: len(all_of) for name, all_of in found.items()} == {"a": 3, "b": 3, "c": 3}


def test_numbers() -> None:
    assert net([measured(2.0), measured(1.0), measured(4.0)], 0.5) == Spread(1.5, 0.5, 3.5, 3)
    assert over([2.0, 9.0], [1.0, 3.0]) == Spread(2.5, 2.0, 3.0, 2)
    assert Spread(0.01234, 0.01, 12.3456, 3).text() == "0.0123 s (0.0100–12.3)"
    assert [significant(v) for v in (0.1234, 1.234, 12.34, 123.4, 12345.0)] == [
        "0.123",
        "1.23",
        "12.3",
        "123",
        "12,345",
    ]


def test_a_section_is_replaced_in_its_place_and_the_others_stay(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    keep(Section("Sooner", intro="Why.\n\nMeasured by hand, ## not a title."), page)
    keep(Section("Later", ("a", "b"), [["1", "2"]], ["a note"]), page)
    before = sections(page)
    keep(Section("Sooner", intro="Otherwise."), page)
    text = page.read_text()
    assert (
        text.index("## Sooner") < text.index("Otherwise.") < text.index("## Later") < text.index("- a note")
    )
    assert "| a | b |\n|---|---|\n| 1 | 2 |" in text
    assert sections(page)["Later"] == before["Later"]
    assert "Why." not in text
    assert text.count("\n- Measured 2") == 2


def test_the_page_survives_being_read_and_written() -> None:
    held = sections()
    assert len(held) > 5
    assert PAGE.read_text() == "\n".join([HEAD, *held.values()])


def test_frameworks_measured_are_those_of_the_conformance_page() -> None:
    pinned = "".join(path.read_text() for path in (ROOT / "tests" / "conformance").glob("requirements*.txt"))
    for name, title in FRAMEWORKS.items():
        assert f"{name}=={title.split()[1]}" in pinned
