"""Advantages from a critic: PPO, what it grew from, and what was changed in its ratio."""

from __future__ import annotations

from audit.objectives.catalogue.entry import Entry
from audit.objectives.objective import (
    KL,
    Aggregation,
    Baseline,
    Correction,
    Objective,
    Ratio,
    RewardKL,
)
from audit.objectives.surrogates import CISPOClip, PPOClip

_OLD = Ratio(denominator="old")
_LOGGED = Baseline(kind="logged")
_CLIP = PPOClip(epsilon_low=0.2, epsilon_high=0.2)
_TOKENS = Aggregation(kind="token-mean")
_REWARD = "the reward objective"

ENTRIES = (
    Entry(
        objective=Objective(name="ppo", baseline=_LOGGED, ratio=_OLD, clip=_CLIP, aggregation=_TOKENS),
        meaning="The clipped surrogate on the advantages that the log holds (from a critic, by GAE).",
        formula="w = A rho [not clipped] / N",
        paper="arXiv:1707.06347 (Schulman et al. 2017), eq. 7",
        lineage="TRPO's trust region, as a clip",
        fixes="steps that leave the region where the surrogate means anything, without TRPO's solver",
        weight="rho A, A as logged",
        stability="PPO clip",
        target=_REWARD,
    ),
    Entry(
        objective=Objective(
            name="ppo_gae",
            baseline=Baseline(kind="gae", gamma=1.0, lam=0.95),
            ratio=_OLD,
            clip=_CLIP,
            aggregation=_TOKENS,
            kl=KL(reward=RewardKL(coefficient=0.05, stage="after_scale", form="token")),
        ),
        meaning="RLHF's PPO: GAE on logged critic values, each token paying for its KL in the reward.",
        formula="w = A rho [not clipped] / N,  A_t = sum_s (gamma lambda)^(s - t) delta_s",
        paper="arXiv:1707.06347 (Schulman et al. 2017); GAE: arXiv:1506.02438, eq. 16; "
        "KL in the reward: arXiv:2203.02155",
        lineage="actor-critic with TD(lambda), and TRPO's trust region as a clip",
        fixes="the variance of returns, by a learned value per token",
        weight="rho A, A by GAE on reward - KL",
        stability="PPO clip; KL in the reward, k1",
        target="the KL-regularised objective",
        choices="gamma 1, lambda 0.95 and KL 0.05 are usual for language models, not fixed by a paper; "
        "advantages are not whitened here, as many codes do (scale.whiten).",
    ),
    Entry(
        objective=Objective(
            name="ppo_dual_clip",
            baseline=_LOGGED,
            ratio=_OLD,
            clip=PPOClip(epsilon_low=0.2, epsilon_high=0.2, dual=3.0),
            aggregation=_TOKENS,
        ),
        meaning="PPO whose punished tokens also drop out once their ratio exceeds a bound.",
        formula="w = A rho [not clipped; not A < 0 and rho > c] / N",
        paper="arXiv:1912.09729 (Ye et al. 2020), eq. 5",
        lineage="PPO",
        fixes="an unbounded push where A < 0 and the ratio is large",
        weight="rho A, A as logged",
        stability="PPO clip; rho bounded where A < 0",
        target=_REWARD,
        choices="c = 3 is verl's default.",
    ),
    Entry(
        objective=Objective(
            name="decoupled_ppo",
            baseline=_LOGGED,
            ratio=Ratio(denominator="old", corrections=(Correction(action="truncate"),)),
            clip=_CLIP,
            aggregation=_TOKENS,
        ),
        meaning="PPO around a proximal policy; a second ratio corrects from it to the stale sampler.",
        formula="w = A (pi_old / pi_sampler) rho [not clipped] / N",
        paper="arXiv:2505.24298 (AReaL, Fu et al. 2025)",
        lineage="decoupled PPO (Hilton et al. 2022): proximal policy is not behaviour policy",
        fixes="a trust region around a stale sampler holds the policy back",
        weight="rho A pi_old / pi_sampler",
        stability="PPO clip around the proximal policy",
        target=_REWARD,
        choices="The weight pi_old / pi_sampler is not bounded here; codes cap or mask it.",
    ),
    Entry(
        objective=Objective(
            name="vtrace",
            baseline=_LOGGED,
            ratio=Ratio(denominator="sampler"),
            clip=CISPOClip(epsilon_high=0.0),
            aggregation=Aggregation(kind="seq-mean-token-sum"),
        ),
        meaning="An actor-critic step whose importance weight is truncated at 1: CISPO's ancestor.",
        formula="w = A min(rho, 1) / B",
        paper="arXiv:1802.01561 (IMPALA, Espeholt et al. 2018)",
        lineage="truncated importance sampling (Ionides 2008)",
        fixes="the lag between actors that sample and the learner",
        weight="min(rho, 1) A, A as logged",
        stability="weights of at most 1",
        target="the reward objective, between sampler and learner",
        choices="V-trace's value targets are taken as logged advantages; the row mean stands here.",
    ),
)
