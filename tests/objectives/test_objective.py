"""Objectives as values: what is refused, what is suggested, what differs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from audit.errors import AuditError, BadObjective, UnknownName
from audit.objectives.catalogue import CATALOGUE, named
from audit.objectives.objective import (
    KL,
    PARTS,
    LossKL,
    Objective,
    Scale,
    differing_fields,
    differing_parts,
    from_dict,
)
from audit.objectives.surrogates import PPOClip


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_every_entry_is_valid_and_carries_its_name(name: str) -> None:
    objective = named(name)
    assert objective.name == name
    assert from_dict(objective.to_dict()) == objective


@pytest.mark.parametrize("spelling", ["Dr. GRPO", "dr-grpo", "DR_GRPO", "dr grpo"])
def test_names_are_found_however_they_are_spelled(spelling: str) -> None:
    assert named(spelling) == named("dr_grpo")


def test_an_unknown_name_comes_with_the_closest_ones() -> None:
    with pytest.raises(
        UnknownName, match=r"unknown objective 'grppo'\. Did you mean 'grpo'.*Known: bnpo, "
    ) as e:
        named("grppo")
    assert isinstance(e.value, AuditError)
    assert isinstance(e.value, ValueError)
    with pytest.raises(UnknownName) as far:
        named("zzzzzz")
    assert "Did you mean" not in str(far.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"basline": {"kind": "none"}}, r"unknown field `basline`.*Did you mean 'baseline'"),
        ({"scale": {"kind": "group_std", "dof": 1}}, r"unknown field `dof`.*Did you mean 'ddof'"),
        ({"clip": {"kind": "ppo", "low": 0.2}}, r"unknown field `low`(?!.*'low')"),
        ({"clip": {"kind": "ppo", "epsilon_hi": 0.2}}, r"unknown field `epsilon_hi`.*'epsilon_high'"),
        ({"scale": {"kind": "std"}}, r"'std'.*\$\.scale\.kind"),
        ({"scale": {"ddof": 2}}, r"\$\.scale\.ddof"),
        ({"scale": {"epsilon": -1e-6}}, r"\$\.scale\.epsilon"),
        ({"scale": "group_std"}, r"\$\.scale"),
        ({"name": 3}, r"\$\.name"),
        ({"aggregation": {"kind": "token-sum-norm", "constant": 0}}, r"\$\.aggregation\.constant"),
        ({"kl": {"loss": {"coefficient": "0.1"}}}, r"\$\.kl\.loss\.coefficient"),
        ({"kl": {"loss": {}}}, r"coefficient"),
        ({"kl": {"loss": {"coefficient": -0.1}}}, r"\$\.kl\.loss\.coefficient"),
        ({"shaping": {"overlong": {"max_length": 0, "cache": 1}}}, r"max_length"),
        ({"shaping": {"clip": [1.0]}}, r"\$\.shaping\.clip"),
        ({"shaping": {"clip": [1.0, 0.0]}}, r"low <= high"),
        ({"shaping": {"overlong": {"max_length": 4, "cache": 5}}}, r"cache must not exceed max_length"),
        (
            {"baseline": {"kind": "logged"}, "scale": {"kind": "group_std"}},
            r"'logged'.*scale\.kind must be 'none'",
        ),
        ({"ratio": {"denominator": "theta", "level": "sequence"}}, r"level must be 'token'"),
        ({"clip": {"kind": "cispo", "delta": 2.0}}, r"unknown field `delta` - at `\$\.clip`"),
        ({"clip": {"kind": "none", "dual": 3.0}}, r"unknown field `dual` - at `\$\.clip`"),
        ({"clip": {"epsilon_low": 0.2}}, r"missing required field `kind` - at `\$\.clip`"),
        ({"clip": {"kind": "pppo"}}, r"Invalid value 'pppo' .*Did you mean 'ppo'"),
        ({"scale": {"clip": [1, -1]}}, r"scale\.clip must be"),
        ({"baseline": {"kind": "pass_at_k"}}, r"baseline\.k belongs to"),
        ({"baseline": {"lam": 0.9}}, r"belong to baseline\.kind 'gae'"),
        ({"kl": {"reward": {"coefficient": 1, "form": "to_go"}}}, r"needs stage 'after_scale'"),
        ({"kl": {"loss": {"coefficient": 1, "ratio_cap": 2}}}, r"belongs to gradient"),
        ({"ratio": {"corrections": [{"low": 2.0, "high": 1.0}]}}, r"low must not exceed high"),
        ({"shaping": {"per_component": True}}, r"needs shaping\.weights"),
        (
            {"clip": {"kind": "ppo", "epsilon_low": -0.5, "epsilon_high": 0.2}},
            r"1 - epsilon_low must not exceed",
        ),
        ({"aggregation": {"kind": "token-mean", "constant": 10}}, r"belongs to the '-norm' kinds"),
    ],
)
def test_bad_fields_are_refused_where_they_stand(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadObjective, match=f"^run.json: .*{message}"):
        from_dict(fields, where="run.json")


def test_all_contradictions_are_said_at_once() -> None:
    fields = {"baseline": {"lam": 0.5}, "shaping": {"clip": [1, 0]}, "ratio": {"level": "product"}}
    with pytest.raises(BadObjective) as caught:
        from_dict(fields)
    assert str(caught.value).count(";") == 2


def test_objectives_are_values() -> None:
    grpo = named("grpo")
    assert grpo == from_dict(grpo.to_dict())
    assert hash(grpo) == hash(from_dict(grpo.to_dict()))
    with pytest.raises(AttributeError):
        grpo.name = "mine"  # type: ignore[misc]
    assert grpo.replace(scale=Scale()).scale == Scale()
    assert grpo.scale == Scale(kind="group_std")
    assert msgspec.json.decode(msgspec.json.encode(grpo), type=Objective) == grpo


def test_differences_are_fields() -> None:
    grpo = named("grpo")
    assert differing_fields(grpo, grpo.replace(name="mine")) == []
    other = grpo.replace(
        scale=Scale(kind="group_std", ddof=1, epsilon=1e-4),
        clip=PPOClip(epsilon_low=0.2, epsilon_high=0.28),
        kl=KL(),
    )
    assert differing_parts(grpo, other) == ("scale", "clip", "kl")
    assert differing_fields(grpo, other) == [
        ("scale.ddof", 0, 1),
        ("scale.epsilon", 0.0, 1e-4),
        ("clip.epsilon_high", 0.2, 0.28),
        ("kl.loss", {"coefficient": 0.04, "estimator": "k3", "gradient": "pathwise"}, None),
    ]
    assert differing_fields(other, grpo) == [(f, b, a) for f, a, b in differing_fields(grpo, other)]
    stronger = grpo.replace(kl=KL(loss=LossKL(coefficient=0.1)))
    assert differing_fields(grpo, stronger) == [("kl.loss.coefficient", 0.04, 0.1)]


def test_parts_are_all_the_fields_but_the_name() -> None:
    assert set(PARTS) == set(Objective.__struct_fields__) - {"name"}
