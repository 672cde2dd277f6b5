"""TRL's GRPOTrainer. Where it departs from the papers:

- ``grpo``, ``sapo``, ``bnpo``, ``dr_grpo`` and ``luspo`` normalise within one micro-batch and average
  micro-batches; ``dapo``, ``cispo`` and ``vespo`` divide by the tokens of the whole generation batch, times
  the share of it that one update consumes (only since 1.10.0: before, the loss was off by accumulation /
  steps_per_generation, which is ``aggregation.factor`` here).
- the std has ddof 1 and 1e-4 added to it; ``epsilon_high=None`` means ``epsilon``.
- ``cispo`` takes ``epsilon_high`` as an absolute cap on the ratio, not as 1 + epsilon.
- the k3 of the loss is multiplied by the policy ratio when ``use_bias_correction_kl`` (default from 1.10.0).
- ``luspo`` before 1.10.0 averaged over the padded width as soon as the loss was per token.
- ``top_entropy_quantile`` is the share of tokens that is kept, not the quantile.
- ``normalize_then_sum`` (GDPO) standardises each reward, and their sum over the generation batch; it ignores
  ``scale_rewards``. ``reward_weights`` is otherwise in the reward already.

Read: grpo_trainer.py ``_generate_and_score_completions``, ``_compute_loss``; versions as in
:mod:`~audit.objectives.dialects.trl`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit.errors import BadObjective
from audit.objectives.dialects.trl_corrections import corrections, uses_vllm_correction
from audit.objectives.objective import (
    KL,
    Aggregation,
    Baseline,
    Filter,
    LossKL,
    Objective,
    Ratio,
    Scale,
    Shaping,
    Whiten,
)
from audit.objectives.surrogates import SAPO, VESPO, AnySurrogate, CISPOClip, NoClip, PPOClip

Config = Mapping[str, Any]
Version = tuple[int, int, int]

_PPO_LOSSES = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo")
_GENERATION_BATCH = ("dapo", "cispo", "vespo")


def grpo(config: Config, version: Version, notes: list[str], *, geometric: bool = False) -> Objective:
    """Build the objective of a completed GRPOConfig; what was assumed is added to ``notes``.

    Parameters
    ----------
    geometric : bool
        The ``geometric_`` modes of sampler weights exist (Unsloth).

    Raises
    ------
    BadObjective
    """
    refuse_entropy_bonus(config)
    loss = _loss_type(config, version)
    level = config.get("importance_sampling_level", "token")
    recomputed = version >= (0, 16)
    on_policy = recomputed and always_on_policy(config, version)
    if on_policy:
        notes.append(
            "Every optimiser step uses fresh samples: the policy ratio is 1 and the clip never acts."
        )
    if config.get("use_liger_loss") or (version < (1, 9) and config.get("use_liger_kernel")):
        notes.append(
            "The loss ran in Liger's kernel: it equals TRL's own, except luspo with a loss per token."
        )
    # A ratio of 1 has no level, and through a response's ratio the corrected KL moves its other tokens too.
    detached = on_policy and level == "token"
    gdpo = config.get("multi_objective_aggregation") == "normalize_then_sum"
    return Objective(
        name=f"trl-{loss}" if level == "token" else f"trl-{loss}-{level}",
        shaping=_components(config) if gdpo else Shaping(),
        filter=Filter(
            mask_truncated=config.get("mask_truncated_completions", False),
            top_entropy=kept_entropy(config),
        ),
        baseline=Baseline(kind="group_mean"),
        scale=_gdpo_scale() if gdpo else _scale(config.get("scale_rewards", True)),
        ratio=Ratio(
            denominator="old" if recomputed and not detached else "theta",
            level=level,
            corrections=corrections(config, version, on_policy=on_policy, geometric=geometric),
        ),
        clip=surrogate(loss, config, config["epsilon"], epsilon_high(config)) if recomputed else NoClip(),
        aggregation=_aggregation(loss, config, version, notes),
        kl=loss_kl(config),
    )


def refuse_entropy_bonus(config: Config) -> None:
    """Refuse what is not of the form of a token weight times an advantage.

    Raises
    ------
    BadObjective
    """
    for option in ("use_adaptive_entropy", "entropy_coef"):
        if config.get(option):
            msg = (
                f"TRL's {option}={config[option]} is not expressible as an objective "
                "(an entropy bonus in the loss)."
            )
            raise BadObjective(msg)


def kept_entropy(config: Config) -> float:
    """Return the share of tokens that keeps its policy gradient.

    Raises
    ------
    BadObjective
    """
    share: float = config.get("top_entropy_quantile", 1.0)
    if not 0.0 < share <= 1.0:
        msg = f"TRL's top_entropy_quantile={share} must lie in (0, 1]: it is the share of tokens that trains."
        raise BadObjective(msg)
    return share


def loss_kl(config: Config) -> KL:
    """Return the k3 of the loss."""
    beta = config["beta"]
    if not beta:
        return KL()
    corrected = config.get("use_bias_correction_kl", False)
    return KL(loss=LossKL(coefficient=beta, gradient="ratio" if corrected else "pathwise"))


def epsilon_high(config: Config) -> float:
    """Return the upper epsilon, by default the lower one."""
    high: float | None = config.get("epsilon_high")
    if config["epsilon"] is None:
        msg = "TRL's epsilon is null: TRL computes with it, and would stop."
        raise BadObjective(msg)
    return config["epsilon"] if high is None else high


def always_on_policy(config: Config, version: Version) -> bool:
    """Whether the trainer takes the current policy, detached, for the old one."""
    accumulation = config.get("gradient_accumulation_steps")
    steps = config.get("steps_per_generation") or accumulation
    if not accumulation or uses_vllm_correction(config, version):
        return False
    return bool(accumulation % (steps * config["num_iterations"]) == 0)


def _loss_type(config: Config, version: Version) -> str:
    """Return ``loss_type``, or the loss that versions without that option had."""
    if version < (0, 16):
        return "grpo"
    loss: str = config.get("loss_type", "bnpo")
    if loss not in (*_PPO_LOSSES, "cispo", "sapo", "vespo"):
        raise BadObjective(f"TRL has no loss_type {loss!r}.")
    if loss == "luspo" and version < (1, 10) and not _one_value_per_response(config, version):
        msg = (
            "TRL's loss_type='luspo' before 1.10.0 with token-level ratios, a KL, an entropy mask or "
            "token-level sampler weights is not expressible as an objective (a sum averaged over the padded "
            "width)."
        )
        raise BadObjective(msg)
    return loss


def _one_value_per_response(config: Config, version: Version) -> bool:
    by_token = uses_vllm_correction(config, version) and str(
        config.get("vllm_importance_sampling_mode", "token_truncate")
    ).startswith("token")
    return (
        config.get("importance_sampling_level") == "sequence"
        and not config["beta"]
        and config.get("top_entropy_quantile", 1.0) == 1.0
        and not by_token
    )


def surrogate(loss: str, config: Config, low: float, high: float) -> AnySurrogate:
    """Return the surrogate of a loss_type, with epsilons ``low`` and ``high``."""
    if loss == "cispo":
        return CISPOClip(epsilon_high=high - 1.0)
    if loss == "sapo":
        return SAPO(
            tau_positive=config.get("sapo_temperature_pos", 1.0),
            tau_negative=config.get("sapo_temperature_neg", 1.05),
        )
    if loss == "vespo":
        return VESPO(
            k_positive=config.get("vespo_k_pos", 2.0),
            lambda_positive=config.get("vespo_lambda_pos", 3.0),
            k_negative=config.get("vespo_k_neg", 3.0),
            lambda_negative=config.get("vespo_lambda_neg", 2.0),
        )
    return PPOClip(epsilon_low=low, epsilon_high=high, delta=config.get("delta"))


def _aggregation(loss: str, config: Config, version: Version, notes: list[str]) -> Aggregation:
    if loss in _GENERATION_BATCH:
        factor = _misscale(config, version, notes)
        return Aggregation(kind="token-mean", scope="generation_batch", factor=factor)
    if loss == "bnpo":
        return Aggregation(kind="token-mean", scope="micro_batch")
    if loss == "luspo":
        return Aggregation(kind="seq-mean-token-sum", scope="micro_batch")
    if loss == "dr_grpo":
        budget = config["max_completion_length"]
        if not budget:
            msg = (
                "TRL's loss_type='dr_grpo' divides by max_completion_length, which this config leaves unset."
            )
            raise BadObjective(msg)
        return Aggregation(kind="seq-mean-token-sum-norm", scope="micro_batch", constant=float(budget))
    return Aggregation(kind="seq-mean-token-mean", scope="micro_batch")


def _misscale(config: Config, version: Version, notes: list[str]) -> float:
    """Accumulation / steps_per_generation before 1.10.0, where the normaliser did not follow accumulation."""
    accumulation = config.get("gradient_accumulation_steps")
    steps = config.get("steps_per_generation") or accumulation
    if version < (1, 9) and config.get("mask_truncated_completions"):
        notes.append("Before 1.9.0 masked (truncated) tokens still counted in the normaliser.")
    if version >= (1, 10) or steps == accumulation:
        return 1.0
    if not accumulation:
        notes.append(
            "Before 1.10.0 the normaliser did not follow accumulation: without "
            f"gradient_accumulation_steps in the config the weights are off by it / {steps}."
        )
        return 1.0
    notes.append(
        "Before 1.10.0 the normaliser did not follow accumulation: all weights are "
        f"{accumulation}/{steps} of what they should be."
    )
    factor: float = accumulation / steps
    return factor


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


def _gdpo_scale() -> Scale:
    whiten = Whiten(level="sequence", ddof=1, epsilon=1e-4)
    return Scale(kind="group_std", ddof=1, epsilon=1e-4, whiten=whiten)


def _components(config: Config) -> Shaping:
    """The rewards by name: ``reward_weights`` holds no names, so the config must list ``reward_funcs``."""
    names = config.get("reward_funcs")
    if not names:
        msg = (
            "TRL's multi_objective_aggregation='normalize_then_sum' standardises each reward alone, and this "
            "config does not name them: add reward_funcs, the names of the reward columns in order."
        )
        raise BadObjective(msg)
    names = [str(name).rpartition(".")[2] for name in ([names] if isinstance(names, str) else names)]
    weights = config.get("reward_weights") or [1.0] * len(names)
    if len(weights) != len(names):
        msg = f"TRL's reward_weights has {len(weights)} entries for {len(names)} reward_funcs."
        raise BadObjective(msg)
    return Shaping(per_component=True, weights=dict(zip(names, map(float, weights), strict=True)))
