"""One step under two objectives, against a slow loop over its tokens."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict

import pytest
from synthetic import rollouts, write

from audit.analyses.fitted import fitted
from audit.analyses.one_step import LATER_PASS, one_step
from audit.facts.rows import RunRows
from audit.facts.step_rows import step_rows
from audit.facts.weigh import weigh
from audit.objectives.catalogue import named
from audit.objectives.objective import from_dict

PPO = {"kind": "ppo", "epsilon_low": 0.1, "epsilon_high": 0.2}
GRPO = {
    "baseline": {"kind": "group_mean"},
    "scale": {"kind": "group_std", "ddof": 0, "epsilon": 0.0},
    "ratio": {"denominator": "old"},
    "clip": PPO,
    "aggregation": {"kind": "seq-mean-token-mean"},
    "kl": {"loss": {"coefficient": 0.05, "estimator": "k3"}},
}
PLAIN = {
    "baseline": {"kind": "group_mean"},
    "ratio": {"denominator": "old"},
    "aggregation": {"kind": "token-mean"},
}


def slow(rows: list[dict], objective: dict) -> list[dict]:
    """Weights of every token, in plain Python, of GRPO and its like."""
    groups = defaultdict(list)
    for row in rows:
        groups[row["group_id"]].append(row["reward"])
    tokens = sum(row["length"] for row in rows)
    made = []
    for row in rows:
        rewards = groups[row["group_id"]]
        advantage = row["reward"] - statistics.fmean(rewards)
        if objective.get("scale") and len(set(rewards)) > 1:
            advantage /= statistics.pstdev(rewards)
        by_row = objective["aggregation"]["kind"] == "seq-mean-token-mean"
        nu = 1 / (len(rows) * row["length"]) if by_row else 1 / tokens
        policy, kl, zeroed = [], [], 0
        for theta, old, ref in zip(row["logp_theta"], row["logp_old"], row["logp_ref"], strict=True):
            ratio = math.exp(theta - old)
            clip = objective.get("clip")
            gone = bool(clip) and (
                (advantage > 0 and ratio > 1 + clip["epsilon_high"])
                or (advantage < 0 and ratio < 1 - clip["epsilon_low"])
            )
            zeroed += gone
            policy.append(0.0 if gone else nu * advantage * ratio)
            beta = objective.get("kl", {}).get("loss", {}).get("coefficient", 0.0)
            kl.append(-beta * nu * (1 - math.exp(ref - theta)))
        made.append(
            {
                "policy": policy,
                "weight": [p + k for p, k in zip(policy, kl, strict=True)],
                "zeroed": zeroed,
                "advantage": advantage,
                "amount": abs(sum(policy)),
                "length": row["length"],
            }
        )
    return made


@pytest.fixture(scope="module")
def step_and_rows(tmp_path_factory):
    rows = rollouts(steps=2, groups=6, longest=9)
    for row in rows:
        # As float32 stores them.
        for name in ("logp_theta", "logp_old", "logp_ref"):
            row[name] = [float(f"{x:.4g}") for x in row[name]]
    run = write(tmp_path_factory.mktemp("logs") / "run", rows)
    return step_rows(RunRows.read(run), 2), [row for row in rows if row["step"] == 2]


@pytest.fixture(scope="module")
def found(step_and_rows):
    return one_step(step_and_rows[0], from_dict(PLAIN), from_dict(GRPO))


@pytest.fixture(scope="module")
def truth(step_and_rows):
    return slow(step_and_rows[1], PLAIN), slow(step_and_rows[1], GRPO)


def test_distance_and_scale_are_those_of_the_token_weights(found, truth) -> None:
    a, b = ([w for row in side for w in row["weight"]] for side in truth)
    aa, bb, ab = (math.fsum(x * y for x, y in zip(p, q, strict=True)) for p, q in ((a, a), (b, b), (a, b)))
    assert found.distance.value == pytest.approx(1 - ab / math.sqrt(aa * bb), rel=1e-5)
    assert found.scale.value == pytest.approx(math.sqrt(bb / aa), rel=1e-5)
    assert found.distance.low < found.distance.value < found.distance.high
    assert found.distance.n == found.responses == len(truth[0])


def test_shares_removed(found, truth) -> None:
    removed, tokens = sum(row["zeroed"] for row in truth[1]), sum(row["length"] for row in truth[1])
    assert removed > 0
    assert (found.a.zeroed.value, found.tokens) == (0.0, tokens)
    assert found.b.zeroed.value == pytest.approx(removed / tokens)
    assert found.zeroed_change.value == pytest.approx(removed / tokens)
    assert found.zeroed_change.low <= removed / tokens <= found.zeroed_change.high


def test_shares_by_sign_and_length(found, truth) -> None:
    for side, rows in (("a", truth[0]), ("b", truth[1])):
        whole = sum(row["amount"] for row in rows)
        tokens = sum(row["length"] for row in rows)
        for part, sign in zip(found.parts["sign"], (1, -1), strict=True):
            inside = [row for row in rows if sign * row["advantage"] > 0]
            amount = sum(row["amount"] for row in inside)
            assert getattr(part, side).value == pytest.approx(amount / whole, rel=1e-5)
            assert getattr(part, side).n == len(inside)
            per_token = amount / sum(row["length"] for row in inside) / (whole / tokens)
            assert getattr(part, f"per_token_{side}").value == pytest.approx(per_token, rel=1e-5)
        for part in found.parts["length"]:
            low, _, high = part.name.partition("–")
            inside = [row for row in rows if int(low) <= row["length"] <= int(high or low)]
            assert getattr(part, side).value == pytest.approx(
                sum(row["amount"] for row in inside) / whole, rel=1e-5
            )
    for parts in found.parts.values():
        for part in parts:
            assert part.change.value == pytest.approx(part.b.value - part.a.value, abs=1e-12)
        assert sum(part.b.value for part in parts) == pytest.approx(1.0)


def test_difficulty_is_the_success_rate_of_the_group(found, step_and_rows, truth) -> None:
    groups = defaultdict(list)
    for row in step_and_rows[1]:
        groups[row["group_id"]].append(row["reward"])
    rates = {group: statistics.fmean(rewards) for group, rewards in groups.items()}
    counts = {part.name: part.a.n for part in found.parts["difficulty"]}
    inside = {
        "none right": lambda p: p == 0,
        "up to 1/3 right": lambda p: 0 < p <= 1 / 3,
        "up to 2/3 right": lambda p: 1 / 3 < p <= 2 / 3,
        "over 2/3 right": lambda p: 2 / 3 < p < 1,
        "all right": lambda p: p == 1,
    }
    wanted = {
        name: sum(test(rates[row["group_id"]]) for row in step_and_rows[1]) for name, test in inside.items()
    }
    assert counts == {name: n for name, n in wanted.items() if n}


@pytest.mark.parametrize("name", ["kimi", "clip_cov", "kl_cov", "reinforce_pp"])
def test_what_is_weighed_token_by_token_agrees_with_the_weights_themselves(step_and_rows, name) -> None:
    step, _ = step_and_rows
    a, b = (fitted(step.rows, objective)[0] for objective in (from_dict(PLAIN), named(name)))
    one, other = (
        [w for batch in weigh(step.rows, objective) for w in batch.weights.weight.tolist()]
        for objective in (a, b)
    )
    aa, bb, ab = (
        math.fsum(x * y for x, y in zip(p, q, strict=True))
        for p, q in ((one, one), (other, other), (one, other))
    )
    found = one_step(step, a, b)
    assert found.distance.value == pytest.approx(1 - ab / math.sqrt(aa * bb), rel=1e-6)
    assert found.scale.value == pytest.approx(math.sqrt(bb / aa), rel=1e-6)


def test_the_same_objective_twice_is_no_distance(step_and_rows) -> None:
    same = one_step(step_and_rows[0], from_dict(GRPO), from_dict(GRPO))
    assert same.distance.value == pytest.approx(0.0, abs=1e-12)
    assert same.scale.value == pytest.approx(1.0)
    assert all(part.change.value == 0.0 for parts in same.parts.values() for part in parts)


def test_length_pressure_and_betas_belong_to_their_objective(found) -> None:
    assert found.a.pressure.correct.value == pytest.approx(0.0, abs=0.5)
    assert found.b.pressure.correct.value < found.a.pressure.correct.value
    assert found.a.betas == []
    # E sqrt(f (1 - f)) / (p (1 - p)) over the 9 groups of 8 at p = 1/2.
    factor = sum(math.comb(8, k) / 2**8 * math.sqrt(k / 8 * (1 - k / 8)) for k in range(9)) / 0.25
    (beta,) = [at.beta for at in found.b.betas if at.rate == 0.5]
    assert beta == pytest.approx(0.05 / factor)


@pytest.mark.parametrize("epoch", [0, 1])
def test_the_push_on_length_is_a_loop_over_groups_and_a_later_pass_is_said(tmp_path, epoch) -> None:
    rows = [row | {"step": 1 + row["epoch"]} for row in rollouts(steps=1, groups=6, longest=9, epochs=2)]
    rows = [row for row in rows if row["epoch"] <= epoch]
    step = step_rows(RunRows.read(write(tmp_path / "run", rows)), 1 + epoch)
    found = one_step(step, from_dict(PLAIN), from_dict(GRPO))
    rows = [row for row in rows if row["epoch"] == epoch]
    assert (LATER_PASS in found.notes) is bool(epoch)
    for objective, under in ((PLAIN, found.a), (GRPO, found.b)):
        weight = [
            sum(one["policy"]) / row["length"] for one, row in zip(slow(rows, objective), rows, strict=True)
        ]
        sizes = [abs(w) for w in weight if w]
        for side, value in ((1.0, under.pressure.correct), (0.0, under.pressure.wrong)):
            product = degrees = 0.0
            for group in {row["group_id"] for row in rows}:
                of = [i for i, row in enumerate(rows) if (row["group_id"], row["reward"]) == (group, side)]
                if len(of) > 1:
                    mean = statistics.fmean(rows[i]["length"] for i in of)
                    product += sum(weight[i] * (rows[i]["length"] - mean) for i in of)
                    degrees += len(of) - 1
            assert value.value == pytest.approx(
                product / degrees / statistics.fmean(sizes), rel=1e-5, abs=1e-9
            )


def test_what_a_log_lacks_is_taken_out_and_said(tmp_path) -> None:
    rows = rollouts(steps=1, epochs=1)
    for row in rows:
        del row["logp_ref"], row["logp_theta"], row["logp_old"]
    step = step_rows(RunRows.read(write(tmp_path / "run", rows)), 1)
    found = one_step(step, from_dict(GRPO), named("rloo"))
    assert "kl taken out: the log has no logp_ref" in found.notes
    assert "ratio taken out: the log has no logp_theta" in found.notes
    assert found.distance.value > 0


def test_what_is_right_is_decided_by_the_rewards_of_the_whole_run(tmp_path) -> None:
    # The rewards of a run are graded; those of one step happen to be two.
    rows = rollouts(steps=2, epochs=1, groups=2, size=4)
    for at, row in enumerate(rows):
        first = row["step"] == rows[0]["step"]
        alike = row["group_id"] == rows[0]["group_id"]
        row["reward"] = (0.4 if alike else (0.2, 0.4)[at % 2]) if first else (0.0, 0.2, 0.4, 1.0)[at % 4]
    made = RunRows.read(write(tmp_path / "run", rows))
    step = step_rows(made, int(rows[0]["step"]))
    parts = {
        part.name: part for part in one_step(step, from_dict(PLAIN), from_dict(GRPO)).parts["difficulty"]
    }
    # In the group of equal rewards nothing is above its mean, so nothing is known to be right.
    assert "all right" not in parts or parts["all right"].a.n == 0
