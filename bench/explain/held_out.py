"""Causes of other sizes, in runs of another language and other objectives, with other seeds.

The tool was improved on the cases of :mod:`.toy_cases` and :mod:`.trl_cases`. These were written afterwards
and ask whether it learned the causes or the cases. What is found here is to be reported, not tuned on: write
others before the tool is changed again.
"""

from __future__ import annotations

from dataclasses import replace

from audit.objectives.catalogue import named
from audit.objectives.objective import KL, Aggregation, LossKL, RewardKL, Scale, Shaping
from audit.objectives.surrogates import PPOClip
from audit.testbed.language import Language
from bench.explain import edits, trl_cases
from bench.explain.case import Case
from bench.explain.toy import Engine, Recipe

FIRST_SEED = 70
"""No pair of the benchmark itself has these."""
LANGUAGE = Language(
    rates=(0.06, 0.11, 0.17, 0.22, 0.28, 0.31, 0.36, 0.42, 0.47, 0.55, 0.6, 0.66), letters=3, budget=6
)
DAPO = Recipe(objective=named("dapo"), language=LANGUAGE, group_size=6, steps=14, rate=9.0)
RLOO = Recipe(objective=named("rloo").replace(kl=KL()), language=LANGUAGE, group_size=6, steps=14, rate=9.0)
WEIGHTLESS = "loss, clip fraction or KL per step in metrics/, or an objective in run.json"


def held_out_cases() -> list[Case]:
    """Every case: cause, what differs, A, B."""
    return [*_objectives(), *_engines(), *_logs(), *_trl()]


def _with(recipe: Recipe, **parts: object) -> Recipe:
    return replace(recipe, objective=recipe.objective.replace(**parts))


def _hidden(cause: str, variant: str, b: Recipe, shown_by: str = WEIGHTLESS) -> Case:
    return Case(cause, variant, DAPO, b, seen_blind=False, shown_by=shown_by)


def _objectives() -> list[Case]:
    scaled = _with(DAPO, scale=Scale(kind="group_std", epsilon=1e-6))
    return [
        Case(
            "objective.scale", "DAPO's std → none", scaled, _with(DAPO, scale=Scale()), shown_by="advantage"
        ),
        Case(
            "objective.scale",
            "epsilon of the std 1e-6 → 0.1",
            scaled,
            _with(DAPO, scale=Scale(kind="group_std", epsilon=0.1)),
            shown_by="advantage",
        ),
        _hidden(
            "objective.clip",
            "0.2, 0.28 → 0.05, 0.05",
            _with(DAPO, clip=PPOClip(epsilon_low=0.05, epsilon_high=0.05)),
        ),
        _hidden(
            "objective.aggregation",
            "token mean → mean per response",
            _with(DAPO, aggregation=Aggregation(kind="seq-mean-token-mean")),
        ),
        _hidden(
            "objective.kl", "none → k3 in the loss, 0.3", _with(DAPO, kl=KL(loss=LossKL(coefficient=0.3)))
        ),
        Case(
            "objective.kl",
            "none → KL in the reward, beta 0.15",
            RLOO,
            _with(RLOO, kl=KL(reward=RewardKL(coefficient=0.15))),
            shown_by="advantage, logp_old, logp_ref",
        ),
        Case(
            "objective.shaping",
            "weight of a second component 0.1 → 0.4",
            _with(DAPO, shaping=Shaping(weights={"accuracy": 1.0, "format": 0.1})),
            _with(DAPO, shaping=Shaping(weights={"accuracy": 1.0, "format": 0.4})),
            shown_by="reward, reward_components",
            also_blind=("data.reward",),
        ),
    ]


def _engines() -> list[Case]:
    def engine(**changes: object) -> Recipe:
        return replace(DAPO, engine=Engine(**changes))  # type: ignore[arg-type]

    return [
        Case(
            "sampling.temperature", "sampler at 1.3", DAPO, engine(temperature=1.3), shown_by="logp_sampler"
        ),
        Case("sampling.support", "2 likeliest of 4", DAPO, engine(top_k=2), shown_by="logp_sampler"),
        Case("model.reference", "moved by 0.15", DAPO, engine(moved_reference=0.15), shown_by="logp_ref"),
        Case("model.init", "moved by 0.2", DAPO, engine(moved_start=0.2), shown_by="logp_old, logp_ref"),
        Case("staleness", "sampler 2 batches old", DAPO, engine(lag=2), shown_by="sampler_version"),
        Case(
            "numerics.mismatch", "noise 0.02 → 0.15", DAPO, replace(DAPO, noise=0.15), shown_by="logp_sampler"
        ),
        Case("data.group_size", "6 → 12", DAPO, replace(DAPO, group_size=12), shown_by="group_id"),
        Case(
            "data.truncation",
            "budget 6 → 4",
            DAPO,
            replace(DAPO, language=replace(LANGUAGE, budget=4)),
            shown_by="length, finish_reason",
        ),
        Case(
            "data.prompts",
            "2 of 12 prompts are others",
            DAPO,
            replace(DAPO, language=replace(LANGUAGE, rates=(0.073, 0.123, *LANGUAGE.rates[2:]))),
            shown_by="prompt_id",
        ),
        Case(
            "optimiser",
            "learning rate × 0.3",
            DAPO,
            replace(DAPO, rate=0.3 * DAPO.rate),
            seen_blind=False,
            shown_by="learning_rate or grad_norm in metrics/, or config in run.json",
        ),
    ]


def _logs() -> list[Case]:
    def case(cause: str, variant: str, edit: edits.Edit, shown_by: str, *of_a: edits.Edit) -> Case:
        a = edits.edited(DAPO, *of_a) if of_a else DAPO
        return Case(cause, variant, a, edits.edited(DAPO, edit), shown_by=shown_by)

    return [
        case("data.reward", "verdict on 5 % of the texts", edits.other_rewards(0.05), "response, reward"),
        case(
            "data.prompts",
            "35 % of the groups of the easier half gone",
            edits.fewer_groups(0.35, edits.easy),
            "prompt_id",
        ),
        case("logging", "3 % of the rows twice", edits.duplicated(0.03), "sample_index"),
        case("logging", "every fifth batch is missing", edits.missing_steps(5), "step"),
        case("numerics.precision", "log-probs in bfloat16", edits.rounded, "logp_theta"),
        case(
            "tokens.mask", "first token takes no loss", edits.masked("first"), "loss_mask", edits.all_tokens
        ),
        case("tokens.retokenised", "another pair is one token", edits.merged_tokens(1, 2, 4), "token_ids"),
    ]


def _trl() -> list[Case]:
    def case(cause: str, variant: str, shown_by: str, edit: edits.Edit, *of_a: edits.Edit) -> Case:
        a = edits.edited(trl_cases.BASE, *of_a) if of_a else trl_cases.BASE
        return Case(cause, variant, a, edits.edited(trl_cases.OTHERS, edit), source="trl", shown_by=shown_by)

    half = edits.half_of_prompts
    return [
        case("logging", "4 % of the rows twice", "sample_index", edits.duplicated(0.04)),
        case("logging", "every fourth batch is missing", "step", edits.missing_steps(4)),
        case(
            "data.prompts",
            "40 % of the groups of half the prompts gone",
            "prompt_id",
            edits.fewer_groups(0.4, half),
        ),
        case(
            "numerics.mismatch",
            "noise of the sampler 0.05 → 0.2",
            "logp_sampler",
            edits.sampler_noise(0.2),
            edits.sampler_noise(0.05),
        ),
        case("tokens.mask", "first token takes no loss", "loss_mask", edits.masked("first")),
        case("tokens.retokenised", "another pair is one token", "token_ids", edits.merged_tokens(4, 5, 17)),
    ]


def held_out_nulls() -> list[Case]:
    """Nothing differs but the seed."""
    return [
        Case(None, name, made, made)
        for name in ("grpo", "dr_grpo", "rloo", "dapo", "gspo", "cispo")
        for made in [replace(DAPO, objective=named(name))]
    ]
