"""``clipping``, ``kl`` and ``mismatch`` from the command line."""

from __future__ import annotations

import json

import pytest

VERBS = ("clipping", "kl", "mismatch")


@pytest.mark.parametrize("verb", VERBS)
def test_json_names_its_contract_and_text_its_run(rlaudit, runs, verb) -> None:
    done = rlaudit(verb, runs / "grpo-1", "--json")
    assert done.code == 0
    assert json.loads(done.out)["schema"] == f"rlaudit.{verb}.v1"
    assert rlaudit(verb, runs / "grpo-1").out.startswith("grpo-1")


def test_an_objective_and_its_changes_are_applied(rlaudit, runs) -> None:
    wide = json.loads(rlaudit("clipping", runs / "grpo-1", "--set", "clip.epsilon_low=0.99", "--json").out)
    own = json.loads(rlaudit("clipping", runs / "grpo-1", "--json").out)
    assert {b["name"]: b["part"] for b in wide["by"]["side"]}["below the band, A < 0"] == 0
    assert {b["name"]: b["part"] for b in own["by"]["side"]}["below the band, A < 0"] > 0
    changed = json.loads(
        rlaudit("kl", runs / "bare", "--objective", "grpo", "--set", "kl.loss.coefficient=0.3", "--json").out
    )
    assert changed["placement"]["coefficient"] == 0.3


def test_a_run_without_an_objective_is_answered_as_far_as_it_goes(rlaudit, runs, tmp_path) -> None:
    clipped = json.loads(rlaudit("clipping", runs / "bare", "--json").out)
    assert clipped["share"] is None
    assert any("--objective" in skip["needs"] for skip in clipped["skipped"])
    empty = rlaudit("clipping", runs / "bare", "-o", tmp_path / "chart.json")
    assert (empty.code, "nothing to draw" in empty.err) == (2, True)
    assert json.loads(rlaudit("kl", runs / "bare", "--json").out)["placement"] is None
    assert rlaudit("mismatch", runs / "bare").code == 0


@pytest.mark.parametrize("verb", VERBS)
def test_a_chart_is_written_and_a_wrong_ending_refused(rlaudit, runs, tmp_path, verb) -> None:
    out = tmp_path / "chart.json"
    drawn = rlaudit(verb, runs / "grpo-1", "-o", out)
    if verb == "mismatch":
        # The sampler's log-probs are not in this log.
        assert (drawn.code, out.exists(), "nothing to draw" in drawn.err) == (2, False, True)
    else:
        assert drawn.code == 0
        assert "vconcat" in json.loads(out.read_text())
    wrong = rlaudit(verb, runs / "grpo-1", "-o", tmp_path / "chart.txt")
    assert wrong.code == 2
    assert ".txt" in wrong.err
