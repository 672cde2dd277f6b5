"""Which objectives can be trained on the testbed, and what they are completed with."""

from __future__ import annotations

import msgspec
import torch
from torch import Tensor

from audit.errors import BadObjective
from audit.objectives.batch import Responses
from audit.objectives.needs import needs_groups
from audit.objectives.objective import Objective
from audit.objectives.shaping import combined_reward, shaped_reward
from audit.testbed.language import Language
from audit.testbed.sampling import COMPONENTS


def prepared(objective: Objective, language: Language, group_size: int) -> Objective:
    """Return the objective with the testbed's generation budget as its constant, if it needs one.

    Raises
    ------
    BadObjective
        It cannot be trained here; the message says why.
    """
    reason = refusal(objective, group_size)
    if reason:
        msg = f"the testbed cannot train {objective.name}: {reason}"
        raise BadObjective(msg)
    aggregation = objective.aggregation
    if aggregation.kind.endswith("-norm") and aggregation.constant is None:
        aggregation = msgspec.structs.replace(aggregation, constant=float(language.budget))
    return objective.replace(aggregation=aggregation)


def refusal(objective: Objective, group_size: int) -> str:
    """Why an objective cannot be trained, one sentence; empty if it can."""
    strange = sorted(set(objective.shaping.weights or ()) - set(COMPONENTS))
    if strange:
        return (
            f"it has no reward component '{strange[0]}', only {' and '.join(COMPONENTS)} "
            "(set shaping.weights)."
        )
    if needs_groups(objective) and objective.baseline.kind != "greedy" and group_size < 2:
        return f"in groups of {group_size} there is nothing to compare a response with (--group-size)."
    if objective.baseline.kind == "pass_at_k" and (objective.baseline.k or 0) > group_size:
        return f"pass@{objective.baseline.k} needs groups of at least {objective.baseline.k} (--group-size)."
    return ""


def needs_critic(objective: Objective) -> bool:
    """Whether the objective's advantages come from a critic: here the exact values of the old policy."""
    return objective.baseline.kind in ("gae", "logged")


def terminal_reward(language: Language, objective: Objective) -> Tensor:
    """Reward of every response as the objective shapes it, KL apart; shape (P, R), float64."""
    one = torch.zeros(language.responses, dtype=torch.int64)
    first = (language.response_first == 0).to(torch.float64)
    rows = []
    for accuracy in language.reward:
        every = Responses(
            reward=accuracy,
            length=language.response_length,
            loss_tokens=language.response_length,
            group=one,
            update=one,
            generation_batch=one,
            components={"accuracy": accuracy, "format": first},
        )
        reward = combined_reward(every, objective.shaping)
        rows.append(shaped_reward(reward, language.response_length, objective.shaping))
    return torch.stack(rows)
