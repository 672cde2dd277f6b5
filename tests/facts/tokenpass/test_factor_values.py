"""Factors and their facts against the objectives' own weights, and what A enters only by its sign."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from synthetic import rollouts, write

from audit.facts.columns import weight_facts
from audit.facts.engines.local import compute
from audit.facts.tokenpass import factor_facts
from audit.facts.tokenpass.factors import Factor, PolicyFactor, alone, factors_of
from audit.facts.tokens import token_batches
from audit.logs import Run
from audit.objectives.batch import Tokens
from audit.objectives.catalogue import CATALOGUE
from audit.objectives.coefficients import Coefficients
from audit.objectives.objective import Correction, LossKL, Objective, Ratio
from audit.objectives.parts import KL
from audit.objectives.surrogates import CISPOClip, NoClip, PPOClip
from audit.objectives.weights import token_weights


def run_of(tmp_path, **extreme: float) -> Run:
    rng = random.Random(3)
    data = rollouts(steps=2)
    for k, row in enumerate(data):
        row["loss_mask"] = [(k + i) % 4 > 0 for i in range(row["length"])]
        row["logp_theta"] = [x + rng.gauss(0.0, 0.3) for x in row["logp_old"]]
        row["logp_sampler"] = [x - abs(rng.gauss(0.0, 0.3)) for x in row["logp_old"]]
    for name, value in extreme.items():
        data[0][name][1] = value
    return write(tmp_path / "run", data)


def coefficients(tokens: Tokens, advantage: float) -> Coefficients:
    rows = tokens.layout.num_rows
    one, yes = torch.ones(rows, dtype=torch.float64), torch.ones(rows, dtype=torch.bool)
    return Coefficients(
        advantage=one * advantage,
        nu=one,
        nu_kl=one,
        kept=yes,
        masked=~yes,
        scored=yes,
        raw=one * advantage,
        shift=one * 0,
        factor=one,
        reward=one,
        mean_kl=one * 0,
        batch=torch.zeros(rows, dtype=torch.int64),
    )


def by_objective(tokens: Tokens, factor: Factor) -> tuple[torch.Tensor, torch.Tensor]:
    sign = -1.0 if factor.sign < 0 else 1.0
    made = token_weights(tokens, coefficients(tokens, sign), alone(factor))
    return (made.policy * sign if isinstance(factor, PolicyFactor) else made.kl), made.zeroed


RATIOS = [
    Ratio(),
    Ratio(denominator="old"),
    Ratio(denominator="sampler"),
    *(Ratio(denominator="old", level=level) for level in ("sequence", "sequence_token", "product")),
    Ratio(denominator="sampler", level="sequence"),
    Ratio(denominator="old", clamp=0.2),
    Ratio(denominator="old", corrections=(Correction(high=1.1, weighs_kl=True),)),
    Ratio(
        denominator="old",
        corrections=(Correction(action="mask", low=0.9, high=1.2, keep_nonnegative=True, weighs_kl=True),),
    ),
]
CLIPS = [
    NoClip(),
    PPOClip(epsilon_low=0.2, epsilon_high=0.28),
    PPOClip(epsilon_low=0.2, epsilon_high=0.2, dual=1.5),
    PPOClip(epsilon_low=0.1, epsilon_high=0.2, delta=1.1),
    PPOClip(epsilon_low=0.1, epsilon_high=0.2, delta=1.4, dual=1.3),
    CISPOClip(epsilon_low=0.1, epsilon_high=0.1),
    CISPOClip(epsilon_low=0.1, epsilon_high=0.1, masked=True),
]
KLS = [
    None,
    *(LossKL(coefficient=0.1, estimator=k) for k in ("k1", "k2", "k3", "abs")),
    LossKL(coefficient=0.1, gradient="straight_through"),
    LossKL(coefficient=0.1, gradient="ratio"),
    LossKL(coefficient=0.1, gradient="straight_through", ratio_cap=1.05),
    LossKL(coefficient=0.1, against="old", input_clamp=0.1),
    LossKL(coefficient=0.1, against="sampler", estimator="k3"),
]
COMPOSED = [
    Objective(name="composed", ratio=ratio, clip=clip, kl=KL(loss=KLS[i % len(KLS)]))
    for i, (ratio, clip) in enumerate((r, c) for r in RATIOS for c in CLIPS)
]
NAMED = [entry.objective for entry in CATALOGUE.values()]


@pytest.mark.parametrize("device", ["cpu", "torch-cpu"])
def test_facts_of_factors_are_sums_of_the_objectives_weights(tmp_path, device: str) -> None:
    run = run_of(tmp_path)
    found = [factors for o in (*NAMED, *COMPOSED) if (factors := factors_of(o)) is not None]
    names = list(dict.fromkeys(name for factors in found for name in weight_facts(factors)))
    assert len(names) > 200
    [(_, table)] = compute(run.parts, names, device=device)
    [tokens] = token_batches(run)
    for name in names:
        fact = factor_facts.parse(name)
        assert fact is not None
        assert fact.name == name
        values = [by_objective(tokens, factor) for factor in fact.factors]
        expected = {
            "sum": values[0][0],
            "zeroed": values[0][1].double(),
            "dot": values[0][0] * values[-1][0],
        }[fact.of]
        summed = tokens.layout.sum(expected).numpy()
        np.testing.assert_allclose(table[name].to_numpy(), summed, rtol=1e-12, atol=1e-13, err_msg=name)


@pytest.mark.parametrize("objective", [*NAMED, *COMPOSED[::5]], ids=lambda o: o.name)
def test_the_advantage_enters_a_factor_by_its_sign_alone(tmp_path, objective: Objective) -> None:
    factors = factors_of(objective)
    if factors is None:
        assert (
            objective.batch_wide
            or not objective.clip.proportional
            or objective.baseline.kind == "gae"
            or (objective.kl.reward is not None and objective.kl.reward.form != "sum")
        )
        return
    [tokens] = token_batches(run_of(tmp_path))
    bare = objective.replace(filter=type(objective.filter)())
    for advantage, policy, kl in (
        (2.5, factors.positive, factors.kl_positive),
        (-0.3, factors.negative, factors.kl_negative),
    ):
        whole = token_weights(tokens, coefficients(tokens, advantage), bare)
        expected = advantage * by_objective(tokens, policy)[0]
        torch.testing.assert_close(whole.policy, expected, rtol=1e-12, atol=1e-15)
        expected = torch.zeros_like(expected)
        if kl is not None:
            expected = factors.kl_coefficient * by_objective(tokens, kl)[0]
        torch.testing.assert_close(whole.kl, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("extreme", [{"logp_theta": 1e5}, {"logp_old": -1e5}, {"logp_ref": 1e5}])
def test_an_infinite_ratio_is_removed_by_the_clip_that_removes_it(tmp_path, extreme) -> None:
    run = run_of(tmp_path, **extreme)
    [tokens] = token_batches(run)
    names = list(dict.fromkeys(n for o in NAMED[:20] if (f := factors_of(o)) for n in weight_facts(f)))
    with np.errstate(all="ignore"):
        [(_, table)] = compute(run.parts, names)
    for name in names:
        fact = factor_facts.parse(name)
        assert fact is not None
        if fact.of == "sum":
            values, _ = by_objective(tokens, fact.factors[0])
            np.testing.assert_allclose(table[name].to_numpy(), tokens.layout.sum(values).numpy(), rtol=1e-12)


def test_factors_that_mean_the_same_are_one() -> None:
    grpo, dr_grpo, dapo = (factors_of(CATALOGUE[name].objective) for name in ("grpo", "dr_grpo", "dapo"))
    assert grpo is not None
    assert dr_grpo is not None
    assert dapo is not None
    assert (grpo.positive, grpo.negative) == (dr_grpo.positive, dr_grpo.negative)
    assert grpo.negative == dapo.negative
    assert grpo.positive != dapo.positive
    one, other = grpo.positive, grpo.kl_positive
    assert other is not None
    assert factor_facts.dot(one, other) == factor_facts.dot(other, one)


def test_logged_token_advantages_are_no_multiples_of_factors() -> None:
    logged = Objective.replace(CATALOGUE["ppo"].objective, name="x")
    assert logged.baseline.kind == "logged"
    assert factors_of(logged) is not None
    assert factors_of(logged, token_advantages=True) is None
