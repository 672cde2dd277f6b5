"""A declaration that the log contradicts: which fields, and only where the log can tell."""

from __future__ import annotations

import msgspec
import pytest
from synthetic import centred, rollouts, standardised, with_advantages, write

from audit.analyses.contradicted import advantages_in_words, differing
from audit.analyses.explain import explain
from audit.analyses.infer import Inference, infer
from audit.facts.rows import RunRows
from audit.objectives.catalogue import named

GRPO = named("grpo")
DDOF = "only scale.ddof (0 declared, 1 logged) differs; put what was trained into run.json"


@pytest.fixture
def other_ddof(tmp_path) -> Inference:
    run = write(tmp_path / "run", with_advantages(rollouts(), standardised(1, GRPO.scale.epsilon)), "grpo")
    return infer(RunRows.read(run), GRPO)


def test_the_cause_comes_first_then_the_one_field_that_is_declared_wrongly(tmp_path) -> None:
    rows = [with_advantages(rollouts(seed=s), standardised(1, GRPO.scale.epsilon)) for s in (1, 2)]
    by_token = {"name": "grpo", "aggregation": {"kind": "token-mean"}}
    runs = [write(tmp_path / "a", rows[0], "grpo"), write(tmp_path / "b", rows[1], by_token)]
    text = explain(*runs).verdict.text
    assert text.startswith("The two objectives push")
    assert f"The advantages of A and B are not those that they declare: {DDOF}." in text
    one = write(tmp_path / "c", with_advantages(rollouts(seed=2), standardised(0, 0.0)), by_token)
    text = explain(runs[0], one).verdict.text
    assert f"A's advantages are not those that it declares: {DDOF}." in text
    assert "B's advantages" not in text


def test_without_a_cause_the_contradiction_comes_first(tmp_path) -> None:
    rows = with_advantages(rollouts(seed=1), standardised(1, GRPO.scale.epsilon))
    runs = [write(tmp_path / name, rows, "grpo") for name in "ab"]
    assert explain(*runs).verdict.text.startswith(
        f"The advantages of A and B are not those that they declare: {DDOF}"
    )


def test_a_field_is_named_only_where_every_nearest_fit_has_its_value(other_ddof) -> None:
    assert differing(other_ddof, GRPO) == [("scale.ddof", 0, 1)]
    assert differing(other_ddof, None) == []
    best = other_ddof.best
    assert best is not None
    for rival in ({"ddof": GRPO.scale.ddof, "epsilon": 1e-2}, {"scale": "batch_std"}):
        several = [best, msgspec.structs.replace(best, **{"ddof": 1, "epsilon": GRPO.scale.epsilon, **rival})]
        torn = msgspec.structs.replace(other_ddof, equivalent=several)
        found = differing(torn, GRPO)
        assert found == ([] if "epsilon" in rival else [("scale.ddof", 0, 1)])
    odd = msgspec.structs.replace(best, not_counted="rows of length 0")
    assert differing(msgspec.structs.replace(other_ddof, equivalent=[odd]), GRPO) == []


def test_what_is_far_from_the_declaration_is_told_as_a_whole(tmp_path) -> None:
    declared = named("rloo")
    run = write(tmp_path / "run", with_advantages(rollouts(), standardised(1, 1e-4)), "rloo")
    found = infer(RunRows.read(run), declared)
    assert advantages_in_words(found, declared) == "; they fit group_mean / (group_std, ddof 1, + 0.0001)"
    plain = write(tmp_path / "plain", with_advantages(rollouts(), centred), "grpo")
    words = advantages_in_words(infer(RunRows.read(plain), GRPO), GRPO)
    assert words.startswith(": only scale.kind (group_std declared, none logged) differs")
