"""Choices that cannot be had together: what one part asks for and another would silently leave out."""

from __future__ import annotations

from collections.abc import Iterator

from audit.objectives.parts import Baseline, Ratio, RewardKL, Scale, Shaping


def contradictions(
    shaping: Shaping, baseline: Baseline, scale: Scale, ratio: Ratio, kl: RewardKL | None
) -> Iterator[str]:
    """Yield one sentence for each contradiction between parts of an objective; ``kl`` is the reward's."""
    yield from _without_baseline(baseline, scale)
    yield from _reward(shaping, baseline, kl)
    yield from _counts(baseline, scale, ratio, kl)


def _without_baseline(baseline: Baseline, scale: Scale) -> Iterator[str]:
    kind = baseline.kind
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


def _reward(shaping: Shaping, baseline: Baseline, kl: RewardKL | None) -> Iterator[str]:
    if shaping.per_component and kl is not None and kl.stage == "before_baseline":
        yield "shaping.per_component has a baseline per component: kl.reward.stage must be 'after_scale'"
    if baseline.kind == "gae" and kl is not None and kl.stage == "after_scale" and kl.form != "token":
        yield "baseline.kind 'gae' sums what each token pays: kl.reward.form must be 'token'"


def _counts(baseline: Baseline, scale: Scale, ratio: Ratio, kl: RewardKL | None) -> Iterator[str]:
    by_token = baseline.kind == "gae" or (kl is not None and kl.form != "sum")
    spared = any(c.leaves_denominator and c.keep_nonnegative for c in ratio.corrections)
    if by_token and spared and scale.whiten is not None:
        yield (
            "ratio.corrections: keep_nonnegative with leaves_denominator needs the sign of advantages, which "
            "scale.whiten gives to tokens only after the count"
        )
