"""TRL's corrections for the sampler: importance weights for vLLM, and the off-policy sequence mask.

- With ``use_vllm`` the weight old / sampler is on by default since 0.23.0: per token and truncated at 2, then
  (0.26.0) at 3; since 0.26.0 modes token or sequence × truncate or mask, by default ``sequence_mask``, where
  sequence is the product over the response. A lower bound exists since 1.6.0. It does not weigh the KL.
- ``off_policy_mask_threshold`` (DeepSeek-V3.2, since 0.27.0) drops a response whose advantage is negative and
  whose mean of log sampler - log theta exceeds the threshold; without sampler log-probs old stands in.
- Both change the numerator only: the tokens still count in the normaliser.

Read: grpo_trainer.py ``_generate_and_score_completions``, ``get_off_policy_mask``; versions as in
:mod:`~audit.objectives.dialects.trl`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from audit.errors import BadObjective
from audit.objectives.objective import Correction

_MODES: dict[str, tuple[Literal["token", "product", "sequence"], Literal["truncate", "mask"]]] = {
    "token_truncate": ("token", "truncate"),
    "token_mask": ("token", "mask"),
    "sequence_truncate": ("product", "truncate"),
    "sequence_mask": ("product", "mask"),
    "geometric_truncate": ("sequence", "truncate"),
    "geometric_mask": ("sequence", "mask"),
}
"""The ``geometric_`` modes are Unsloth's."""


def uses_vllm_correction(config: Mapping[str, Any], version: tuple[int, int, int]) -> bool:
    """Whether the sampler's log-probs enter the loss as weights."""
    asked = config.get("vllm_importance_sampling_correction", False)
    return bool(config.get("use_vllm") and asked and version >= (0, 23))


def corrections(
    config: Mapping[str, Any],
    version: tuple[int, int, int],
    *,
    on_policy: bool = False,
    geometric: bool = False,
) -> tuple[Correction, ...]:
    """Return the corrections of a completed GRPOConfig.

    Parameters
    ----------
    on_policy : bool
        The old policy is theta itself, so that a mask against it masks nothing.
    geometric : bool
        The ``geometric_`` modes exist (Unsloth).

    Raises
    ------
    BadObjective
        An unknown mode, or one that the loss cannot be combined with.
    """
    found = []
    threshold = config.get("off_policy_mask_threshold")
    if threshold is not None and (config.get("use_vllm") or not on_policy):
        found.append(
            Correction(
                action="gate",
                level="sequence",
                numerator="theta",
                against="sampler" if config.get("use_vllm") else "old",
                low=math.exp(-threshold),
                keep_nonnegative=True,
            )
        )
    if uses_vllm_correction(config, version):
        found.append(_vllm(config, version, geometric=geometric))
    return tuple(found)


def _vllm(config: Mapping[str, Any], version: tuple[int, int, int], *, geometric: bool) -> Correction:
    mode = config.get("vllm_importance_sampling_mode", "token_truncate")
    if mode not in _MODES or (mode.startswith("geometric") and not geometric):
        raise BadObjective(f"TRL has no vllm_importance_sampling_mode {mode!r}.")
    if config.get("loss_type") == "vespo" and not mode.startswith("token"):
        msg = f"TRL refuses loss_type='vespo' with vllm_importance_sampling_mode={mode!r}: only token modes."
        raise BadObjective(msg)
    level, action = _MODES[mode]
    cap = config.get("vllm_importance_sampling_cap")
    low = None
    if version >= (1, 6):
        low = config.get("vllm_importance_sampling_clip_min")
        cap = config.get("vllm_importance_sampling_clip_max") if cap is None else cap
    return Correction(action=action, level=level, low=low, high=cap)
