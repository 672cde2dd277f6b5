"""verl: the config of its PPO trainer (ppo_trainer.yaml, dotted or nested) to an objective.

Read: the released packages 0.1, 0.2.0, 0.3.0, 0.4.0, 0.4.1, 0.5.0, 0.6.0, 0.6.1, 0.7.0, 0.7.1, 0.8.0, 0.9.0
and 0.9.1: verl/trainer/ppo/core_algos.py, ray_trainer.py, rollout_corr_helper.py,
verl/workers/actor/dp_actor.py, verl/workers/utils/losses.py, verl/trainer/config. Where verl departs from the
papers is said per part: ``verl_advantage``, ``verl_loss``,
``verl_aggregation``, ``verl_kl``, ``verl_corrections``. Besides:

- the FSDP actor of 0.6.0 to 0.7.1 took the current policy, detached, for the old one where one mini-batch and
  one epoch make the whole batch; otherwise log-probs are recomputed before the first update.
- DAPO's overlong penalty (0 until max_resp_len - len, then falling without a cap) is in the score that
  verl logs, so it is no part of the objective.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from audit.errors import BadObjective
from audit.objectives.dialects import verl_config
from audit.objectives.dialects.declared import Declared, hints
from audit.objectives.dialects.tables import version_number
from audit.objectives.dialects.verl_advantage import advantage
from audit.objectives.dialects.verl_aggregation import kl_aggregation, legacy_worker, policy_aggregation
from audit.objectives.dialects.verl_config import Version
from audit.objectives.dialects.verl_corrections import RolloutCorrection, rollout_correction
from audit.objectives.dialects.verl_kl import kl_terms
from audit.objectives.dialects.verl_loss import loss_mode, ratio, surrogate
from audit.objectives.objective import Filter, Objective
from audit.objectives.surrogates import NoClip

NAME = "verl"

REFUSED_DEFAULTS = {"actor.entropy_coeff": 0}
"""Options whose default in some versions no objective expresses, and the value that switches them off."""

_OVERLONG = ("overlong_buffer_cfg.", "overlong_buffer.")


def objective_from_config(config: Mapping[str, Any], version: str, trainer: str | None = None) -> Declared:
    """Read a recorded verl config as that version's PPO trainer would.

    Parameters
    ----------
    config : Mapping
        Hydra's config: nested dicts, dotted overrides, or both. Absent keys take the defaults of ``version``.
    version : str
        verl's version, 0.1 or newer.
    trainer : str, optional
        Not used: verl has one trainer for all of its algorithms.

    Raises
    ------
    BadObjective
        An option that an objective cannot express is in use, or the version does not have it.
    """
    del trainer
    given = verl_config.flat(config)
    full = verl_config.complete(given, version)
    number = version_number(version, "verl")
    newest = verl_config.versions()[1]
    notes = []
    if number[:2] > version_number(newest)[:2]:
        notes.append(
            f"verl {version} is newer than the last version read ({newest}): its defaults are assumed."
        )
    notes += [
        f"{key} is not an option of verl {version}: it has no effect."
        for key in verl_config.of_other_versions(given, version)
    ]
    _refuse(full)
    _note_clip_ratio(given, number, notes)
    objective = _objective(full, version, number, notes)
    unknown = verl_config.unknown_options(given)
    return Declared(objective, unknown, (*notes, *hints("verl", unknown, verl_config.options())))


def defaults(config: Mapping[str, Any], version: str, trainer: str | None = None) -> dict[str, Any]:
    """Return the defaults that ``version`` gives to the keys that ``config`` leaves open.

    Raises
    ------
    BadObjective
    """
    del trainer
    given = verl_config.flat(config)
    return {key: value for key, value in verl_config.defaults_of(version).items() if key not in given}


def versions() -> tuple[str, str]:
    """Return the oldest and the newest version read."""
    return verl_config.versions()


def _objective(full: Mapping[str, Any], version: str, number: Version, notes: list[str]) -> Objective:
    made = advantage(full, version)
    mode = loss_mode(full, version)
    correction = rollout_correction(full, number, mode)
    on_policy = _always_on_policy(full, number, notes)
    mode = _loss_that_runs(mode, correction, number)
    policy = policy_aggregation(mode, full, number, notes)
    for_kl = kl_aggregation(full, number)
    sampler = correction.bypass is not None
    reinforce = correction.bypass == "reinforce"
    how = ratio("gpg" if reinforce else mode, number, on_policy=on_policy, sampler=sampler)
    return Objective(
        name="-".join(
            ("verl", str(full["algorithm.adv_estimator"]).lower(), "reinforce" if reinforce else mode)
        ),
        shaping=made.shaping,
        filter=_filter(full, number, notes),
        baseline=made.baseline,
        scale=made.scale,
        ratio=msgspec.structs.replace(how, corrections=correction.corrections),
        clip=NoClip() if reinforce else surrogate(mode, full, number),
        aggregation=policy,
        kl=kl_terms(full, number, notes, sampler=sampler, aggregation=None if for_kl == policy else for_kl),
    )


def _loss_that_runs(mode: str, correction: RolloutCorrection, number: Version) -> str:
    """Bypass since 0.7.0 replaces the loss by the clipped one, or by plain REINFORCE."""
    if correction.bypass is None:
        return mode
    replaced = number >= (0, 7) or correction.bypass == "reinforce"
    return "vanilla" if replaced else mode


def _refuse(full: Mapping[str, Any]) -> None:
    entropy = full["actor.entropy_coeff"]
    if entropy:
        msg = (
            f"verl's actor.entropy_coeff={entropy} is not expressible as an objective (an entropy bonus in "
            "the loss; the default was 0.001 before 0.4.0). Set it to 0 to read the rest."
        )
        raise BadObjective(msg)
    if full.get("algorithm.use_pf_ppo"):
        msg = "verl's algorithm.use_pf_ppo=True is not expressible as an objective (rows drawn by reward)."
        raise BadObjective(msg)


def _note_clip_ratio(given: Mapping[str, Any], number: Version, notes: list[str]) -> None:
    sides = [given.get(f"actor.clip_ratio_{side}", ...) for side in ("low", "high")]
    if number >= (0, 4) and "actor.clip_ratio" in given and ... in sides:
        notes.append(
            "actor.clip_ratio does not set a side that clip_ratio_low or clip_ratio_high has by default: "
            "since 0.4.0 both are 0.2 unless they are set themselves."
        )


def _always_on_policy(full: Mapping[str, Any], number: Version, notes: list[str]) -> bool:
    if number < (0, 6) or not legacy_worker(full, number) or full.get("actor.use_rollout_log_probs"):
        return False
    one_batch = full["data.train_batch_size"] <= full["actor.ppo_mini_batch_size"]
    if not one_batch or full["actor.ppo_epochs"] != 1:
        return False
    notes.append("One mini-batch and one epoch: the policy ratio is 1 and the clip never acts.")
    return True


def _filter(full: Mapping[str, Any], number: Version, notes: list[str]) -> Filter:
    _note_overlong(full, notes)
    if not full.get("algorithm.filter_groups.enable"):
        return Filter()
    metric = full.get("algorithm.filter_groups.metric")
    if metric not in ("reward", "seq_reward", "score", None):
        notes.append(f"Groups are dropped where all have one {metric!r}; here where all have one reward.")
    if number < (0, 9):
        notes.append("algorithm.filter_groups is read by DAPO's own trainer, not by verl's before 0.9.0.")
    return Filter(dynamic_sampling=True)


def _note_overlong(full: Mapping[str, Any], notes: list[str]) -> None:
    for key, value in full.items():
        prefix, marker, leaf = _split_overlong(key)
        if leaf != "enable" or not value:
            continue
        group = {name: full.get(prefix + marker + name) for name in ("len", "penalty_factor")}
        notes.append(
            f"The overlong penalty (the last {group['len']} tokens, up to {group['penalty_factor']} and "
            "beyond, without a cap) is in the score that verl logs."
        )


def _split_overlong(key: str) -> tuple[str, str, str]:
    for marker in _OVERLONG:
        prefix, found, leaf = key.partition(marker)
        if found and prefix.startswith("reward"):
            return prefix, marker, leaf
    return "", "", ""
