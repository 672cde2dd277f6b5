"""Choices that cannot be had together: what one part asks for and another would silently leave out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from audit.objectives.objective import Objective


def contradictions(objective: Objective) -> Iterator[str]:
    """Yield one sentence for each contradiction between the parts of an objective."""
    yield from _without_baseline(objective)
    yield from _reward(objective)
    yield from _counts(objective)


def _without_baseline(objective: Objective) -> Iterator[str]:
    kind, scale = objective.baseline.kind, objective.scale
    if kind == "logged" and (scale.kind != "none" or scale.whiten is not None):
        yield (
            "baseline.kind 'logged' takes the advantage as it stands: scale.kind must be 'none' and "
            "scale.whiten null"
        )
    if kind == "gae" and scale.kind != "none":
        yield "baseline.kind 'gae' is per token: scale.kind must be 'none' (use scale.whiten)"
    if kind in ("logged", "gae") and scale.reward_clip is not None:
        yield f"scale.reward_clip does nothing with baseline.kind '{kind}'"
    if scale.kind == "pass_at_k_std" and kind != "pass_at_k":
        yield "scale.kind 'pass_at_k_std' needs the k of baseline.kind 'pass_at_k'"


def _reward(objective: Objective) -> Iterator[str]:
    shaping, kl = objective.shaping, objective.kl.reward
    if shaping.per_component and kl is not None and kl.stage == "before_baseline":
        yield "shaping.per_component has a baseline per component: kl.reward.stage must be 'after_scale'"
    if (
        objective.baseline.kind == "gae"
        and kl is not None
        and kl.stage == "after_scale"
        and kl.form != "token"
    ):
        yield "baseline.kind 'gae' sums what each token pays: kl.reward.form must be 'token'"


def _counts(objective: Objective) -> Iterator[str]:
    kl = objective.kl.reward
    by_token = objective.baseline.kind == "gae" or (kl is not None and kl.form != "sum")
    spared = any(c.leaves_denominator and c.keep_nonnegative for c in objective.ratio.corrections)
    if by_token and spared and objective.scale.whiten is not None:
        yield (
            "ratio.corrections: keep_nonnegative with leaves_denominator needs the sign of advantages, which "
            "scale.whiten gives to tokens only after the count"
        )
