"""Causes injected into real runs of TRL: trained otherwise, or edited in the log."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from bench.explain import edits
from bench.explain.case import Case, Make
from bench.explain.log import Log, read_log
from bench.explain.trl_runs import BASE_SEEDS, SEEDS, make

PAIRS = 2
"""Per cause: two runs of A's recipe and two of B's."""
NULL_PAIRS = ((1, 2), (3, 4), (1, 3), (2, 4), (1, 4), (2, 3))


def runs(name: str, seeds: Sequence[int]) -> Make:
    """Runs of one recipe: pair k takes the k-th of the seeds, from the start again where they run out."""

    def made(pairs: Sequence[int]) -> list[Log]:
        return [_read(name, seeds[pair % 500 % len(seeds)]) for pair in pairs]

    return made


@lru_cache(maxsize=8)
def _read(name: str, seed: int) -> Log:
    return read_log(make(name, seed))


BASE = runs("base", BASE_SEEDS)
OTHERS = runs("base", (*BASE_SEEDS[1:], BASE_SEEDS[0]))
"""The same recipe with another seed in every pair: what edits are made to."""


def _trained(cause: str, variant: str, recipe: str, shown_by: str, **options: object) -> Case:
    return Case(cause, variant, BASE, runs(recipe, SEEDS), source="trl", shown_by=shown_by, **options)  # type: ignore[arg-type]


def trained_cases() -> list[Case]:
    """B was trained otherwise."""
    return [
        _trained("objective.scale", "scale_rewards group → none", "scale", "advantage"),
        _trained("objective.aggregation", "loss_type grpo → dapo", "aggregation", "loss in metrics/"),
        _trained(
            "objective.ratio",
            "importance_sampling_level token → sequence",
            "ratio",
            "loss, clip_ratio in metrics/",
        ),
        _trained("objective.clip", "epsilon 0.2 → 0.02", "clip", "clip_ratio in metrics/"),
        _trained("objective.kl", "beta 0.04 → 0", "kl", "loss, kl in metrics/; logp_ref"),
        _trained(
            "objective.shaping",
            "reward_weights [1, 0] → [1, 0.5]",
            "shaping",
            "reward, reward_components",
            also_blind=("data.reward",),
        ),
        _trained(
            "objective.filter",
            "mask_truncated_completions",
            "filter",
            "loss_mask, finish_reason",
            also_blind=("tokens.mask",),
        ),
        _trained(
            "data.reward", "answers that are one too large count as right", "reward", "response, reward"
        ),
        _trained("data.prompts", "48 prompts → 24 of them", "prompts", "prompt_id"),
        _trained("data.group_size", "8 → 4", "group_size", "group_id"),
        _trained("data.truncation", "budget 24 → 14 tokens", "truncation", "length, finish_reason"),
        _trained("sampling.temperature", "1 → 0.6", "temperature", "logp_ref of the same text"),
        _trained("sampling.support", "top_k 3", "support", "entropy, logp_old"),
        _trained(
            "model.init",
            "another first model, which is the reference too; same name",
            "init",
            "logp_ref, logp_old of the same text",
            also=("model.reference",),
        ),
        _trained("optimiser", "learning rate × 3.3", "optimiser", "learning_rate in metrics/"),
    ]


def edited_cases() -> list[Case]:
    """B's log was edited."""

    def case(cause: str, variant: str, shown_by: str, edit: edits.Edit, *of_a: edits.Edit) -> Case:
        a = edits.edited(BASE, *of_a) if of_a else BASE
        return Case(cause, variant, a, edits.edited(OTHERS, edit), source="trl", shown_by=shown_by)

    return [
        case(
            "data.grouping",
            "advantages over blocks of shuffled rows",
            "advantage, group_id",
            edits.shuffled_advantages,
        ),
        case("data.grouping", "group ids off by half a group", "group_id, prompt_id", edits.shifted_ids),
        case(
            "data.prompts",
            "60 % of the groups of half the prompts left out",
            "prompt_id",
            edits.fewer_groups(0.6, edits.half_of_prompts),
        ),
        case(
            "tokens.retokenised",
            "',1' is one token",
            "response, token_ids",
            edits.merged_tokens(15, 4, 17),
        ),
        case("tokens.mask", "the last token takes no loss", "loss_mask", edits.masked("last")),
        case(
            "numerics.mismatch",
            "noise of the sampler's log-probs 0.02 → 0.4",
            "logp_sampler",
            edits.sampler_noise(0.4),
            edits.sampler_noise(0.02),
        ),
        case("numerics.precision", "log-probs float32 → bfloat16", "logp_theta", edits.rounded),
        case("logging", "every third batch is missing", "step", edits.missing_steps(3)),
        case("logging", "10 % of the rows twice", "sample_index", edits.duplicated(0.1)),
    ]


def null_cases() -> list[Case]:
    """Nothing differs but the seed: every pair of the four base runs."""
    first, second = zip(*NULL_PAIRS, strict=True)
    return [Case(None, "grpo", runs("base", first), runs("base", second), source="trl")]
