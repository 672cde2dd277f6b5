"""The scalars that a trainer logs beside its rows: P02 to P06, P20 and P24 of the reports."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

import pytest
from builder import GRPO, Rows, again, by_group, healthy, ids, named, write
from scalars import write_scalars

from audit.analyses.check import Check, check
from audit.logs import open_run

OWN = GRPO | {"kl": {"loss": None}}
LOSS = "loss.aggregation-differs"
REWARD = "reward.metric-differs"


def updates(rows: Rows) -> dict[tuple[int, int], Rows]:
    found: dict[tuple[int, int], Rows] = {}
    for row in rows:
        found.setdefault((row["step"], row["update"]), []).append(row)
    return found


def token_losses(row, beta: float = 0.0) -> list[float]:
    """-min(rho A, clip(rho) A) + beta k3 of each loss token, token by token."""
    found = []
    for t, takes_loss in enumerate(row["loss_mask"]):
        rho = math.exp(row["logp_theta"][t] - row["logp_old"][t])
        d = row["logp_ref"][t] - row["logp_theta"][t]
        bounded = max(min(rho, 1.2), 0.8)
        if takes_loss:
            least = min(rho * row["advantage"], bounded * row["advantage"])
            found.append(beta * (math.exp(d) - d - 1) - least)
    return found


def token_mean(rows: Rows) -> float:
    tokens = [x for row in rows for x in token_losses(row)]
    return sum(tokens) / len(tokens)


def seq_mean(rows: Rows, beta: float = 0.0) -> float:
    return statistics.fmean(statistics.fmean(token_losses(row, beta)) for row in rows)


def slices(rows: Rows) -> list[Rows]:
    found: dict[int, Rows] = {}
    for row in rows:
        found.setdefault(row["micro_batch"], []).append(row)
    return list(found.values())


def sliced(rows: Rows) -> float:
    return statistics.fmean(token_mean(part) for part in slices(rows))


def uneven(**settings) -> Rows:
    """Micro-batches sorted by length, as trainers that balance tokens make them."""
    rows = healthy(**settings)
    for row in rows:
        row["micro_batch"] = min(row["length"] // 11, 3)
    return rows


def logged(
    path, rows: Rows, value: Callable[[Rows], float], aggregation, *, name="loss", objective=OWN
) -> Check:
    own = objective | ({"aggregation": aggregation} if aggregation else {})
    write(path, rows, objective=own)
    write_scalars(path, [(s, u, name, value(part)) for (s, u), part in updates(rows).items()])
    return check(open_run(path))


@pytest.mark.parametrize("size", [8, 5])
def test_token_mean_of_micro_batches(tmp_path, size) -> None:
    rows = uneven(seed=11, size=size)
    found = named(logged(tmp_path / "run", rows, sliced, {"kind": "token-mean"}), LOSS)
    shares = []
    for part in updates(rows).values():
        tokens = [sum(row["length"] for row in held) for held in slices(part)]
        shares.append(max(tokens) / min(tokens))
    assert "it fits the mean over micro-batches of token-mean" in found.summary
    said = f"weigh {statistics.median(shares):.2g}x those in its longest (median; at most {max(shares):.2g}x)"
    assert said in found.summary


def test_the_declared_scope_is_no_defect(tmp_path) -> None:
    rows = uneven(seed=12)
    own = {"kind": "token-mean", "scope": "micro_batch"}
    assert LOSS not in ids(logged(tmp_path / "run", rows, sliced, own))
    assert LOSS not in ids(logged(tmp_path / "other", rows, token_mean, {"kind": "token-mean"}))


def test_a_mean_over_five_steps_in_four_decimals(tmp_path) -> None:
    rows = uneven(seed=13, steps=40)
    for name, value, wrong in (("a", token_mean, False), ("b", sliced, True)):
        write(tmp_path / name, rows, objective=OWN | {"aggregation": {"kind": "token-mean"}})
        of = {key: value(part) for key, part in updates(rows).items()}
        means = [
            (
                last,
                None,
                "loss",
                round(statistics.fmean(v for (s, _), v in of.items() if 0 <= last - s < 5), 4),
            )
            for last in range(5, 41, 5)
        ]
        write_scalars(tmp_path / name, means)
        assert (LOSS in ids(check(open_run(tmp_path / name)))) is wrong


def test_a_denominator_of_other_tokens(tmp_path) -> None:
    rows = healthy(seed=2)
    for row in rows:
        if row["sample_index"] == 0:
            row["loss_mask"] = [False] * row["length"]

    def value(part: Rows) -> float:
        return sum(sum(token_losses(row)) for row in part) / sum(row["length"] for row in part)

    found = named(logged(tmp_path / "run", rows, value, {"kind": "token-mean"}), LOSS)
    every, used = sum(row["length"] for row in rows), sum(sum(row["loss_mask"]) for row in rows)
    assert f"counts {every / used - 1:.0%} more tokens than the loss uses" in found.summary
    assert f"{len(rows) // 8} rows have no loss token" in found.summary


@pytest.mark.parametrize("defect", [False, True])
def test_a_divisor_that_follows_the_longest_response(tmp_path, defect) -> None:
    rows = healthy(seed=15, longest=64)
    for group in by_group(rows):
        mean = statistics.fmean(row["reward"] for row in group)
        for row in group:
            row["advantage"] = row["reward"] - mean

    def value(part: Rows) -> float:
        longest = max(row["length"] for row in part)
        total = sum(sum(token_losses(row)) for row in part)
        return total / longest if defect else total / (len(part) * 64)

    own = {"kind": "seq-mean-token-sum-norm", "constant": 64.0}
    result = logged(tmp_path / "run", rows, value, own, objective={"name": "dr_grpo"})
    if not defect:
        assert LOSS not in ids(result)
        return
    found = named(result, LOSS)
    longest = [max(row["length"] for row in part) for part in updates(rows).values()]
    assert f"The divisor moves from {min(longest)} to {max(longest)} tokens." in found.summary
    assert "The loss grows with the rows, 32 at the median." in found.summary


@pytest.mark.parametrize("declared", ["seq-mean-token-sum", "seq-mean-token-mean"])
def test_an_option_that_was_not_passed_on(tmp_path, declared) -> None:
    found = named(logged(tmp_path / "run", healthy(seed=1), token_mean, {"kind": declared}), LOSS)
    assert found.severity == "warning"
    assert f"The declared aggregation is {declared}, and loss does not fit it" in found.summary
    assert "it fits token-mean" in found.summary


@pytest.mark.parametrize("beta", [0.04, 0.3])
def test_the_kl_belongs_to_the_loss_and_not_to_the_policy_loss(tmp_path, beta) -> None:
    rows = healthy(seed=3, size=6)
    own = GRPO | {"kl": {"loss": {"coefficient": beta, "estimator": "k3"}}}
    whole = logged(tmp_path / "a", rows, lambda part: seq_mean(part, beta), None, objective=own)
    part = logged(tmp_path / "b", rows, seq_mean, None, objective=own, name="actor/pg_loss")
    assert LOSS not in ids(whole) | ids(part)


def test_two_losses_that_are_not_one_number(tmp_path) -> None:
    rows = uneven(seed=6)
    write(tmp_path, rows, objective=OWN | {"aggregation": {"kind": "token-mean"}})
    both = [("loss", token_mean), ("policy_loss", sliced)]
    write_scalars(
        tmp_path, [(s, u, name, f(part)) for (s, u), part in updates(rows).items() for name, f in both]
    )
    found = named(check(open_run(tmp_path)), LOSS)
    assert found.severity == "info"
    assert "policy_loss is another number than the loss that was stepped" in found.summary


def test_a_loss_divided_by_the_accumulation(tmp_path) -> None:
    rows = healthy(seed=7)
    found = named(logged(tmp_path / "run", rows, lambda p: token_mean(p) / 4, {"kind": "token-mean"}), LOSS)
    assert "loss is 0.25 times the loss that the declared aggregation (token-mean) gives" in found.summary


def test_a_loss_of_zero_says_nothing(tmp_path) -> None:
    rows = healthy(seed=8, updates=1)
    result = logged(tmp_path / "run", rows, seq_mean, {"kind": "token-mean"})
    mean = logged(tmp_path / "other", rows, seq_mean, {"kind": "seq-mean-token-mean"})
    assert LOSS not in ids(result) | ids(mean)
    assert "1 update per batch" in named(mean, "ratio.always-one").summary


def test_the_loss_of_an_evaluation_is_another(tmp_path) -> None:
    rows = healthy(seed=9)
    result = logged(tmp_path / "run", rows, token_mean, {"kind": "seq-mean-token-sum"}, name="eval/loss")
    assert LOSS not in ids(result)


def weighted(seed: int = 4) -> Rows:
    rows = healthy(seed=seed, steps=20)
    for row in rows:
        parts = row["reward_components"]
        row["reward"] = 0.7 * parts["accuracy"] + 0.3 * parts["format"]
    return again(rows)


@pytest.mark.parametrize("name", ["reward", "train/reward", "critic/rewards/mean"])
def test_a_mean_reward_without_the_weights(tmp_path, name) -> None:
    rows = weighted()

    def value(part: Rows) -> float:
        return statistics.fmean(sum(row["reward_components"].values()) for row in part)

    found = named(logged(tmp_path / "run", rows, value, None, name=name), REWARD)
    every = [value(part) for part in updates(rows).values()]
    own = [statistics.fmean(row["reward"] for row in part) for part in updates(rows).values()]
    assert f"{name} is the mean of the unweighted sum of reward_components" in found.summary
    said = f"{statistics.fmean(every):.4g} against {statistics.fmean(own):.4g} over 40 logged values"
    assert said in found.summary


def test_a_mean_reward_of_other_rows(tmp_path) -> None:
    rows = weighted(5)
    result = logged(
        tmp_path / "run", rows, lambda p: statistics.fmean(r["reward"] for r in p) - 0.2, None, name="reward"
    )
    found = named(result, REWARD)
    assert found.severity == "info"
    assert "below the mean of the logged rewards nearly always" in found.summary


@pytest.mark.parametrize("name", ["reward", "eval/reward"])
def test_the_mean_reward_itself_is_no_defect(tmp_path, name) -> None:
    rows = weighted(6)
    shift = 0.3 if name.startswith("eval") else 0.0
    result = logged(
        tmp_path / "run", rows, lambda p: statistics.fmean(r["reward"] for r in p) - shift, None, name=name
    )
    assert REWARD not in ids(result)


def test_one_ratio_per_response_is_one_term_of_the_loss(tmp_path) -> None:
    rows = healthy(seed=10)
    own = {"name": "rloo", "ratio": {"denominator": "old", "level": "product"}, "kl": {"reward": None}}
    for group in by_group(rows):
        total = sum(row["reward"] for row in group)
        for row in group:
            row["advantage"] = row["reward"] - (total - row["reward"]) / (len(group) - 1)

    def value(part: Rows) -> float:
        found = []
        for row in part:
            rho = math.exp(sum(row["logp_theta"]) - sum(row["logp_old"]))
            a = row["advantage"]
            found.append(-min(rho * a, max(min(rho, 1.2), 0.8) * a))
        return statistics.fmean(found)

    assert LOSS not in ids(logged(tmp_path / "run", rows, value, None, objective=own))
