"""Causes injected into runs of the toy language."""

from __future__ import annotations

from dataclasses import replace

from audit.objectives.catalogue import named
from audit.objectives.objective import (
    KL,
    Aggregation,
    Baseline,
    Filter,
    LossKL,
    Objective,
    Overlong,
    Ratio,
    RewardKL,
    Scale,
    Shaping,
)
from audit.objectives.surrogates import PPOClip
from bench.explain import edits
from bench.explain.case import Case
from bench.explain.toy import LANGUAGE, RATES, Engine, Recipe

NULLS = ("grpo", "dr_grpo", "rloo", "dapo", "gspo", "cispo")
"""Objectives of pairs that differ in their seeds alone."""

BASE = Recipe()
_GRPO = BASE.objective
_PLAIN = Recipe(objective=_GRPO.replace(scale=Scale()))


def _recipe(**parts: object) -> Recipe:
    objective: Objective = _GRPO.replace(**parts)
    return replace(BASE, objective=objective)


def _components(weight: float) -> Recipe:
    return _recipe(shaping=Shaping(weights={"accuracy": 1.0, "format": weight}))


def _with_baseline(kind: str) -> Recipe:
    objective = _PLAIN.objective.replace(baseline=Baseline(kind=kind))  # type: ignore[arg-type]
    return replace(_PLAIN, objective=objective)


def objective_cases() -> list[Case]:
    """One part of the objective is trained otherwise."""
    weightless = "loss, clip fraction or KL per step in metrics/, or an objective in run.json"
    return [
        Case("objective.baseline", "group mean → none", _PLAIN, _with_baseline("none"), shown_by="advantage"),
        Case(
            "objective.baseline",
            "group mean → batch mean",
            _PLAIN,
            _with_baseline("batch_mean"),
            shown_by="advantage",
        ),
        Case("objective.scale", "group std → none", BASE, _recipe(scale=Scale()), shown_by="advantage"),
        Case(
            "objective.scale",
            "group std → batch std",
            BASE,
            _recipe(scale=Scale(kind="batch_std")),
            shown_by="advantage",
        ),
        Case(
            "objective.ratio",
            "token → sequence",
            BASE,
            _recipe(ratio=Ratio(denominator="old", level="sequence")),
            seen_blind=False,
            shown_by=weightless,
        ),
        Case(
            "objective.clip",
            "epsilon 0.2 → 0.02",
            BASE,
            _recipe(clip=PPOClip(epsilon_low=0.02, epsilon_high=0.02)),
            seen_blind=False,
            shown_by=weightless,
        ),
        Case(
            "objective.aggregation",
            "mean per response → mean over tokens",
            BASE,
            _recipe(aggregation=Aggregation(kind="token-mean")),
            seen_blind=False,
            shown_by=weightless,
        ),
        Case(
            "objective.aggregation",
            "mean per response → constant",
            BASE,
            _recipe(aggregation=Aggregation(kind="seq-mean-token-sum-norm")),
            seen_blind=False,
            shown_by=weightless,
        ),
        Case(
            "objective.kl",
            "k3 in the loss, beta 0.04 → 0.5",
            BASE,
            _recipe(kl=KL(loss=LossKL(coefficient=0.5))),
            seen_blind=False,
            shown_by=weightless,
        ),
        Case(
            "objective.kl",
            "none → KL in the reward, beta 0.3",
            Recipe(objective=named("rloo").replace(kl=KL())),
            Recipe(objective=named("rloo").replace(kl=KL(reward=RewardKL(coefficient=0.3)))),
            shown_by="advantage, logp_old, logp_ref",
        ),
        Case(
            "objective.shaping",
            "weight of a second component 0 → 0.5",
            _components(0.0),
            _components(0.5),
            shown_by="reward, reward_components",
            also_blind=("data.reward",),
        ),
        Case(
            "objective.shaping",
            "none → penalty on the last two tokens of the budget",
            BASE,
            _recipe(shaping=Shaping(overlong=Overlong(max_length=5, cache=2))),
            shown_by="advantage, length",
        ),
        Case(
            "objective.filter",
            "none → truncated responses take no loss",
            BASE,
            _recipe(filter=Filter(mask_truncated=True)),
            seen_blind=False,
            shown_by="loss_mask, or an objective in run.json",
        ),
    ]


def other_cases() -> list[Case]:
    """Everything outside the objective."""
    return [*_data(), *_sampling_and_models(), *_tokens_and_log()]


def _data() -> list[Case]:
    return [
        Case("data.prompts", "5 of 20 prompts are others", BASE, _other_prompts(), shown_by="prompt_id"),
        Case(
            "data.prompts",
            "60 % of the groups of the easier half left out",
            BASE,
            edits.edited(BASE, edits.fewer_groups(0.6, edits.easy)),
            shown_by="prompt_id",
        ),
        Case("data.group_size", "8 → 4", BASE, replace(BASE, group_size=4), shown_by="group_id"),
        Case(
            "data.reward",
            "the verdict on 10 % of the texts",
            BASE,
            edits.edited(BASE, edits.other_rewards(0.10)),
            shown_by="response, reward",
        ),
        Case(
            "data.truncation",
            "budget 5 → 3 tokens",
            BASE,
            replace(BASE, language=replace(LANGUAGE, budget=3)),
            shown_by="length, finish_reason",
        ),
        Case(
            "data.grouping",
            "advantages over blocks of shuffled rows",
            BASE,
            edits.edited(BASE, edits.shuffled_advantages),
            shown_by="advantage, group_id",
        ),
        Case(
            "data.grouping",
            "group ids off by half a group",
            BASE,
            edits.edited(BASE, edits.shifted_ids),
            shown_by="group_id, prompt_id",
        ),
    ]


def _other_prompts() -> Recipe:
    changed = tuple(round(rate + 0.013, 3) for rate in RATES[:5])
    return replace(BASE, language=replace(LANGUAGE, rates=changed + RATES[5:]))


def _engine(**changes: object) -> Recipe:
    return replace(BASE, engine=Engine(**changes))  # type: ignore[arg-type]


def _sampling_and_models() -> list[Case]:
    versions = ("sampler_version", "policy_version")
    unversioned = edits.edited(BASE, lambda log, _: log.without(*versions))
    stale = edits.edited(_engine(lag=3), lambda log, _: log.without(*versions))
    return [
        Case(
            "sampling.temperature",
            "sampler at 1 → 0.6, trainer at 1",
            BASE,
            _engine(temperature=0.6),
            shown_by="logp_sampler, logp_old",
        ),
        Case(
            "sampling.support",
            "all 5 tokens → the 3 likeliest",
            BASE,
            _engine(top_k=3),
            shown_by="logp_sampler",
        ),
        Case(
            "model.reference",
            "other weights, same name",
            BASE,
            _engine(moved_reference=0.3),
            shown_by="logp_ref",
        ),
        Case(
            "model.init",
            "other first policy, same reference and name",
            BASE,
            _engine(moved_start=0.3),
            shown_by="logp_old, logp_ref of the first step",
        ),
        Case(
            "numerics.mismatch",
            "noise of the sampler's logits 0.02 → 0.4",
            BASE,
            replace(BASE, noise=0.4),
            shown_by="logp_sampler",
        ),
        Case("staleness", "sampler 3 batches old", BASE, _engine(lag=3), shown_by="sampler_version"),
        Case(
            "staleness",
            "sampler 3 batches old, versions not logged",
            unversioned,
            stale,
            shown_by="logp_sampler over steps",
            also_blind=("numerics.mismatch",),
        ),
        Case(
            "optimiser",
            "learning rate × 3",
            BASE,
            replace(BASE, rate=3 * BASE.rate),
            seen_blind=False,
            shown_by="learning_rate or grad_norm in metrics/, or config in run.json",
        ),
    ]


def _tokens_and_log() -> list[Case]:
    unmasked = edits.edited(BASE, edits.all_tokens)
    return [
        Case(
            "tokens.retokenised",
            "a frequent pair of letters is one token",
            BASE,
            edits.edited(BASE, edits.merged_tokens(0, 1, 5)),
            shown_by="response, token_ids",
        ),
        Case(
            "tokens.mask",
            "the last token takes no loss",
            unmasked,
            edits.edited(BASE, edits.masked("last")),
            shown_by="loss_mask",
        ),
        Case(
            "tokens.mask",
            "the first token takes no loss",
            unmasked,
            edits.edited(BASE, edits.masked("first")),
            shown_by="loss_mask",
        ),
        Case(
            "numerics.precision",
            "log-probs float32 → bfloat16",
            BASE,
            edits.edited(BASE, edits.rounded),
            shown_by="logp_theta",
        ),
        Case(
            "logging",
            "every third batch is missing",
            BASE,
            edits.edited(BASE, edits.missing_steps(3)),
            shown_by="step",
        ),
        Case(
            "logging",
            "10 % of the rows twice",
            BASE,
            edits.edited(BASE, edits.duplicated(0.1)),
            shown_by="sample_index",
        ),
    ]


def null_cases() -> list[Case]:
    """Nothing differs but the seed."""
    return [Case(None, name, made, made) for name in NULLS for made in [Recipe(objective=named(name))]]
