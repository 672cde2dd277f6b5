"""Any combination of verl's options is an objective, or is refused by the name of one of them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from audit.errors import BadObjective
from audit.objectives.dialects import from_framework
from audit.objectives.objective import from_dict

A, R = "actor_rollout_ref.actor.", "algorithm.rollout_correction."
VALUES: dict[str, list[Any]] = {
    "algorithm.adv_estimator": [
        *("gae", "grpo", "grpo_vectorized", "grpo_passk", "gdpo", "rloo", "rloo_vectorized", "opo", "remax"),
        *("reinforce_plus_plus", "reinforce_plus_plus_baseline", "gpg", "optimal_token_baseline", "nope"),
    ],
    "algorithm.gamma": [1.0, 0.9],
    "algorithm.norm_adv_by_std_in_grpo": [True, False],
    "algorithm.use_kl_in_reward": [True, False],
    "algorithm.kl_penalty": ["kl", "low_var_kl", "full"],
    "algorithm.kl_ctrl.type": ["fixed", "adaptive"],
    "algorithm.filter_groups.enable": [True, False],
    "algorithm.gdpo_reward_keys": [["a", "b"], None],
    "algorithm.gdpo_reward_weights": [None, [1.0, 2.0], [1.0]],
    f"{A}policy_loss.loss_mode": [
        *("vanilla", "gspo", "sapo", "gpg", "clip_cov", "kl_cov", "geo_mean", "dro", "cispo", "dppo_tv"),
        *("dppo_kl", "bypass_mode", "nope"),
    ],
    f"{A}policy_loss.dro_beta": [None, 0.1],
    f"{A}clip_ratio": [0.2, 0.3],
    f"{A}clip_ratio_low": [None, 0.1],
    f"{A}clip_ratio_high": [None, 0.28],
    f"{A}clip_ratio_c": [3.0, 0.5],
    f"{A}loss_agg_mode": [
        *("token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"),
        "nope",
    ],
    f"{A}loss_scale_factor": [None, 1024],
    f"{A}use_kl_loss": [True, False],
    f"{A}kl_loss_type": ["low_var_kl", "k1+", "mse", "nope"],
    f"{A}ppo_epochs": [1, 2],
    f"{A}use_dynamic_bsz": [True, False],
    "data.train_batch_size": [256, 1024],
    "trainer.use_legacy_worker_impl": ["auto", "disable"],
    f"{R}rollout_is": [None, "token", "sequence", "nope"],
    f"{R}rollout_is_threshold": [2.0, "0.5_5.0", "x"],
    f"{R}rollout_is_batch_normalize": [True, False],
    f"{R}rollout_rs": [None, "token_k1", "token_k3", "seq_mean_k1", "seq_max_k2", "geometric"],
    f"{R}rollout_rs_threshold": [None, 2.0, "0.5_2.0"],
    f"{R}bypass_mode": [True, False],
    f"{R}loss_type": ["ppo_clip", "reinforce", "nope"],
    f"{A}entropy_coeff": [0, 0.01],
}
VERSIONS = (
    "0.1",
    "0.2.0",
    "0.3.0",
    "0.4.0",
    "0.4.1",
    "0.5.0",
    "0.6.0",
    "0.6.1",
    "0.7.0",
    "0.7.1",
    "0.8.0",
    "0.9.1",
)


@given(
    config=st.fixed_dictionaries(
        {}, optional={key: st.sampled_from(values) for key, values in VALUES.items()}
    ),
    version=st.sampled_from(VERSIONS),
)
def test_any_subset_of_options(config: dict[str, Any], version: str) -> None:
    try:
        found = from_framework("verl", version, config)
    except BadObjective as refused:
        leaves = {key.rpartition(".")[2] for key in config} | {"entropy_coeff"}  # on by default before 0.4
        assert any(leaf in str(refused) for leaf in leaves), refused  # noqa: PT017
        return
    assert from_dict(found.objective.to_dict()) == found.objective
    assert found.unknown == ()
