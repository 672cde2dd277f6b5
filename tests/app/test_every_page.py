"""Every page, in every view, on the sample logs and on odd ones: nothing fails, and no page is empty.

``EVERY_LOG=1`` (``make pages``) opens them on every sample log and every odd one, and on the logs of
``tests/pain``; without it a few of each kind gate.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from builder import write
from odd_logs import ODD, small, write_odd
from shown import PAGES, SCRIPT, faults, opened, views

from audit.importers import find_runs

SAMPLES = Path(__file__).parents[2] / "sample_logs"
EVERY_LOG = bool(os.environ.get("EVERY_LOG"))
KINDS = ("team/gspo-seed1", "testbed/dapo-seed0", "trl_completions")
LOGS = (
    sorted(each.path.relative_to(SAMPLES).as_posix() for each in find_runs(SAMPLES)) if EVERY_LOG else KINDS
)
PARTNER = "testbed/grpo-seed0"
"""The run that another one is compared with."""
SOME_ODD = (
    *("tier 1", "tier 2", "no old log-probs", "one response", "rewards NaN", "rewards of 1e308"),
    *("all right", "lengths negative"),
)
SLOW = ("report", "sql", "runs")
"""Pages that draw no chart and read every run; on odd logs ``make pages`` alone opens them."""


def all_faults(monkeypatch, root: Path, page: str, *runs: str) -> list[tuple[str, str, list[str]]]:
    at = opened(monkeypatch, root, page, *runs)
    return [(page, view, found) for view in views(at) if (found := faults(at))]


def test_every_page_has_its_title() -> None:
    assert set(PAGES) == {file.stem for file in SCRIPT.parent.glob("app_pages/[a-z]*.py")}


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("page", PAGES)
def test_no_page_fails(monkeypatch, page: str, log: str) -> None:
    runs = (log, PARTNER) if page == "compare" else (log,)
    assert all_faults(monkeypatch, SAMPLES, page, *runs) == []


@pytest.mark.parametrize("log", ODD if EVERY_LOG else SOME_ODD)
def test_no_page_fails_on_an_odd_log(monkeypatch, tmp_path, log: str) -> None:
    write_odd(tmp_path, log)
    (found,) = find_runs(tmp_path)
    if found.error is None:
        write(tmp_path / "sound", small(seed=3), objective={"name": "dr_grpo"})
    for page in PAGES:
        if EVERY_LOG or page not in SLOW:
            runs = (log, "sound") if page == "compare" else (log,)
            assert all_faults(monkeypatch, tmp_path, page, *(runs if found.error is None else ())) == []


def test_numbers_too_large_for_a_slider_are_searched_without(monkeypatch, tmp_path) -> None:
    write_odd(tmp_path, "steps beyond 2^62")
    write_odd(tmp_path, "rewards of 1e308 alone")
    for log, said in (
        ("steps beyond 2^62", "Steps beyond 2^53: no slider."),
        ("rewards of 1e308 alone", "Rewards beyond 1e+12 in size: no slider."),
    ):
        at = opened(monkeypatch, tmp_path, "search", log)
        assert not at.exception
        assert said in [each.value for each in at.caption]
        assert len(at.slider) == 1


def test_a_log_without_a_required_column_is_named_with_it(monkeypatch, tmp_path) -> None:
    write_odd(tmp_path, "column group_id missing")
    at = opened(monkeypatch, tmp_path, "runs")
    shown = "".join(element.proto.body for element in at.get("html"))
    assert "Cannot be read" in [each.value for each in at.subheader]
    assert "needs column &#x27;group_id&#x27;" in shown
    at = opened(monkeypatch, tmp_path, "kl")
    assert [each.value for each in at.info] == [
        "None of the runs in this directory can be read; the page Runs says why."
    ]


@pytest.mark.parametrize("page", ["length", "groups", "clipping", "kl", "tokens", "what_if"])
def test_no_page_names_a_flag_that_it_does_not_have(monkeypatch, tmp_path, page: str) -> None:
    write(tmp_path / "undeclared", small(), objective=None)
    at = opened(monkeypatch, tmp_path, page, "undeclared")
    for _ in views(at):
        said = [each.value for kind in (at.text, at.info, at.warning, at.caption) for each in kind]
        said += [each.proto.body for each in at.get("html")]
        assert not [text for text in said if "--" in text and "rlaudit " not in text]
        assert not [text for text in said if str(tmp_path) in text and text != str(tmp_path)]
