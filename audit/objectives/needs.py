"""Which columns a part of an objective needs, and what to fall back to where a log lacks them."""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

import msgspec

from audit.objectives.objective import KL, Objective, Ratio
from audit.objectives.surrogates import NoClip


class Reduction(NamedTuple):
    """A part that cannot be computed from a log, and the column that is missing."""

    part: str
    column: str


def needs(objective: Objective) -> dict[str, str]:
    """Return the columns that the token weights of an objective need beyond rewards, groups and tokens.

    Keys are columns, values the part of the objective that needs each.
    """
    wanted: dict[str, str] = {}
    if objective.kl.loss is not None and objective.kl.loss.coefficient > 0.0:
        other = f"logp_{objective.kl.loss.against or 'ref'}"
        wanted |= {"logp_theta": "kl", other: "kl"}
    if objective.kl.reward is not None and objective.kl.reward.coefficient > 0.0:
        wanted |= {f"logp_{objective.kl.reward.policy}": "kl", "logp_ref": "kl"}
    if objective.ratio.denominator != "theta":
        wanted |= {"logp_theta": "ratio", f"logp_{objective.ratio.denominator}": "ratio"}
    for correction in objective.ratio.corrections:
        wanted |= {f"logp_{correction.numerator}": "ratio", f"logp_{correction.against}": "ratio"}
    if objective.aggregation.scope == "micro_batch":
        wanted["micro_batch"] = "aggregation"
    if objective.filter.top_entropy < 1.0:
        wanted["entropy"] = "filter"
    if objective.filter.mask_truncated:
        wanted["finish_reason"] = "filter"
    if objective.baseline.kind == "greedy":
        wanted["is_greedy"] = "baseline"
    if objective.baseline.kind == "logged":
        wanted["advantage"] = "baseline"
    if objective.baseline.kind == "gae":
        wanted["value"] = "baseline"
    if objective.shaping.weights is not None:
        wanted["reward_components"] = "shaping"
    return wanted


def token_columns(objective: Objective) -> frozenset[str]:
    """Token columns that the weights of an objective are made from, where a log has them."""
    wanted = {"loss_mask", "logp_theta", *needs(objective)}
    if objective.baseline.kind == "logged":
        wanted.add("token_advantage")
    return frozenset(wanted)


def varies_by_token(objective: Objective) -> bool:
    """Whether the objective itself makes one advantage per token (logged ones apart)."""
    kl = objective.kl.reward
    by_token = kl is not None and kl.coefficient > 0.0 and kl.form != "sum"
    return objective.baseline.kind == "gae" or (by_token and objective.baseline.kind != "logged")


def needs_groups(objective: Objective) -> bool:
    """Whether the objective compares a response with the others of its group."""
    return (
        objective.baseline.kind not in ("none", "batch_mean", "logged", "gae")
        or objective.scale.kind
        in ("group_std", "leave_one_out_std", "group_mean", "alive_share", "pass_at_k_std")
        or objective.filter.dynamic_sampling
        or objective.aggregation.kind == "prompt-mean-token-mean"
    )


def reduced(objective: Objective, columns: Set[str]) -> tuple[Objective, list[Reduction]]:
    """Return the objective without the parts that a log with ``columns`` cannot carry, and what went.

    Without log-probs the ratio is taken as 1 (on-policy), and so nothing is clipped; without micro_batch the
    normaliser spans the update; without logp_ref there is no KL term. A baseline cannot be replaced: what it
    needs is reported by :func:`needs` and raised when the weights are formed.
    """
    if "token_advantage" in columns:
        columns = columns | {"advantage"}
    missing = [Reduction(part, column) for column, part in needs(objective).items() if column not in columns]
    for part in {reduction.part for reduction in missing}:
        objective = without(objective, part)
    return objective, missing


def without(objective: Objective, part: str) -> Objective:
    """Return the objective with what it is reduced to where a log lacks the columns of ``part``."""
    if part == "kl":
        return objective.replace(kl=KL())
    if part == "ratio":
        return objective.replace(ratio=Ratio(), clip=NoClip())
    if part == "aggregation" and objective.aggregation.scope == "micro_batch":
        scope = msgspec.structs.replace(objective.aggregation, scope="update")
        return objective.replace(aggregation=scope)
    if part == "filter":
        kept = msgspec.structs.replace(objective.filter, mask_truncated=False, top_entropy=1.0)
        return objective.replace(filter=kept)
    return objective
