"""What logged scalars say of the objective, on losses that padded tensors made."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from padded_losses import BUDGET, Rows, logged, with_metrics
from synthetic import rollouts, standardised, with_advantages, write

from audit.analyses.explain import explain
from audit.analyses.infer_metrics import infer_metrics
from audit.analyses.loss_inference import LossInference
from audit.facts.declared import declared_objective, read_objective
from audit.facts.rows import RunRows
from audit.logs import Run, open_run
from audit.logs.metrics import read_metrics

SAMPLES = Path(__file__).parents[2] / "sample_logs" / "team"


def by_text(prompt: str, text: str, _: random.Random) -> float:
    return float(sum(map(ord, prompt + text)) % 3 == 0)


def made(seed: int, **settings) -> Rows:
    rows = rollouts(seed=seed, steps=6, reward=by_text, longest=12, **settings)
    return with_advantages(rows, standardised(1, 1e-4))


def run_of(tmp_path, name: str, seed: int = 1, *, rows=None, declared=None, keep=None, **options) -> Run:
    """A run and the metrics that its loss makes; ``keep`` names those that are logged."""
    rows = made(seed) if rows is None else rows
    metrics = logged(rows, **options)
    if keep is not None:
        metrics = {step: {k: v for k, v in m.items() if k in keep} for step, m in metrics.items()}
    return with_metrics(write(tmp_path / name, rows, declared), metrics)


def inferred(run: Run, declared=None) -> LossInference:
    return infer_metrics(RunRows.read(run), read_metrics(run), declared)


def words(found: LossInference, part: str) -> set[str]:
    return {fit.describe(part) for fit in found.options(part)}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {},
            {
                "ratio": "token ratio",
                "aggregation": "seq-mean-token-mean per micro-batch",
                "kl": "k3, beta 0.04",
            },
        ),
        ({"loss_type": "bnpo"}, {"aggregation": "token-mean per micro-batch"}),
        ({"loss_type": "dapo"}, {"aggregation": "token-mean per update"}),
        ({"loss_type": "dr_grpo"}, {"aggregation": f"seq-mean-token-sum-norm {BUDGET} per micro-batch"}),
        ({"loss_type": "luspo"}, {"aggregation": "seq-mean-token-sum per micro-batch"}),
        ({"loss_type": "padded"}, {"aggregation": "seq-mean-token-sum-norm of the longest per micro-batch"}),
        ({"level": "sequence", "low": 0.05, "high": 0.1}, {"ratio": "sequence ratio", "kl": "k3, beta 0.04"}),
        ({"beta": 0.0}, {"kl": "no KL in the loss"}),
        ({"kl": "k2", "beta": 0.1}, {"kl": "k2, beta 0.1"}),
        ({"kl": "k1", "beta": 0.3}, {"kl": "k1, beta 0.3"}),
    ],
)
def test_a_padded_loss_is_recognised(tmp_path, options: dict, expected: dict[str, str]) -> None:
    found = inferred(run_of(tmp_path, "a", **options))
    assert found.status == "fits"
    assert found.n == 12
    for part, phrase in expected.items():
        assert phrase in words(found, part)
    # One kind is told; with as many rows in every micro-batch, a sum and a mean over rows are one.
    kinds = {fit.part("aggregation").kind for fit in found.options("aggregation")}
    assert kinds - {"token-sum-norm"} == {found.best.part("aggregation").kind}
    for part in ("ratio", "clip", "kl"):
        assert len(found.options(part)) == 1
    clip = found.options("clip")[0].part("clip")
    assert (clip.epsilon_low, clip.epsilon_high) == (options.get("low", 0.2), options.get("high", 0.2))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rloo", ("product ratio", "seq-mean-token-sum", "no KL in the loss")),
        ("gspo", ("sequence ratio", "seq-mean-token-mean", "no KL in the loss")),
        ("cispo", ("token ratio", "token-mean", "no KL in the loss")),
        ("dapo", ("token ratio", "token-mean", "no KL in the loss")),
        ("dr-grpo", ("token ratio", "seq-mean-token-sum-norm", "k3, beta 0.04")),
    ],
)
def test_losses_of_the_framework_itself_are_recognised(name: str, expected: tuple[str, ...]) -> None:
    """The sample runs were trained with TRL, which logged what its own code computed."""
    run = open_run(SAMPLES / f"{name}-seed1")
    declared = declared_objective(run)
    assert declared is not None
    assert inferred(run, declared.objective).agrees is True
    found = inferred(run)
    assert found.n == 120
    assert words(found, "ratio") == {expected[0]}
    assert found.best.part("aggregation").kind == expected[1]
    assert words(found, "kl") == {expected[2]}
    options = [fit.part("clip") for fit in found.options("clip")]
    assert declared.objective.clip in options
    # No ratio came near CISPO's cap of 5: its loss cannot show where the cap is.
    assert (len(options) > 1) == (name == "cispo")


@pytest.mark.parametrize("loss_type", ["grpo", "cispo"])
def test_without_clip_fractions_the_loss_itself_shows_the_clip(tmp_path, loss_type: str) -> None:
    high = {"grpo": 0.28, "cispo": 0.3}[loss_type]
    run = run_of(tmp_path, "a", keep={"loss"}, loss_type=loss_type, high=high)
    found = inferred(run)
    assert found.status == "fits"
    kinds = {type(fit.part("clip")).__name__ for fit in found.options("clip")}
    assert kinds == {"PPOClip" if loss_type == "grpo" else "CISPOClip"}
    assert {fit.part("clip").epsilon_high for fit in found.options("clip")} == {high}


def test_the_interval_of_epsilon_is_what_counting_gives(tmp_path) -> None:
    rows = made(3)
    found = inferred(run_of(tmp_path, "a", rows=rows, keep={"clip_ratio/low_mean", "clip_ratio/high_mean"}))
    assert found.status == "partial"
    assert found.reason == "needs the loss of every step in metrics/"
    (reading,) = found.clip
    assert reading.level == "token"
    truth = logged(rows)
    ends = {end for bound in (reading.low, reading.high) for end in (bound.low, bound.high)}
    for epsilon in sorted({end + step for end in ends for step in (-2e-3, -2e-4, 2e-4, 2e-3)} | {0.2}):
        counts = logged(rows, low=epsilon, high=epsilon)
        for side, bound in (("low", reading.low), ("high", reading.high)):
            name = f"clip_ratio/{side}_mean"
            same = all(counts[u][name] == pytest.approx(truth[u][name], abs=1e-7) for u in truth)
            near = min(abs(epsilon - bound.low), abs(epsilon - bound.high))
            # At an end itself float32 rounding decides.
            assert near < 1e-4 or same == bound.holds(epsilon)


def test_scalars_rounded_or_logged_now_and_then_still_fit(tmp_path) -> None:
    rows = made(4)
    every = logged(rows)
    rounded = {u: {"loss": round(m["loss"], 4)} for u, m in every.items()}
    found = inferred(with_metrics(write(tmp_path / "rounded", rows), rounded))
    assert "seq-mean-token-mean per update" in words(found, "aggregation")
    assert "token-mean per update" not in words(found, "aggregation")
    means = {u: {"loss": (every[u - 1]["loss"] + every[u]["loss"]) / 2} for u in every if u % 2 == 0}
    found = inferred(with_metrics(write(tmp_path / "means", rows), means))
    assert (found.status, found.n) == ("fits", 6)
    assert words(found, "kl") == {"k3, beta 0.04"}


def test_a_loss_of_other_advantages_fits_nothing(tmp_path) -> None:
    rows = made(5)
    metrics = logged(rows)
    spoiled = [row | {"advantage": -row["advantage"] * (1 + row["sample_index"])} for row in rows]
    found = inferred(
        with_metrics(write(tmp_path / "a", spoiled), {u: {"loss": m["loss"]} for u, m in metrics.items()})
    )
    assert found.status == "none_fits"
    assert "the closest" in found.reason
    assert found.options("aggregation") == []


def test_rounded_log_probs_contradict_no_clip(tmp_path) -> None:
    rows = made(3)
    metrics = logged(rows)
    coarse = [
        row
        | {f"logp_{p}": torch.tensor(row[f"logp_{p}"]).bfloat16().tolist() for p in ("theta", "old", "ref")}
        for row in rows
    ]
    declared = read_objective("grpo")
    found = inferred(with_metrics(write(tmp_path / "a", coarse), metrics), declared)
    assert found.status == "none_fits"
    assert found.agrees is None
    fractions = {u: {k: v for k, v in m.items() if k != "loss"} for u, m in metrics.items()}
    for epsilon, agrees in ((0.205, True), (0.1, False)):
        clip = {"kind": "ppo", "epsilon_low": epsilon, "epsilon_high": epsilon}
        other = read_objective({"name": "grpo", "clip": clip})
        found = inferred(with_metrics(write(tmp_path / str(epsilon), rows), fractions), other)
        assert found.status == "partial"
        assert found.agrees is agrees


def test_a_common_factor_is_noted_and_no_other_objective(tmp_path) -> None:
    rows = made(6)
    halved = {u: {"loss": m["loss"] / 2} for u, m in logged(rows).items()}
    found = inferred(with_metrics(write(tmp_path / "a", rows), halved), read_objective("grpo"))
    assert found.status == "fits"
    assert found.agrees is True
    assert "0.5 times" in found.notes[0]


def test_what_the_log_cannot_show_contradicts_nothing(tmp_path) -> None:
    clip = {"kind": "ppo", "epsilon_low": 0.2, "epsilon_high": 0.2, "dual": 3.0}
    declared = read_objective({"name": "grpo", "clip": clip})
    assert inferred(run_of(tmp_path, "a"), declared).agrees is True
    rows = made(9)
    policy_only = {u: {"actor/pg_loss": m["loss"]} for u, m in logged(rows, beta=0.0).items()}
    found = inferred(with_metrics(write(tmp_path / "b", rows), policy_only), declared)
    assert found.open == ["kl"]
    assert found.agrees is True


def test_the_clip_is_not_told_where_nothing_moved(tmp_path) -> None:
    found = inferred(run_of(tmp_path, "a", rows=made(7, epochs=1)))
    assert found.open == ["ratio", "clip"]
    assert found.options("ratio") == []
    assert words(found, "kl") == {"k3, beta 0.04"}


def test_logged_scalars_that_are_not_what_their_name_says(tmp_path) -> None:
    rows = made(8)
    for row in rows:
        row["reward_components"] = {"right": row["reward"], "short": float(row["length"] < 6)}
    metrics = logged(rows, kl="k1", beta=0.1)
    for update, scalars in metrics.items():
        mine = [
            sum(row["reward_components"].values())
            for row in rows
            if row["update"] == update and row["epoch"] == 0
        ]
        if mine:
            scalars["reward"] = sum(mine) / len(mine)
    notes = inferred(with_metrics(write(tmp_path / "a", rows), metrics)).notes
    assert any("unweighted sum" in note for note in notes)
    assert any("kl is k1" in note for note in notes)


def test_the_config_says_one_aggregation_and_the_log_fits_another(tmp_path) -> None:
    sums = {
        "name": "grpo",
        "scale": {"ddof": 1, "epsilon": 1e-4},
        "aggregation": {"kind": "seq-mean-token-sum"},
    }
    a = run_of(tmp_path, "a", 1, declared=sums, loss_type="luspo")
    b = run_of(tmp_path, "b", 2, declared=sums, loss_type="dapo")
    found = explain(a, b)
    assert found.inferred.metrics.a.agrees is True
    assert found.inferred.metrics.b.agrees is False
    (said,) = found.inferred.metrics.b.contradictions
    assert said == "aggregation: declared seq-mean-token-sum per update, the log fits token-mean per update"
    assert said in found.verdict.text
    assert [cause.id for cause in found.verdict.causes] == ["objective.aggregation"]
    assert found.verdict.causes[0].confidence == 0.75


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({}, None),
        ({"loss_type": "bnpo"}, "objective.aggregation"),
        ({"level": "sequence"}, "objective.ratio"),
        ({"low": 0.02, "high": 0.02}, "objective.clip"),
        ({"beta": 0.5}, "objective.kl"),
    ],
)
def test_a_part_of_blind_runs_is_named_with_its_share(tmp_path, changes: dict, cause: str | None) -> None:
    # Which of the two is A changes nothing.
    runs = [run_of(tmp_path, "a", 1), run_of(tmp_path, "b", 2, **changes)]
    found = explain(*(runs if "level" in changes else runs[::-1]))
    assert [c.id for c in found.verdict.causes] == ([] if cause is None else [cause])
    if cause is not None:
        assert found.verdict.causes[0].share == pytest.approx(1.0)
    assert not [u for u in found.verdict.not_identifiable if u.cause.startswith("objective.")]


def test_blind_runs_without_scalars_say_what_would_show_each_part(tmp_path) -> None:
    runs = [
        write(tmp_path / name, [{k: v for k, v in row.items() if k != "loss_mask"} for row in made(seed)])
        for name, seed in (("a", 1), ("b", 2))
    ]
    found = explain(*runs)
    needs = {unseen.cause: unseen.needs for unseen in found.verdict.not_identifiable}
    assert (
        needs["objective.aggregation"]
        == "loss in metrics/, or an objective or config in run.json, of a and b"
    )
    assert needs["objective.filter"].startswith("loss_mask, or loss in metrics/")
    assert needs["optimiser"] == "learning_rate in metrics/, or config in run.json, of a and b"
    assert {"objective.ratio", "objective.clip", "objective.kl"} <= needs.keys()
    assert found.verdict.causes == []
    said = "Not identifiable from these logs: filter, ratio, clip, aggregation, kl of the objective; "
    assert said in found.verdict.text


def test_one_declared_run_leaves_the_other_to_be_shown(tmp_path) -> None:
    declared = {"name": "grpo", "scale": {"ddof": 1, "epsilon": 1e-4}}
    a, b = write(tmp_path / "a", made(1), declared), write(tmp_path / "b", made(2))
    needs = {unseen.cause: unseen.needs for unseen in explain(a, b).verdict.not_identifiable}
    assert needs["objective.kl"].endswith("of b")
    shown = run_of(tmp_path, "c", 3, loss_type="dapo")
    found = explain(a, shown)
    assert [cause.id for cause in found.verdict.causes] == ["objective.aggregation"]


def test_logged_learning_rates_are_compared(tmp_path) -> None:
    runs = []
    for name, seed, rate in (("a", 1, 1e-4), ("b", 2, 3e-4), ("c", 3, 1e-4)):
        rows = made(seed)
        runs.append(
            with_metrics(write(tmp_path / name, rows), {u: {"learning_rate": rate} for u in range(1, 13)})
        )
    found = explain(*runs[:2])
    (cause,) = found.verdict.causes
    assert cause.id == "optimiser"
    assert cause.evidence["learning_rate"] == [1e-4, 3e-4]
    same = explain(runs[0], runs[2])
    assert same.verdict.causes == []
    assert "optimiser" not in {unseen.cause for unseen in same.verdict.not_identifiable}
