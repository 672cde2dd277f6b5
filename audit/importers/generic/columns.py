"""Names that logs give to the columns of the rollout schema, and which name of a record means which.

A name is taken by itself only where it can mean one thing: ``logprobs`` may be the trainer's or the
sampler's, ``epoch`` a pass over the data or over one batch, so these wait until somebody says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from audit.errors import closest
from audit.schema import BY_NAME

ALIASES: dict[str, str] = {
    "step": "global_step global_steps training_step train_step trainer_step iteration iter",
    "prompt": "prompts prompt_text input inputs query queries question problem instruction",
    "response": "responses response_text completion completions completion_text output outputs output_text "
    "generation generations generated_text model_output",
    "reward": "rewards score scores total_reward final_reward reward_score",
    "reward_components": "reward_parts reward_breakdown rewards_by_name",
    "prompt_id": "problem_id example_id question_id task_id task_hash prompt_hash",
    "group_id": "group uid group_key group_index group_idx prompt_index prompt_idx index",
    "sample_index": "sample_idx completion_index completion_idx response_index response_idx rollout_index "
    "rollout_idx traj_idx",
    "trajectory_id": "traj_id trajectory episode_id",
    "turn": "turn_index turn_idx turn_id",
    "prompt_length": "prompt_len prompt_lengths input_len input_length num_prompt_tokens prompt_tokens",
    "length": "response_length response_len response_lengths completion_length completion_len output_length "
    "output_len num_response_tokens num_completion_tokens completion_tokens",
    "token_ids": "response_ids completion_ids output_ids response_token_ids completion_token_ids "
    "output_token_ids response_tokens output_tokens completion_tokens",
    "loss_mask": "response_mask completion_mask action_mask response_loss_mask token_loss_mask mask",
    "logp_theta": "current_log_probs current_logprobs new_log_probs new_logprobs policy_log_probs "
    "policy_logprobs logp_current",
    "logp_old": "old_log_probs old_log_prob old_logprobs old_logps old_per_token_logps prev_logprobs "
    "old_action_log_probs",
    "logp_ref": "ref_log_prob ref_log_probs ref_logprobs ref_logps ref_per_token_logps reference_logprobs "
    "reference_log_probs base_action_log_probs",
    "logp_sampler": "rollout_log_probs rollout_logprobs sampling_logprobs sampling_log_probs "
    "sampling_per_token_logps sampler_logprobs inference_logprobs generation_logprobs vllm_logprobs "
    "sglang_logprobs behavior_logprobs",
    "entropy": "entropies token_entropy per_token_entropy",
    "advantage": "adv advantages",
    "token_advantage": "token_advantages per_token_advantages",
    "value": "values critic_values",
    "finish_reason": "stop_reason finish_reasons termination_reason stop_condition",
    "correct": "is_correct accuracy acc",
    "is_greedy": "greedy",
    "policy_version": "trainer_version",
    "sampler_version": "weight_version rollout_version generation_version",
    "created_at": "timestamp created",
    "prompt_token_ids": "prompt_ids prompt_tokens",
    "messages": "conversation",
}
"""Column of the schema, or what stands in for a prompt → names that are taken for it, the surest first."""

ASK = {
    "epoch": "epoch is a pass over the same batch",
    "logprobs": "logp_sampler, logp_old or logp_theta",
    "log_probs": "logp_sampler, logp_old or logp_theta",
    "logps": "logp_sampler, logp_old or logp_theta",
    "logp": "logp_sampler, logp_old or logp_theta",
    "per_token_logps": "logp_sampler, logp_old or logp_theta",
}
"""Names that may mean several things → what somebody has to say."""

TARGETS = (*BY_NAME, "prompt_token_ids", "messages")
_TAKEN: dict[str, list[str]] = {}
for _target, _names in ALIASES.items():
    for _name in _names.split():
        _TAKEN.setdefault(_name, []).append(_target)

_NEEDED = {
    "prompt": ("prompt", "prompt_id", "prompt_token_ids", "messages"),
    "reward": ("reward", "reward_components", "advantage"),
}
"""What a log must have to be read at all → the columns of which one is enough."""


class Plan(NamedTuple):
    """Which names of a record mean what."""

    sources: dict[str, tuple[str, ...]]
    """Target → names or a dotted path, the surest first; the first that has a value of its kind is taken."""
    exact: frozenset[str]
    """Targets that the record names as the schema does, or that somebody declared."""


def plan_of(names: Iterable[str], declared: Mapping[str, str]) -> Plan:
    """Say what each name may mean: what was declared, then the schema's own name, then aliases."""
    names = [str(name) for name in names]
    said = set(declared.values())
    native = {"prompt_id", "group_id", "sample_index"} <= set(names)
    found: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        if name in said:
            continue
        plain = normal(name)
        if plain in TARGETS and plain not in declared and (native or plain not in ASK):
            found.setdefault(plain, []).append((-1, name))
        for target in _TAKEN.get(plain, ()):
            if target not in declared:
                found.setdefault(target, []).append((ALIASES[target].split().index(plain), name))
    sources = {target: tuple(name for _, name in sorted(each)) for target, each in found.items()}
    exact = {target for target, each in found.items() if any(rank < 0 for rank, _ in each)}
    return Plan(
        sources | {target: (name,) for target, name in declared.items()}, frozenset(exact | set(declared))
    )


def normal(name: str) -> str:
    """Return a name as aliases are written: ``Group ID`` and ``group-id`` are ``group_id``."""
    return re.sub(r"\W+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())).strip("_").lower()


def lacking(plan: Plan) -> list[str]:
    """Return the columns that a log lacks to be read at all."""
    return [name for name, instead in _NEEDED.items() if plan.sources.keys().isdisjoint(instead)]


def missing(plan: Plan) -> list[str]:
    """Return what a log lacks to be read at all, each with the names that would be taken."""
    also = {"prompt": "or prompt_id; "}
    return [f"{name} ({also.get(name, '')}also taken: {_listed(name)})" for name in lacking(plan)]


def is_named(source: str, names: Iterable[str]) -> bool:
    """Tell whether a source, which may be a dotted path, starts at one of the names."""
    return source in (held := set(names)) or source.split(".", 1)[0] in held


def _listed(target: str) -> str:
    return ", ".join(ALIASES[target].split())


def unknown(names: Iterable[str], plan: Plan) -> tuple[list[str], list[str]]:
    """Return the names that mean nothing, each with the closest column, and those that may mean several."""
    used = {each for sources in plan.sources.values() for each in sources}
    used |= {each.split(".")[0] for each in used}
    rest = [name for name in names if name not in used and not name.startswith("__")]
    asked = [f"{name} ({ASK[normal(name)]}?)" for name in rest if normal(name) in ASK]
    return [f"{n}{closest(n, TARGETS, limit=1)}" for n in rest if normal(n) not in ASK], asked
