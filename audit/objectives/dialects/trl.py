"""TRL: GRPOConfig and RLOOConfig to an objective.

Read: trl/trainer/grpo_trainer.py, grpo_config.py, rloo_trainer.py, rloo_config.py; tagged sources 0.14.0 to
1.9.0 and released packages 1.10.0 to 1.16.0. Where TRL departs from the papers:

- ``grpo``, ``bnpo``, ``dr_grpo`` and ``luspo`` normalise within one micro-batch and average micro-batches;
  ``dapo`` and ``cispo`` divide by the tokens of the whole generation batch, times the share of it that one
  update consumes (only since 1.10.0: before, the loss was off by accumulation / steps_per_generation).
- the std has ddof 1 and 1e-4 added to it; ``epsilon_high=None`` means ``epsilon``.
- ``cispo`` takes ``epsilon_high`` as an absolute cap on the ratio, not as 1 + epsilon.
- the k3 of the loss is multiplied by the policy ratio when ``use_bias_correction_kl`` (default from 1.10.0).
- RLOOTrainer clips the product of a response's ratios and subtracts the k1 KL from the reward.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit.errors import BadObjective, UnknownName
from audit.objectives.dialects.declared import Declared
from audit.objectives.dialects.trl_config import complete, newest, unknown_options, version_number
from audit.objectives.objective import (
    KL,
    Aggregation,
    Baseline,
    Filter,
    LossKL,
    Objective,
    Ratio,
    RewardKL,
    Scale,
    Shaping,
)
from audit.objectives.surrogates import AnySurrogate, CISPOClip, NoClip, PPOClip

Config = Mapping[str, Any]
Version = tuple[int, int, int]

_CLASSES = {
    "grpo": "GRPOConfig",
    "grpotrainer": "GRPOConfig",
    "rloo": "RLOOConfig",
    "rlootrainer": "RLOOConfig",
}
_RLOO_ONLY = ("normalize_advantages", "reward_clip_range")
_PPO_LOSSES = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo")


def objective_from_config(config: Config, version: str, trainer: str | None = None) -> Declared:
    """Read a recorded GRPOConfig or RLOOConfig as that version of TRL would.

    Parameters
    ----------
    config : Mapping
        Keys of the config class; absent keys take the defaults of ``version``.
    version : str
        TRL's version, 0.14.0 or newer (RLOOTrainer: 0.22.0 or newer).
    trainer : str, optional
        "GRPOTrainer" or "RLOOTrainer" (also "grpo", "rloo"). By default RLOO if a key that only RLOOConfig
        has is present, else GRPO.

    Raises
    ------
    UnknownName
        Another trainer.
    BadObjective
        An option that an objective cannot express is in use, or the version is older than those read.
    """
    notes = []
    if trainer is None:
        trainer = "RLOOTrainer" if any(key in config for key in _RLOO_ONLY) else "GRPOTrainer"
        notes.append(f"The config does not name its trainer: read as {trainer}'s.")
    if trainer.lower() not in _CLASSES:
        raise UnknownName.of("TRL trainer", trainer, ["GRPOTrainer", "RLOOTrainer"])
    config_class = _CLASSES[trainer.lower()]
    full = complete(config, version, config_class)
    number = version_number(version)
    if number[:2] > version_number(newest())[:2]:
        notes.append(
            f"TRL {version} is newer than the last version read ({newest()}): its defaults are assumed."
        )
    if full.get("sync_ref_model"):
        notes.append("The reference is not frozen (sync_ref_model): logp_ref is what each step used.")
    build = _rloo if config_class == "RLOOConfig" else _grpo
    objective = build(full, number, notes)
    return Declared(objective, unknown_options(config, config_class), tuple(notes))


def _grpo(config: Config, version: Version, notes: list[str]) -> Objective:
    _refuse_grpo(config, version)
    loss = _loss_type(config, version)
    cispo = loss == "cispo"
    level = config.get("importance_sampling_level", "token")
    recomputed = version >= (0, 16)
    if recomputed and _always_on_policy(config):
        notes.append(
            "Every optimiser step uses fresh samples: the policy ratio is 1 and the clip never acts."
        )
    if config.get("use_liger_loss") or (version < (1, 9) and config.get("use_liger_kernel")):
        notes.append("The loss ran in Liger's kernel, which was not read: taken to equal TRL's own.")
    if loss in ("dapo", "cispo"):
        _note_normaliser(config, version, notes)

    clip: AnySurrogate = NoClip()
    if cispo:
        clip = CISPOClip(epsilon_high=_epsilon_high(config) - 1.0)
    elif recomputed:
        clip = PPOClip(
            epsilon_low=config["epsilon"],
            epsilon_high=_epsilon_high(config),
            delta=config.get("delta"),
        )
    beta = config["beta"]
    corrected = config.get("use_bias_correction_kl", False)
    return Objective(
        name=f"trl-{loss}" if level == "token" else f"trl-{loss}-{level}",
        filter=Filter(mask_truncated=config.get("mask_truncated_completions", False)),
        baseline=Baseline(kind="group_mean"),
        scale=_scale(config.get("scale_rewards", True)),
        ratio=Ratio(denominator="old", level=level) if recomputed else Ratio(),
        clip=clip,
        aggregation=_aggregation(loss, config["max_completion_length"]),
        kl=KL(loss=LossKL(coefficient=beta, gradient="ratio" if corrected else "pathwise") if beta else None),
    )


def _rloo(config: Config, version: Version, notes: list[str]) -> Objective:
    if version < (0, 22):
        msg = (
            "TRL's RLOOTrainer before 0.22.0 is another algorithm (PPO epochs, rloo_k), which is not covered."
        )
        raise BadObjective(msg)
    if config["normalize_advantages"]:
        raise _not_expressible("normalize_advantages=True", "advantages whitened over the generation batch")
    beta, bounds = config["beta"], config["reward_clip_range"]
    if beta and config["mask_truncated_completions"]:
        notes.append("The KL in the reward of a truncated response counts none of its tokens.")
    return Objective(
        name="trl-rloo",
        shaping=Shaping(clip=(float(bounds[0]), float(bounds[1])) if bounds else None),
        filter=Filter(mask_truncated=config["mask_truncated_completions"]),
        baseline=Baseline(kind="leave_one_out"),
        ratio=Ratio(denominator="old", level="product"),
        clip=PPOClip(epsilon_low=config["epsilon"], epsilon_high=_epsilon_high(config)),
        aggregation=Aggregation(kind="seq-mean-token-sum", scope="micro_batch"),
        kl=KL(reward=RewardKL(coefficient=beta, estimator="k1") if beta else None),
    )


def _refuse_grpo(config: Config, version: Version) -> None:
    if config.get("top_entropy_quantile", 1.0) < 1.0:
        raise _not_expressible(f"top_entropy_quantile={config['top_entropy_quantile']}", "an entropy mask")
    if config.get("entropy_coef") or config.get("use_adaptive_entropy"):
        option = "use_adaptive_entropy" if config.get("use_adaptive_entropy") else "entropy_coef"
        raise _not_expressible(f"{option}={config[option]}", "an entropy bonus in the loss")
    if config.get("off_policy_mask_threshold") is not None:
        option = f"off_policy_mask_threshold={config['off_policy_mask_threshold']}"
        raise _not_expressible(option, "rows masked by their distance from the sampler")
    if config.get("multi_objective_aggregation") == "normalize_then_sum":
        raise _not_expressible("multi_objective_aggregation='normalize_then_sum'", "per-reward scales (GDPO)")
    corrected = config.get("vllm_importance_sampling_correction", False) and version >= (0, 23)
    if config.get("use_vllm") and corrected:
        raise _not_expressible(
            "use_vllm=True with vllm_importance_sampling_correction=True", "sampler correction weights"
        )


def _loss_type(config: Config, version: Version) -> str:
    """Return ``loss_type``, or the loss that versions without that option had."""
    if version < (0, 16):
        return "grpo"
    loss: str = config.get("loss_type", "bnpo")
    if loss in ("sapo", "vespo"):
        raise _not_expressible(f"loss_type='{loss}'", "its soft weight on the ratio")
    if loss not in (*_PPO_LOSSES, "cispo"):
        raise BadObjective(f"TRL has no loss_type {loss!r}.")
    plain = config.get("importance_sampling_level") == "sequence" and not config["beta"]
    if loss == "luspo" and version < (1, 10) and not plain:
        raise _not_expressible(
            "loss_type='luspo' before 1.10.0 with token-level ratios or a KL",
            "a sum averaged over the padded width",
        )
    return loss


def _aggregation(loss: str, max_completion_length: int | None) -> Aggregation:
    if loss in ("dapo", "cispo"):
        return Aggregation(kind="token-mean", scope="generation_batch")
    if loss == "bnpo":
        return Aggregation(kind="token-mean", scope="micro_batch")
    if loss == "luspo":
        return Aggregation(kind="seq-mean-token-sum", scope="micro_batch")
    if loss == "dr_grpo":
        if not max_completion_length:
            msg = (
                "TRL's loss_type='dr_grpo' divides by max_completion_length, which this config leaves unset."
            )
            raise BadObjective(msg)
        return Aggregation(
            kind="seq-mean-token-sum-norm", scope="micro_batch", constant=float(max_completion_length)
        )
    return Aggregation(kind="seq-mean-token-mean", scope="micro_batch")


def _scale(scale_rewards: bool | str) -> Scale:
    kinds = {True: "group", False: "none"}
    name = kinds[scale_rewards] if isinstance(scale_rewards, bool) else scale_rewards
    if name == "none":
        return Scale()
    if name == "group":
        return Scale(kind="group_std", ddof=1, epsilon=1e-4)
    if name == "batch":
        return Scale(kind="batch_std", ddof=1, epsilon=1e-4)
    raise BadObjective(f"TRL has no scale_rewards {scale_rewards!r}.")


def _epsilon_high(config: Config) -> float:
    high: float | None = config.get("epsilon_high")
    return config["epsilon"] if high is None else high


def _always_on_policy(config: Config) -> bool:
    accumulation = config.get("gradient_accumulation_steps")
    steps = config.get("steps_per_generation") or accumulation
    if not accumulation or config.get("use_vllm"):
        return False
    return bool(accumulation % (steps * config["num_iterations"]) == 0)


def _note_normaliser(config: Config, version: Version, notes: list[str]) -> None:
    accumulation = config.get("gradient_accumulation_steps")
    steps = config.get("steps_per_generation") or accumulation
    if version < (1, 10) and accumulation and steps != accumulation:
        notes.append(
            f"Before 1.10.0 the normaliser did not follow accumulation: the true weights are "
            f"{accumulation}/{steps} of those given here."
        )
    if version < (1, 9) and config.get("mask_truncated_completions"):
        notes.append("Before 1.9.0 masked (truncated) tokens still counted in the normaliser.")


def _not_expressible(option: str, what: str) -> BadObjective:
    return BadObjective(f"TRL's {option} is not expressible as an objective yet ({what}).")
