"""Every framework with a version that was read, and the options its dialect knows, with their defaults."""

from __future__ import annotations

from typing import Any

from audit.objectives.dialects import liger, verl_config
from audit.objectives.dialects.tables import table
from audit.objectives.dialects.trl_config import complete

VERSIONS = {
    "trl": "1.16.0",
    "verl": "0.9.1",
    "unsloth": "2026.10.9",
    "liger": "0.8.5",
    "openrlhf": "0.11.2",
    "nemo-rl": "0.7.0",
    "prime-rl": "0.8.0",
    "slime": "0.3.1",
    "miles": "0.3.1",
    "skyrl": "0.3.0",
    "areal": "1.0.4",
    "open-instruct": "0.3.0",
    "tinker": "0.6.1",
    "tinker-cookbook": "0.6.1",
    "oat": "0.2.3",
    "roll": "0.3.0",
}
MORE = {
    "verl": [("0.1", None), ("0.3.0", None), ("0.6.0", None), ("0.6.1", None), ("0.7.0", None)],
    "trl": [("0.14.0", None), ("0.22.0", "RLOOTrainer"), ("1.16.0", "RLOOTrainer"), ("1.9.0", "GMPOTrainer")],
}
CASES = [
    *((name, version, None) for name, version in VERSIONS.items()),
    *((name, version, trainer) for name, more in MORE.items() for version, trainer in more),
]
_PINNED = {"nemo-rl": "nemo_rl", "prime-rl": "prime_rl", "open-instruct": "open_instruct", "miles": "slime"}
_UNTABLED = ("use_adaptive_entropy", "use_liger_kernel", "reward_funcs", "vespo_k_pos", "top_k")


def known(name: str, version: str, trainer: str | None) -> dict[str, Any]:
    """Options with their defaults; the config of Unsloth needs the version of its TRL beside them."""
    if name in ("trl", "unsloth"):
        tabled = version if name == "trl" else "1.16.0"
        config_class = "RLOOConfig" if trainer == "RLOOTrainer" else "GRPOConfig"
        found = dict.fromkeys(_UNTABLED) | complete({}, tabled, config_class)
        own = dict.fromkeys(("rollout_logps_as_old", "rollout_rs", "rollout_rs_threshold"))
        return found if name == "trl" else found | own
    if name == "verl":
        more = ("actor.use_dynamic_bsz", "actor.use_rollout_log_probs", "algorithm.gdpo_reward_keys")
        return dict.fromkeys((*more, "algorithm.gdpo_reward_weights")) | verl_config.defaults_of(version)
    if name == "liger":
        return dict(liger.DEFAULTS)
    data = _PINNED.get(name, name.partition("-")[0])
    return dict(table(f"{data}_options")["defaults"])


def needed(name: str) -> dict[str, Any]:
    """What a config of the framework must have."""
    return {"trl_version": "1.16.0"} if name == "unsloth" else {}
