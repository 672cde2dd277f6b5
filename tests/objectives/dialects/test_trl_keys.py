"""Any combination of TRL's options is an objective, or is refused by the name of one of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.errors import BadObjective
from audit.objectives.dialects import from_framework
from audit.objectives.objective import from_dict

VALUES: dict[str, list[Any]] = {
    "loss_type": ["grpo", "bnpo", "dr_grpo", "dapo", "cispo", "luspo", "sapo", "vespo", "nope"],
    "scale_rewards": [True, False, "group", "batch", "none", "nope"],
    "beta": [0.0, 0.1],
    "epsilon": [0.2, 3e-4],
    "epsilon_high": [None, 0.28, 5.0],
    "delta": [None, 4.0],
    "importance_sampling_level": ["token", "sequence"],
    "mask_truncated_completions": [True, False],
    "max_completion_length": [32, None],
    "top_entropy_quantile": [1.0, 0.2, 0.0],
    "use_bias_correction_kl": [True, False],
    "use_vllm": [True, False],
    "vllm_importance_sampling_correction": [True, False],
    "vllm_importance_sampling_mode": ["token_truncate", "sequence_mask", "nope"],
    "vllm_importance_sampling_cap": [None, 2.0],
    "off_policy_mask_threshold": [None, 0.1],
    "multi_objective_aggregation": ["sum_then_normalize", "normalize_then_sum"],
    "reward_weights": [None, [1.0, 0.5]],
    "reward_funcs": [["a", "b"], ["a"]],
    "gradient_accumulation_steps": [1, 8],
    "steps_per_generation": [None, 4],
    "num_iterations": [1, 2],
    "entropy_coef": [0.0, 0.01],
    "use_adaptive_entropy": [True, False],
    "sync_ref_model": [True, False],
    "normalize_advantages": [True, False],
    "reward_clip_range": [None, [-1, 1]],
}
VERSIONS = ("0.14.0", "0.16.0", "0.19.0", "0.22.0", "0.26.0", "1.6.0", "1.9.0", "1.10.0", "1.16.0")


@given(
    config=st.fixed_dictionaries(
        {}, optional={key: st.sampled_from(values) for key, values in VALUES.items()}
    ),
    version=st.sampled_from(VERSIONS),
    trainer=st.sampled_from([None, "GRPOTrainer", "RLOOTrainer", "GMPOTrainer"]),
)
def test_any_subset_of_options(config: dict[str, Any], version: str, trainer: str | None) -> None:
    try:
        found = from_framework("trl", version, config, trainer=trainer)
    except BadObjective as refused:
        named = any(key in str(refused) for key in config)
        assert named or "before 0.22.0 is another algorithm" in str(refused), refused  # noqa: PT017
        return
    assert from_dict(found.objective.to_dict()) == found.objective
    if trainer != "RLOOTrainer" and not {"normalize_advantages", "reward_clip_range"} & set(config):
        assert found.unknown == ()


@pytest.mark.parametrize("key", sorted(VALUES))
def test_each_option_alone_is_known(key: str) -> None:
    for value in VALUES[key]:
        try:
            found = from_framework("trl", "1.16.0", {key: value})
        except BadObjective as refused:
            assert key in str(refused)  # noqa: PT017
        else:
            assert found.unknown == ()
