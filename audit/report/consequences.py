"""What each field of an objective does to training, in one line; and what a difference in it means."""

from __future__ import annotations

from typing import Any

PARTS = {
    "shaping": "which reward the objective sees",
    "filter": "which responses and tokens train at all",
    "baseline": "what a reward is measured against",
    "scale": "how much easy and hard prompts count",
    "ratio": "how a policy that has moved on is corrected for",
    "clip": "which tokens lose their weight once the policy has moved",
    "aggregation": "how much a token of a long response counts against one of a short",
    "kl": "the pull back to the reference",
}
"""What a part of an objective decides."""

_FIELDS = {
    "shaping.clip": "rewards beyond the bounds count as the bound: outliers lose their pull",
    "shaping.overlong": "long responses pay before the baseline is taken: length is penalised on purpose",
    "shaping.overlong.max_length": "where the length penalty is complete",
    "shaping.overlong.cache": "how early before that length the penalty begins",
    "shaping.overlong.penalty": "how much reward an overlong response loses",
    "filter.dynamic_sampling": "groups without signal leave the batch, so the others weigh more",
    "filter.mask_truncated": "cut-off responses take no loss: being cut is neither rewarded nor punished",
    "baseline.kind": "another baseline changes the variance and, unless it leaves the response out, the scale",
    "scale.kind": (
        "dividing by the group's std gives hard and easy prompts up to 40 % more weight "
        "and makes KL relatively weaker"
    ),
    "scale.ddof": "ddof 1 makes every std larger: all weights shrink by one factor, less so in large groups",
    "scale.epsilon": "matters only where the std is as small as epsilon: it damps nearly uniform groups",
    "ratio.denominator": "ratios against the sampler also correct for the inference engine; theta: none at all",
    "ratio.level": "one ratio per response moves all its tokens together; per token each is judged alone",
    "clip.kind": "PPO's clip removes tokens beyond the bound; CISPO only caps their weight and keeps them",
    "clip.epsilon_low": "a wider lower bound lets tokens that are punished fall further in one step",
    "clip.epsilon_high": "a wider upper bound lets rare tokens that are rewarded grow further in one step",
    "clip.delta": "caps the ratio of punished tokens: one stale token cannot dominate the step",
    "clip.dual": "punished tokens whose ratio has grown beyond the bound are removed",
    "aggregation.kind": "another divisor: it decides whether length changes the weight of a token",
    "aggregation.scope": "what the divisor counts: one micro-batch, one optimiser step, or one generation batch",
    "aggregation.constant": "a common factor on every weight: acts as another learning rate",
    "kl.reward": "KL in the reward enters the advantage and is divided by the std with it",
    "kl.reward.coefficient": "a stronger pull to the reference, inside the advantage",
    "kl.reward.estimator": "another estimate of the same KL: other variance, other sign behaviour per token",
    "kl.loss": "KL in the loss pulls every token to the reference, whatever its advantage",
    "kl.loss.coefficient": "a stronger pull to the reference, on every token",
    "kl.loss.estimator": "in the loss k1 has no mean gradient, k2 reverse KL, k3 forward KL",
    "kl.loss.gradient": "with the ratio, k3 has the reverse-KL gradient; without, the forward-KL gradient",
}

_VALUES = {
    ("baseline.kind", "none"): "raw rewards",
    ("baseline.kind", "group_mean"): "the group's mean",
    ("baseline.kind", "leave_one_out"): "the others' mean (unbiased)",
    ("baseline.kind", "greedy"): "the greedy response",
    ("baseline.kind", "batch_mean"): "the batch's mean, so easy prompts are pushed up",
    ("baseline.kind", "logged"): "the advantage as logged",
    ("aggregation.kind", "seq-mean-token-mean"): "every response counts alike, its tokens share 1/|o|",
    ("aggregation.kind", "token-mean"): "every token of the batch counts alike",
    ("aggregation.kind", "seq-mean-token-sum"): "every token counts alike, long responses count more",
    ("aggregation.kind", "seq-mean-token-sum-norm"): "every token counts alike, over a constant",
    ("aggregation.kind", "token-sum"): "every token counts alike, nothing divides",
    ("aggregation.kind", "token-sum-norm"): "every token counts alike, over a constant",
}


def consequence(field: str, a: Any = None, b: Any = None) -> str:
    """Return what a difference in ``field`` does, in one line; for some fields, said for each value."""
    said = [_VALUES.get((field, value)) for value in (a, b) if isinstance(value, str)]
    if len(said) == 2 and all(said):
        return f"A: {said[0]}; B: {said[1]}" if said[0] != said[1] else str(said[0])
    parent = field.rpartition(".")[0]
    return _FIELDS.get(field) or _FIELDS.get(parent) or PARTS.get(field.partition(".")[0], "")


def documented() -> frozenset[str]:
    """Return the fields that have a consequence of their own."""
    return frozenset(_FIELDS)
