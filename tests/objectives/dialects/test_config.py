"""Reading options: nested and dotted keys, unknown keys, versions, refusals; and every dialect's promises."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
from known_options import VERSIONS, needed
from tiny_batch import batch, on_policy, weights

from audit.errors import BadObjective
from audit.objectives.dialects import DIALECTS, defaults, from_framework, versions_read
from audit.objectives.dialects.config import Options, bounds, nested
from audit.objectives.dialects.tables import is_version
from audit.objectives.objective import Objective, from_dict

DEFAULTS: dict[str, Any] = {"loss.type": "ppo", "loss.clip": 0.2, "algo.type": "grpo", "algo.norm": None}
PINNED = [name for name in VERSIONS if name not in ("trl", "verl", "unsloth", "liger")]


def read(config: dict[str, Any], version: str = "1.2.3", **how: Any) -> Options:
    return Options("Toy", config, version, read="1.2.3", defaults=DEFAULTS, **how)


@pytest.mark.parametrize(
    "config",
    [
        {"loss": {"clip": 0.3}},
        {"loss.clip": 0.3},
        {"trainer": {"loss": {"clip": 0.3}}},
        {"trainer.loss.clip": 0.3},
        {"clip": 0.3},
        {"--loss.clip": 0.3},
    ],
)
def test_a_key_is_found_under_more_levels_or_alone(config: dict[str, Any]) -> None:
    options = read(config)
    assert options["loss.clip"] == 0.3
    assert options.given("loss.clip")
    assert not options.given("loss.type")
    assert options["loss.type"] == "ppo"


def test_a_name_that_two_options_share_needs_its_level() -> None:
    assert read({"type": "rloo"})["algo.type"] == "grpo"
    assert read({"algo": {"type": "rloo"}})["algo.type"] == "rloo"


def test_a_mapping_may_be_the_value_of_an_option() -> None:
    assert read({"algo": {"norm": {"level": "group"}}})["algo.norm"] == {"level": "group"}
    assert read({"algo.norm.level": "group", "algo": {"norm": {"eps": 1}}})["algo.norm"] == {
        "level": "group",
        "eps": 1,
    }


def test_dotted_keys_unfold_beside_nested_ones() -> None:
    assert nested({"a.b": 1, "a": {"c-d": 2}, "--e": {}}) == {"a": {"b": 1, "c_d": 2}, "e": {}}


def test_keys_that_nobody_knows_are_reported_where_they_sound_like_options() -> None:
    config = {
        "loss": {"clip_hi": 0.3, "chunks": 4},
        "critic": {"clip": 0.5},
        "kl_coef": 0.1,
        "adam_eps": 1e-8,
        "lr": 1e-6,
    }
    declared = read(config, unrelated="adam_eps").declared(Objective())
    assert declared.unknown == ("kl_coef", "loss.clip_hi")
    assert any("'loss.clip_hi'" in note and "'clip'" in note for note in declared.notes)


def test_an_unknown_value_names_the_closest() -> None:
    with pytest.raises(
        BadObjective, match=r"Toy has no algo\.type 'grpu'\. Did you mean 'grpo'\? Known: grpo"
    ):
        read({"algo": {"type": "grpu"}}).one_of("algo.type", {"grpo": 1})


def test_a_version_that_was_not_read_is_said() -> None:
    assert read({}).notes == []
    assert "was read at 1.2.3" in read({}, "1.3.0").notes[0]
    assert "was read at 1.2.3" in read({}, "3f4558c").notes[0]
    assert read({}, "1.1.9").older_than("1.2.0")
    assert read({}, "1.3.0").newer_than("1.2.3")
    assert not read({}, "main").older_than("1.2.0")


def test_half_a_pair_of_bounds() -> None:
    assert bounds(None, None) is None
    assert bounds(None, 2.0) == (-1e30, 2.0)


def test_values_of_the_wrong_type_are_one_line() -> None:
    with pytest.raises(BadObjective, match="eps_clip='wide' must be a finite number"):
        from_framework("slime", "0.3.1", {"eps_clip": "wide"})
    with pytest.raises(BadObjective):
        from_framework("areal", "1.0.4", {"actor": {"reward_norm": "group"}})


@pytest.mark.parametrize("name", PINNED)
def test_every_dialect_names_its_sources_and_reads_an_empty_config(name: str) -> None:
    header = " ".join((sys.modules[DIALECTS[name].__module__].__doc__ or "").split())
    assert "Read: " in header
    assert ".py" in header
    assert "departs" in header
    assert "released package" in header
    declared = from_framework(name, VERSIONS[name], {})
    assert declared.unknown == ()
    assert not any("was read at" in note for note in declared.notes)
    assert from_dict(declared.objective.to_dict()) == declared.objective
    assert "was read at" in from_framework(name, "99.0.0", {}).notes[0]


def test_every_registered_dialect_has_a_header_with_its_sources() -> None:
    for name, dialect in DIALECTS.items():
        header = sys.modules[dialect.__module__].__doc__ or ""
        assert "Read: " in header, name


def test_a_mistyped_option_is_reported_with_the_closest() -> None:
    declared = from_framework("skyrl", "0.3.0", {"trainer": {"algorithm": {"kl_los_coef": 0.1}}})
    assert declared.unknown == ("trainer.algorithm.kl_los_coef",)
    assert any("kl_loss_coef" in note for note in declared.notes)


@pytest.mark.parametrize(
    ("name", "key", "meant"),
    [
        ("trl", "vllm_importance_sampling_caps", "vllm_importance_sampling_cap"),
        ("unsloth", "entropy_coeff", "entropy_coef"),
        ("liger", "sapo_temperatur_pos", "sapo_temperature_pos"),
        ("verl", "actor_rollout_ref.actor.kl_los_coef", "kl_loss_coef"),
        ("openrlhf", "algo.kl.init_coeff_kl", "init_coef"),
        ("nemo-rl", "loss_fn.ratio_clip_mn", "ratio_clip_min"),
        ("prime-rl", "loss.dppo_mask_hi", "dppo_mask_high"),
        ("slime", "kl_loss_coeff_", "kl_loss_coef"),
        ("miles", "--kl-loss-coefs", "kl_loss_coef"),
        ("areal", "actor.eps_clips", "eps_clip"),
        ("open-instruct", "loss_denominators", "loss_denominator"),
        ("tinker", "kl_penalty_coeff", "kl_penalty_coef"),
        ("tinker-cookbook", "kl_penalty_coeff", "kl_penalty_coef"),
        ("oat", "kl_penalty_coeff", "kl_penalty_coef"),
        ("roll", "kl_loss_coeff", "kl_loss_coef"),
    ],
)
def test_every_framework_reports_a_mistyped_option_with_the_closest(name: str, key: str, meant: str) -> None:
    declared = from_framework(name, VERSIONS[name], needed(name) | {key: 0.1})
    written = key.removeprefix("actor_rollout_ref.").lstrip("-").replace("-", "_")
    assert declared.unknown == (written,)
    assert any(f"no option {written!r}" in note and f"{meant!r}" in note for note in declared.notes)


@pytest.mark.parametrize("name", VERSIONS)
@pytest.mark.parametrize("version", ["abc", "1..2", "", "1.", "1.2 x", "latest", "v", "1.2.", "\u0661.2"])
def test_what_is_no_version_is_refused_with_those_read(name: str, version: str) -> None:
    newest = versions_read(name)[1]
    with pytest.raises(BadObjective, match=rf"is n.*a version number.*Read: .*{re.escape(newest)}\.$"):
        from_framework(name, version, needed(name))
    with pytest.raises(BadObjective, match="a version number"):
        defaults(name, version, needed(name))


@pytest.mark.parametrize(
    "version", ["1.2.0rc1", "v1.2", "1.2.0.dev0+cu121", "0.9.1-12-g3f4558c", "2026.10.9", "1.2.3.4"]
)
def test_versions_of_releases_and_builds_are_versions(version: str) -> None:
    assert is_version(version, commits=False)


def test_a_commit_is_a_version_where_one_version_was_read() -> None:
    for version in ("3f4558c", "main", "559b447729a1c0de559b447729a1c0de559b4477"):
        assert "was read at 0.8.0" in from_framework("prime-rl", version, {}).notes[0]
    for name in ("trl", "verl", "liger"):
        with pytest.raises(BadObjective, match="is not a version number"):
            from_framework(name, "3f4558c", {})


# Config of a group baseline without KL, and the advantage of a lone response of reward 0.5.
GROUPED: dict[str, tuple[dict[str, Any], float]] = {
    "openrlhf": ({"algo.advantage.estimator": "group_norm", "algo.kl.init_coef": 0.0}, 0.0),
    "nemo-rl": ({"loss_fn.reference_policy_kl_penalty": 0.0}, 0.0),
    "prime-rl": ({"loss.kl_tau": 0.0}, 0.0),
    "slime": ({}, 0.0),
    "skyrl": ({"use_kl_loss": False}, 0.5),
    "areal": (
        {
            "actor.kl_ctl": 0.0,
            "actor.reward_norm": {"mean_level": "group", "std_level": "group", "group_size": 4},
        },
        0.0,
    ),
    "open-instruct": ({"beta": 0.0}, 0.0),
    "tinker": ({}, 0.0),
    "oat": ({"critic_type": "grpo", "beta": 0.0}, 0.0),
    "roll": ({"adv_estimator": "grpo"}, 0.0),
}


@pytest.mark.parametrize("name", GROUPED)
def test_groups_without_spread_have_no_weight_and_a_group_of_one_the_documented_advantage(name: str) -> None:
    config, alone = GROUPED[name]
    objective = from_framework(name, VERSIONS[name], config).objective
    rewards = ((1.0, 0.0, 0.0, 0.0), (0.3, 0.3, 0.3, 0.3))
    rows = on_policy(batch(rewards))
    assert {w for row in weights(objective, rows)[4:] for w in row} == {0.0}
    single = on_policy(batch((rewards[0], (0.5,))))
    found = weights(objective.replace(filter=Objective().filter), single)[-1]
    assert [15 * w for w in found] == pytest.approx([alone] * 4)  # 15 tokens, where they are counted
