"""KL estimators on sampled tokens against the exact KL: which are unbiased, from whose samples."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from testbed_small import SMALL, log_probability, random_policy, spelled_out

from audit.objectives.kl import kl_value
from audit.testbed import exact
from audit.testbed.sampling import sample

DRAWS = 1000


@pytest.fixture(scope="module")
def policies() -> dict[str, torch.Tensor]:
    """Old and new policy a little apart, and the reference; shape (1, P, S, V)."""
    old = random_policy(SMALL, 11)
    theta = (0.7 * old.masked_fill(old == -torch.inf, 0.0) + 0.5 * random_policy(SMALL, 12)).log_softmax(-1)
    return {"old": old, "theta": theta, "ref": SMALL.reference[None]}


def drawn(policies: dict[str, torch.Tensor], source: str, draws: int, seed: int):
    """Draw ``draws`` responses to the first prompt; log-probs of their tokens under each policy."""
    uniforms = torch.rand(
        (1, SMALL.prompts, draws, SMALL.budget),
        generator=torch.Generator().manual_seed(seed),
        dtype=torch.float64,
    )
    made = sample(SMALL, policies[source], uniforms)
    return made, {name: made.at_tokens(table) for name, table in policies.items()}


def mean_and_error(made, per_token: torch.Tensor) -> tuple[float, float]:
    """Mean over the responses to the first prompt of the sum over tokens, and its standard error."""
    total = made.layout.sum(per_token)[made.prompt == 0]
    return float(total.mean()), float(total.std()) / math.sqrt(len(total))


def through(policies: dict[str, torch.Tensor], whose: str) -> torch.Tensor:
    return exact.reach(SMALL, policies[whose])[0][0, 0]


def kl_per_prefix(policies: dict[str, torch.Tensor], a: str, b: str) -> torch.Tensor:
    p, q = policies[a][0, 0], policies[b][0, 0]
    return (p.exp() * torch.where(p == -torch.inf, 0.0, p - q)).sum(-1)


@pytest.mark.parametrize("source", ["old", "theta"])
@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_on_their_own_samples(policies, source: str, estimator: str) -> None:
    made, log = drawn(policies, source, DRAWS, seed=21)
    mean, error = mean_and_error(made, kl_value(log[source] - log["ref"], estimator))
    assert abs(mean - float(exact.kl(SMALL, policies[source], policies["ref"])[0, 0])) < 3 * error


def test_k2_is_biased_on_its_own_samples(policies) -> None:
    made, log = drawn(policies, "theta", 20 * DRAWS, seed=22)
    mean, error = mean_and_error(made, kl_value(log["theta"] - log["ref"], "k2"))
    assert abs(mean - float(exact.kl(SMALL, policies["theta"], policies["ref"])[0, 0])) > 5 * error


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_ratio_times_k_is_unbiased_at_the_prefixes_of_the_old_policy(policies, estimator: str) -> None:
    """A token's ratio corrects the token; the prefixes it stands after stay those of the old policy."""
    made, log = drawn(policies, "old", DRAWS, seed=23)
    ratio = (log["theta"] - log["old"]).exp()
    mean, error = mean_and_error(made, ratio * kl_value(log["theta"] - log["ref"], estimator))
    target = float(through(policies, "old") @ kl_per_prefix(policies, "theta", "ref"))
    assert abs(mean - target) < 3 * error


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_the_ratio_of_the_prefix_gives_the_whole_kl(policies, estimator: str) -> None:
    made, log = drawn(policies, "old", DRAWS, seed=24)
    bounds = made.layout.offsets.tolist()
    move = log["theta"] - log["old"]
    ratio = torch.cat([move[a:b].cumsum(0) for a, b in pairwise(bounds)]).exp()
    mean, error = mean_and_error(made, ratio * kl_value(log["theta"] - log["ref"], estimator))
    assert abs(mean - float(exact.kl(SMALL, policies["theta"], policies["ref"])[0, 0])) < 3 * error


def test_k3_on_samples_of_the_old_policy_is_biased_and_its_corrected_form_is_not(policies) -> None:
    made, log = drawn(policies, "old", 20 * DRAWS, seed=25)
    k3 = kl_value(log["theta"] - log["ref"], "k3")
    target = float(through(policies, "old") @ kl_per_prefix(policies, "theta", "ref"))
    plain, error = mean_and_error(made, k3)
    corrected, corrected_error = mean_and_error(made, (log["theta"] - log["old"]).exp() * k3)
    assert abs(corrected - target) < 3 * corrected_error
    assert abs(plain - target) > 10 * error
    # And it is off by what enumeration says, which no number of draws removes.
    expected = 0.0
    for y in spelled_out(SMALL):
        chance = math.exp(float(log_probability(SMALL, policies["old"][0, 0], y)))
        for t in range(1, len(y) + 1):
            d = [
                float(log_probability(SMALL, policies[name][0, 0], y[:t]))
                - float(log_probability(SMALL, policies[name][0, 0], y[: t - 1]))
                for name in ("theta", "ref")
            ]
            difference = d[0] - d[1]
            expected += chance * (math.exp(-difference) - 1.0 + difference)
    assert abs(expected - target) > 0.02
    assert abs(plain - expected) < 3 * error


@pytest.mark.parametrize(
    ("estimator", "unbiased"), [("k1", True), ("k3", True), ("k2", False), ("abs", False)]
)
def test_the_expectation_of_each_estimator(policies, estimator: str, unbiased: bool) -> None:
    """Without draws: what the mean over infinitely many responses is."""
    table, ref = policies["theta"][0, 0], policies["ref"][0, 0]
    never = table == -torch.inf
    k = kl_value(torch.where(never, 0.0, table - ref), estimator)
    expected = float(through(policies, "theta") @ (table.exp() * k).sum(-1))
    target = float(exact.kl(SMALL, policies["theta"], policies["ref"])[0, 0])
    assert (abs(expected - target) < 1e-12) == unbiased
