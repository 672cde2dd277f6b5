"""Rows of the summary that follow from the fields of an objective."""

from __future__ import annotations

from audit.objectives.objective import Objective

_CRITIC = ("gae", "logged")
_OVER_GROUPS = ("group_mean", "leave_one_out", "length_weighted", "runner_up", "pass_at_k")
_POLICIES = {"theta": "π_θ itself (on-policy)", "old": "π_old", "sampler": "the inference engine's policy"}


def samples(objective: Objective) -> str:
    """Whose samples train, and how many of a prompt."""
    if objective.baseline.kind == "greedy":
        number = "a response per prompt, plus one greedy decode"
    elif objective.baseline.kind in _OVER_GROUPS:
        number = "G responses per prompt"
    else:
        number = "one response per prompt, or more"
    told = f"{_POLICIES[objective.ratio.denominator]}: {number}"
    if objective.ratio.denominator != "sampler" and objective.ratio.corrections:
        told += ", corrected for the inference engine that drew them"
    if objective.filter.dynamic_sampling:
        told += "; only groups whose rewards differ are kept"
    return told


def credit(objective: Objective) -> str:
    """At which unit a token earns its weight."""
    if objective.baseline.kind in _CRITIC:
        advantage = "one advantage per token, from a critic"
    elif objective.kl.reward is not None and objective.kl.reward.form != "sum":
        advantage = "one reward per response, KL paid token by token"
    else:
        advantage = "one advantage per response, shared by its tokens"
    whole = objective.ratio.level != "token" or objective.clip.kind in ("vespo", "gmpo")
    if objective.ratio.denominator == "theta":
        return advantage
    return f"{advantage}; one ratio per {'response' if whole else 'token'}"


def memory(objective: Objective) -> str:
    """Which models training holds."""
    held = ["policy"]
    if objective.baseline.kind in _CRITIC:
        held.append("critic")
    pulls = (objective.kl.loss, objective.kl.reward)
    if any(pull is not None and getattr(pull, "against", None) is None for pull in pulls):
        held.append("reference")
    return f"{', '.join(held)} (and the reward's model, if it is one)"
