"""Explain on pairs of runs whose only difference is known."""

from __future__ import annotations

import random

import pytest
from synthetic import centred, rollouts, standardised, with_advantages, write

from audit.analyses.explain import explain
from audit.analyses.findings import CAUSES
from audit.objectives.catalogue import named

GRPO = named("grpo").to_dict()


def pair(tmp_path, a, b, rows_a=None, rows_b=None, **manifest):
    first = write(tmp_path / "a", rollouts(seed=1) if rows_a is None else rows_a, a, **manifest)
    second = write(tmp_path / "b", rollouts(seed=2) if rows_b is None else rows_b, b, **manifest)
    return explain(first, second)


def ids(explanation) -> list[str]:
    return [cause.id for cause in explanation.verdict.causes]


def by_text(prompt: str, text: str, _: random.Random) -> float:
    return float(sum(map(ord, prompt + text)) % 3 == 0)


def test_two_seeds_of_one_objective_have_no_cause(tmp_path) -> None:
    for seed in range(3):
        rows = [rollouts(seed=10 * seed + side, reward=by_text, prompts=5) for side in (1, 2)]
        found = pair(tmp_path / str(seed), "grpo", "grpo", *rows, config={"learning_rate": 1e-6})
        assert ids(found) == []
        assert "seed noise" in found.verdict.text
        assert found.declared.differs == []
        assert found.effects == []


def test_a_baseline_and_the_scale_that_belongs_to_it_have_one_share(tmp_path) -> None:
    found = pair(tmp_path, "rloo", "pass_at_k")
    (cause,) = [cause for cause in found.verdict.causes if cause.id == "objective.baseline"]
    assert cause.share > 0
    assert "pass_at_k_std" in cause.summary
    assert "objective.scale" not in ids(found)


def test_a_shaping_that_was_not_logged_leaves_the_rest_of_the_comparison(tmp_path) -> None:
    found = pair(tmp_path, "grpo", "gdpo", *(with_advantages(rollouts(seed=s), centred) for s in (1, 2)))
    assert found.inferred.b.status == "skipped"
    assert "reward_components" in found.inferred.b.reason
    assert "objective.shaping" in ids(found)


def test_aggregation_and_scale_are_named_with_shares_that_sum_to_the_whole(tmp_path) -> None:
    b = GRPO | {"name": "ours", "scale": {"kind": "none"}, "aggregation": {"kind": "token-mean"}}
    found = pair(tmp_path, "grpo", b)
    assert set(ids(found)) == {"objective.aggregation", "objective.scale"}
    assert sum(cause.share for cause in found.verdict.causes) == pytest.approx(1.0, abs=1e-9)
    assert all(cause.low <= cause.share <= cause.high for cause in found.verdict.causes)
    shares = [cause.share for cause in found.verdict.causes]
    assert shares == sorted(shares, reverse=True)
    assert [tuple(effect.on) for effect in found.effects] == [("a",), ("b",), ("a", "b")]
    for effect in found.effects:
        total = sum(part.distance.value for part in effect.parts)
        assert total == pytest.approx(effect.distance.value, abs=1e-12)


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("baseline", {"kind": "none"}),
        ("scale", {"kind": "none"}),
        ("ratio", {"denominator": "theta"}),
        ("clip", {"kind": "none"}),
        ("aggregation", {"kind": "seq-mean-token-sum"}),
        ("kl", {"loss": {"coefficient": 2.0}}),
        ("shaping", {"overlong": {"max_length": 20, "cache": 10}}),
        ("filter", {"mask_truncated": True}),
    ],
)
def test_each_part_alone_is_the_only_cause(tmp_path, part: str, change: dict) -> None:
    b = {"name": "grpo", part: change}
    found = pair(tmp_path, "grpo", b)
    assert ids(found) == [f"objective.{part}"]
    assert found.verdict.causes[0].share == pytest.approx(1.0)


def test_a_constant_factor_is_called_a_learning_rate(tmp_path) -> None:
    a = named("rloo").to_dict()
    found = pair(tmp_path, a, {"name": "rloo", "baseline": {"kind": "group_mean"}})
    assert ids(found) == ["objective.baseline"]
    (cause,) = found.verdict.causes
    assert cause.share == 0.0
    assert cause.evidence["scale_factor"] == pytest.approx(7 / 8)
    assert "learning rate" in cause.summary


def test_a_declared_difference_without_effect_is_no_cause(tmp_path) -> None:
    rows = [rollouts(seed=s, epochs=1, reward=by_text) for s in (1, 2)]
    b = {"name": "grpo", "clip": {"epsilon_low": 0.1, "epsilon_high": 0.28}}
    found = pair(tmp_path, "grpo", b, *rows)
    assert ids(found) == []
    assert {row.field for row in found.declared.differs} == {"clip.epsilon_low", "clip.epsilon_high"}
    assert "same weight" in found.verdict.text


def test_what_the_log_shows_beats_what_run_json_says(tmp_path) -> None:
    rows_a = with_advantages(rollouts(seed=1), standardised(0, 0.0))
    rows_b = with_advantages(rollouts(seed=2), centred)
    found = pair(tmp_path, "grpo", "grpo", rows_a, rows_b)
    assert found.declared.differs == []
    assert found.inferred.b.agrees is False
    assert ids(found) == ["objective.scale"]
    assert found.verdict.causes[0].confidence < 0.9
    assert "not those that it declares" in found.verdict.text


def test_blind_runs_are_compared_by_what_their_advantages_show(tmp_path) -> None:
    rows_a = with_advantages(rollouts(seed=1), standardised(1, 1e-6))
    rows_b = with_advantages(rollouts(seed=2), centred)
    found = pair(tmp_path, None, None, rows_a, rows_b)
    assert ids(found) == ["objective.scale"]


def test_kl_that_one_log_cannot_carry_is_compared_on_the_other(tmp_path) -> None:
    without = [{k: v for k, v in row.items() if k != "logp_ref"} for row in rollouts(seed=2)]
    found = pair(tmp_path, "grpo", {"name": "grpo", "kl": {"loss": None}}, None, without)
    assert ids(found) == ["objective.kl"]
    assert [effect.on for effect in found.effects] == [["a"]]
    assert "logp_ref" in [skip.needs for skip in found.skipped]


def test_group_size_budget_and_optimiser_are_named(tmp_path) -> None:
    rows_b = rollouts(seed=2, size=4, groups=8, longest=12)
    a = write(tmp_path / "a", rollouts(seed=1), "grpo", config={"learning_rate": 1e-6, "temperature": 1.0})
    b = write(tmp_path / "b", rows_b, "grpo", config={"learning_rate": 3e-6, "temperature": 0.7})
    found = explain(a, b)
    assert {"data.group_size", "data.truncation", "optimiser", "sampling.temperature"} <= set(ids(found))
    assert set(ids(found)) <= set(CAUSES)


def test_same_text_with_another_reward_is_named(tmp_path) -> None:
    def stricter(prompt: str, text: str, rng: random.Random) -> float:
        return by_text(prompt, text, rng) * float(text[0] != "a")

    rows = [rollouts(seed=s, longest=3, reward=r) for s, r in ((1, by_text), (2, stricter))]
    found = pair(tmp_path, "grpo", "grpo", *rows)
    assert "data.reward" in ids(found)
    cause = next(c for c in found.verdict.causes if c.id == "data.reward")
    assert 0 < cause.evidence["changed"] < cause.evidence["texts"]


def test_a_noisy_reward_is_not_a_changed_one(tmp_path) -> None:
    def noisy(prompt: str, text: str, rng: random.Random) -> float:
        return float(rng.random() < 0.5)

    rows = [rollouts(seed=s, longest=2, epochs=1, reward=noisy, steps=40, prompts=3) for s in (1, 2)]
    assert "data.reward" not in ids(pair(tmp_path, "grpo", "grpo", *rows))


def test_another_prompt_mix_is_named(tmp_path) -> None:
    found = pair(tmp_path, "grpo", "grpo", rollouts(seed=1, steps=30), rollouts(seed=2, steps=30, prompts=4))
    assert "data.prompts" in ids(found)


def test_another_reference_is_named(tmp_path) -> None:
    rows = [rollouts(seed=1, longest=3, reference_shift=s, reward=by_text, epochs=1) for s in (0.0, -0.4)]
    found = pair(tmp_path, "grpo", "grpo", *rows)
    assert ids(found) == ["model.reference"]


def test_logs_without_tokens_are_compared_as_far_as_they_go(tmp_path) -> None:
    keep = ("step", "prompt_id", "group_id", "sample_index", "reward")
    rows = [[{k: row[k] for k in keep} for row in rollouts(seed=s, epochs=1)] for s in (1, 2)]
    found = pair(tmp_path, "grpo", "dr_grpo", *rows)
    assert {row.field for row in found.declared.differs} >= {"scale.kind", "aggregation.kind"}
    assert found.effects == []
    assert any("length" in skip.needs for skip in found.skipped)
    assert "seed noise" not in found.verdict.text


def test_what_was_not_compared_is_not_called_noise(tmp_path) -> None:
    rows = [rollouts(seed=s, reward=by_text) for s in (1, 2)]
    found = pair(tmp_path, None, None, *rows)
    assert ids(found) == []
    assert "seed noise" not in found.verdict.text
    assert "skipped" in found.verdict.text


def test_a_part_whose_share_may_be_nothing_is_no_cause(tmp_path) -> None:
    # ddof changes the advantages by one common factor, and so moves no direction: only the scale is left.
    found = pair(tmp_path, "grpo", {"name": "grpo", "scale": {"ddof": 1}, "kl": {"loss": None}})
    for cause in found.verdict.causes:
        assert cause.share == 0.0 or cause.low > 0 or cause.high < 0


def test_outcomes_are_compared_over_the_steps_that_both_runs_have(tmp_path) -> None:
    long = [row | {"reward": float(row["step"] > 10)} for row in rollouts(seed=1, steps=30)]
    short = [row | {"reward": 0.0} for row in rollouts(seed=2, steps=5)]
    found = pair(tmp_path, "grpo", "grpo", long, short)
    (reward,) = [effect for effect in found.outcomes if effect.name == "reward"]
    assert (reward.a, reward.b) == (0.0, 0.0)
    assert "up to step 10" in reward.note


def test_few_prompts_are_said_where_outcomes_are_compared(tmp_path) -> None:
    rows = [rollouts(seed=s, prompts=4, reward=by_text) for s in (1, 2)]
    found = pair(tmp_path, "grpo", "grpo", *rows)
    assert all("only 4 prompts" in effect.note for effect in found.outcomes)


def test_nearly_the_same_direction_is_not_called_different(tmp_path) -> None:
    found = pair(tmp_path, "grpo", {"name": "grpo", "clip": {"epsilon_low": 0.25, "epsilon_high": 0.25}})
    assert "push nearly one way" in found.verdict.text


def test_a_log_against_itself_is_the_same_log(tmp_path) -> None:
    run = write(tmp_path / "a", rollouts(seed=1), "grpo")
    found = explain(run, run)
    assert ids(found) == []
    assert "same log" in found.verdict.text


def test_parts_that_only_make_sense_together_are_swapped_together(tmp_path) -> None:
    rows = [with_advantages(rollouts(seed=s), standardised(0, 0.0)) for s in (1, 2)]
    found = pair(tmp_path, "grpo", "ppo", *rows)
    named_parts = [part.part for part in found.effects[-1].parts]
    assert "baseline+scale" in named_parts
    assert "scale" not in named_parts
    # The advantages are the same whether logged or recomputed: the tie moves nothing.
    (tie,) = [part for part in found.effects[-1].parts if part.part == "baseline+scale"]
    assert tie.distance.value == pytest.approx(0.0, abs=1e-6)
    assert not {"objective.baseline", "objective.scale"} & set(ids(found))
