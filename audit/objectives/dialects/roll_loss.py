"""ROLL: the surrogates of its two actor workers, and the train-infer correction; sources in roll.py."""

from __future__ import annotations

from typing import Any

from audit.errors import BadObjective
from audit.objectives.dialects.config import Options
from audit.objectives.objective import (
    Aggregation,
    Correction,
    Ratio,
)
from audit.objectives.surrogates import AnySurrogate, CISPOClip, NoClip, PPOClip, Regression


def clip_of(o: Options, variant: str) -> AnySurrogate:
    """Surrogate of ActorWorker ("ppo"), or of a ``pg_variant`` of ActorPGWorker.

    Raises
    ------
    BadObjective
        An option that an objective cannot express is in use.
    """
    if variant == "topr":
        raise o.refuse("actor_train.pg_variant", "failures by score are weighted otherwise than successes")
    width = o["pg_clip"]
    low, high = (o["pg_clip_low"], o["pg_clip_high"]) if o["use_pg_clip_range"] else (width, width)
    table: dict[str, AnySurrogate] = {
        "ppo": PPOClip(
            epsilon_low=low, epsilon_high=high, dual=1.0 + 2.0 * width if o["dual_clip_loss"] else None
        ),
        "vanilla": NoClip(),
        "tis": CISPOClip(
            epsilon_low=1.0 - o["actor_train.tis_lower_bound"],
            epsilon_high=o["actor_train.tis_upper_bound"] - 1.0,
        ),
        "cispo": CISPOClip(
            epsilon_low=o["actor_train.cispo_epsilon_low"],
            epsilon_high=o["actor_train.cispo_epsilon_high"],
            masked=o["actor_train.cispo_use_unified_mask"],
        ),
        "kimi15": Regression(tau=o["actor_train.kimi15_tau"]),
    }
    if variant not in table:
        raise BadObjective(f"ROLL has no pg_variant {variant!r}. Known: topr, {', '.join(table)}.")
    return table[variant]


def ratio_of(o: Options, clip: AnySurrogate, aggregation: Aggregation) -> Ratio:
    """Ratio of that surrogate, with the weights and filters of ``train_infer_correction``."""
    corrections = _corrections(o, aggregation)
    if isinstance(clip, NoClip):
        return Ratio(corrections=corrections)
    level: Any = "token"
    if isinstance(clip, PPOClip):
        level = o.one_of("importance_sampling", {"token": "token", "seq": "sequence"})
    return Ratio(denominator="old", level=level, corrections=corrections)


def _corrections(o: Options, aggregation: Aggregation) -> tuple[Correction, ...]:
    given = o["train_infer_correction"] or {}
    levels: Any = {"token": "token", "geometric": "sequence", "sequence": "product"}
    made = []
    weight = given.get("is_weight") or {}
    rules = [rule for rule in given.get("filters") or () if rule.get("enabled")]
    if weight.get("enabled"):
        level = levels.get(weight.get("weight_type", "token"))
        if level is None or not weight.get("detach", True):
            raise o.refuse("train_infer_correction", "weights per segment, or with a gradient")
        made.append(Correction(level=level, high=weight.get("upper_bound", 1.2)))
    unmasked = aggregation.kind == "token-mean" and not o["enable_old_logprobs_recompute"]
    for rule in rules:
        level = levels.get(rule.get("agg_type", "token"))
        if level is None or rule.get("diff_enabled"):
            raise o.refuse("train_infer_correction", "a filter per segment, or on probabilities")
        if unmasked:
            raise o.refuse(
                "train_infer_correction", "token-mean keeps the filtered tokens of the policy term"
            )
        if rule.get("ratio_enabled", True):
            gate = Correction(
                action="gate",
                level=level,
                low=rule.get("ratio_low", 0.8),
                high=rule.get("ratio_high", 1.2),
                leaves_denominator=True,
                weighs_kl=True,
            )
            made.append(gate)
    return tuple(made)
