"""Runs that declare nothing among those that do: nothing is told of what is not known."""

from __future__ import annotations

import numpy as np
import pytest
from padded_losses import logged as losses
from padded_losses import with_metrics
from synthetic import Rows, centred, rollouts, standardised, with_advantages, write

import audit
from audit.analyses.explain_many import ManyExplanation, explain_many
from audit.facts.rows import RunRows
from audit.facts.weigh import weigh
from audit.objectives.catalogue import named
from audit.objectives.objective import KL, Aggregation, Baseline, LossKL, Objective, Scale

HIDDEN = ("ratio", "clip", "aggregation", "kl")
BY_SEQUENCE = named("grpo").replace(scale=Scale(kind="group_std", ddof=0, epsilon=0.0))
BY_TOKEN = BY_SEQUENCE.replace(aggregation=Aggregation(kind="token-mean"))


def logged(seed: int, make=None) -> Rows:
    return with_advantages(rollouts(seed=seed, steps=4), make or standardised(0, 0.0))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("half")
    return {
        "bare-std": write(root / "bare-std", logged(1)),
        "bare-centred": write(root / "bare-centred", logged(2, centred)),
        "seq": write(root / "seq", logged(3), BY_SEQUENCE.to_dict()),
        "tok": write(root / "tok", logged(4), BY_TOKEN.to_dict()),
    }


@pytest.fixture(scope="module")
def mixed(runs) -> ManyExplanation:
    return explain_many(list(runs.values()))


def slow_distance(runs, one: Objective, other: Objective) -> float:
    """1 - cosine over every token of every run."""
    sides = [
        np.concatenate(
            [batch.weights.weight.numpy() for run in runs for batch in weigh(RunRows.read(run), objective)]
        )
        for objective in (one, other)
    ]
    x, y = (side.astype(np.float64) for side in sides)
    return 1.0 - sum(x * y) / (sum(x * x) * sum(y * y)) ** 0.5


def test_declared_runs_are_split_as_if_the_others_were_not_there(runs, mixed) -> None:
    (split,) = [s for s in mixed.splits if "seq" in s.left]
    assert (split.left, split.right) == (["seq"], ["tok"])
    assert split.height == pytest.approx(slow_distance(runs.values(), BY_SEQUENCE, BY_TOKEN), abs=1e-9)
    assert [(f.field, f.share.value) for f in split.fields] == [("objective.aggregation.kind", 1.0)]
    assert "tok from seq by aggregation 100%" in mixed.verdict.text


def test_what_is_not_known_of_a_run_is_no_distance_no_field_and_no_share(mixed) -> None:
    array = mixed.objective.array()
    assert np.isnan(array[:2, 2:]).all()
    assert np.isfinite(array[:2, :2]).all()
    for split in mixed.splits:
        sides = {*split.left, *split.right}
        assert sides in ({"bare-std", "bare-centred"}, {"seq", "tok"})
        if "bare-std" in sides:
            assert {field.part for field in split.fields} <= {"baseline+scale", "scale", "baseline"}
    needs = {unseen.cause: unseen.needs for unseen in mixed.verdict.not_identifiable}
    assert list(needs) == [f"objective.{part}" for part in HIDDEN]
    assert all(words.endswith("of bare-std and bare-centred") for words in needs.values())
    told = "Not identifiable from these logs: ratio, clip, aggregation, kl of the objective of bare-std"
    assert told in mixed.verdict.text
    why = [s for s in mixed.skipped if s.check.startswith("objective distances of bare-std and bare-centred")]
    assert [s.needs.split(" of ")[0] for s in why] == [", ".join(HIDDEN)]


def test_runs_that_declare_nothing_are_compared_by_their_advantages_alone(runs) -> None:
    bare = [runs["bare-std"], runs["bare-centred"]]
    third = write(bare[0].path.parent / "bare-third", logged(5))
    made = audit.explain_many([run.path for run in (*bare, third)])
    plain = Objective(baseline=Baseline(kind="group_mean"))
    scaled = plain.replace(scale=Scale(kind="group_std", ddof=0, epsilon=0.0))
    array = made.objective.array()
    assert array[0, 1] == pytest.approx(slow_distance([*bare, third], scaled, plain), abs=1e-6)
    assert array[0, 2] == pytest.approx(0.0, abs=1e-6)
    assert {field.part for split in made.splits for field in split.fields} <= {"scale"}
    assert "as far as they are known" in made.verdict.text
    assert "not known of them" in made.objective.note


def test_a_run_that_nothing_can_be_held_against_is_in_no_cluster(runs) -> None:
    made = explain_many([runs["bare-centred"], runs["seq"], runs["tok"]])
    assert [cluster.runs for cluster in made.clusters] == [["seq"], ["tok"]]
    assert "The objective of bare-centred cannot be compared" in made.verdict.text
    pairs = {(pair.a, pair.b): pair for pair in made.pairs}
    assert pairs["bare-centred", "seq"].causes[0] == "objective.scale"
    assert not {f"objective.{part}" for part in HIDDEN} & set(pairs["bare-centred", "seq"].causes)
    assert "objective.ratio" in pairs["bare-centred", "tok"].not_identifiable
    assert not [c for c in pairs["seq", "tok"].not_identifiable if c.startswith("objective.")]


def test_runs_that_declare_everything_have_nothing_unknown(runs) -> None:
    third = write(runs["seq"].path.parent / "third", logged(6), BY_SEQUENCE.to_dict())
    made = explain_many([runs["seq"], runs["tok"], third])
    assert made.verdict.not_identifiable == []
    assert "dentifiable" not in made.verdict.text
    assert np.isfinite(made.objective.array()).all()
    assert made.objective.note == ""
    assert made.verdict.text.startswith("3 runs of 2 configurations. Their objectives form 2 clusters: ")


def test_of_many_runs_one_that_is_in_no_cluster_is_still_explained(runs, tmp_path) -> None:
    more = [
        write(tmp_path / f"{name}-{seed}", logged(seed), objective.to_dict())
        for name, objective in (("seq", BY_SEQUENCE), ("tok", BY_TOKEN))
        for seed in (7, 8, 9)
    ]
    made = explain_many([*more, runs["bare-std"]])
    assert [(pair.a.split("-")[0], pair.b.split("-")[0]) for pair in made.pairs] == [
        ("seq", "tok"),
        ("seq", "bare"),
        ("tok", "bare"),
    ]


def test_what_a_logged_loss_shows_is_known(tmp_path) -> None:
    def trained(name: str, seed: int, declared: Objective | None, loss_type: str):
        rows = with_advantages(rollouts(seed=seed, steps=6), standardised(0, 0.0))
        run = write(tmp_path / name, rows, None if declared is None else declared.to_dict())
        return with_metrics(run, losses(rows, loss_type=loss_type))

    kl = KL(loss=LossKL(coefficient=0.04, estimator="k3"))
    declared = BY_SEQUENCE.replace(kl=kl)
    declared = declared.replace(aggregation=Aggregation(kind="seq-mean-token-mean", scope="micro_batch"))
    trio = [
        trained("shown", 1, None, "grpo"),
        trained("shown-token", 2, None, "bnpo"),
        trained("declared", 3, declared, "grpo"),
    ]
    made = explain_many(trio)
    assert not [u for u in made.verdict.not_identifiable if "aggregation" in u.cause], made.verdict.text
    array = made.objective.array()
    by_token = declared.replace(aggregation=Aggregation(kind="token-mean", scope="micro_batch"))
    assert array[0, 2] == pytest.approx(0.0, abs=1e-6)
    assert array[0, 1] == pytest.approx(slow_distance(trio, declared, by_token), abs=1e-6)
