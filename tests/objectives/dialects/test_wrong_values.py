"""Values of the wrong type or size: a valid objective, or a refusal that names the option and its value."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_options import CASES, VERSIONS, known, needed

from audit.errors import BadObjective
from audit.objectives.dialects import from_framework
from audit.objectives.dialects.blame import shown
from audit.objectives.objective import from_dict

WRONG: list[Any] = [
    *("wide", "", "0.5_5.0", "false"),
    *(math.nan, -math.inf, -1.0, 1e308, 10**400, 10**5000),
    *(True, None, [], ["a", None], {}, {"a": 1}),
]
MORE_WRONG: list[Any] = [
    *("nan", "a,b", "1e5", math.inf, 0, -1, 3, -1e308, False, [1.0], [[]], [0.2, "x", {}]),
    *({"enabled": "yes"}, {"type": None, "filters": 3}),
]
ALONE = [
    case for case in CASES if case[0] not in ("miles", "tinker-cookbook")
]  # other names for slime, tinker


def names_an_option(message: str, config: dict[str, Any]) -> bool:
    """Whether the full key of an option that was given, or its end, stands in the message."""
    leaves = {key.rpartition(".")[2] for key in config}
    return any(re.search(rf"(?<!\w){re.escape(leaf)}(?!\w)", message) for leaf in leaves)


def _parts(value: Any) -> list[Any]:
    """A value, and those of the options within it."""
    return [value, *value.values()] if isinstance(value, dict) else [value]


def read(name: str, version: str, trainer: str | None, config: dict[str, Any]) -> str | None:
    """Refusal of a config, which must say what it is about; None where it is read."""
    try:
        found = from_framework(name, version, needed(name) | config, trainer=trainer)
    except BadObjective as refused:
        return str(refused)
    assert from_dict(found.objective.to_dict()) == found.objective
    json.dumps(found.objective.to_dict(), allow_nan=False)
    return None


@pytest.mark.parametrize(("name", "version", "trainer"), ALONE, ids=str)
def test_one_wrong_value(name: str, version: str, trainer: str | None) -> None:
    refused = 0
    plain = read(name, version, trainer, {})
    for key in known(name, version, trainer):
        for value in WRONG:
            message = read(name, version, trainer, {key: value})
            if message is not None and message != plain:
                assert key in message, (key, value, message)
                assert any(shown(part)[:70] in message for part in _parts(value)), (key, value, message)
                refused += 1
    assert refused > 20


@given(case=st.sampled_from(CASES), data=st.data())
def test_one_wrong_value_among_others(case: tuple[str, str, str | None], data: st.DataObject) -> None:
    name, version, trainer = case
    options = known(name, version, trainer)
    right = {key: _right(key, value, options) for key, value in options.items()}
    config = data.draw(st.fixed_dictionaries({}, optional=right))
    plain = read(name, version, trainer, config)
    key = data.draw(st.sampled_from(sorted(options)))
    config[key] = data.draw(
        st.sampled_from([*WRONG, *MORE_WRONG]) | st.recursive(st.text() | st.floats(), st.lists)
    )
    message = read(name, version, trainer, config)
    if message is not None and message not in (plain, read(name, version, trainer, {})):
        assert names_an_option(message, config), message


def _right(key: str, default: Any, options: dict[str, Any]) -> st.SearchStrategy[Any]:
    if isinstance(default, bool) or key.rpartition(".")[2].startswith(("use_", "enable")):
        return st.booleans()
    if isinstance(default, int | float):
        return st.sampled_from([default, 0, 1, 0.5, 2.0])
    if isinstance(default, str):
        words = sorted({value for value in options.values() if isinstance(value, str)})
        return st.sampled_from([default, *words, *WORDS])
    return st.sampled_from([default, 0.5, 2, *WORDS])


WORDS = [
    *(
        "token",
        "sequence",
        "group",
        "batch",
        "grpo",
        "gae",
        "rloo",
        "cispo",
        "sapo",
        "k3",
        "seq-mean-token-sum",
    ),
    *("gspo", "token_k1", "dr_grpo", "token-sum", "dapo", "ppo", "vespo", "luspo", "dppo"),
    "seq-mean-token-sum",
]


@pytest.mark.parametrize("name", sorted(VERSIONS))
def test_a_switch_is_not_on_because_its_text_is_not_empty(name: str) -> None:
    options = known(name, VERSIONS[name], None)
    switches = [key for key, value in options.items() if isinstance(value, bool)]
    for key in switches:
        message = read(name, VERSIONS[name], None, {key: "false"})
        assert message is not None, key
        assert f"{key}='false' must be true or false" in message
    assert switches or name in ("tinker", "prime-rl")


def test_a_refusal_that_names_no_option_of_the_user_gets_them() -> None:
    with pytest.raises(BadObjective, match=r"epsilon_low.* In the config: actor\.eps_clip=-0\.5\.$"):
        from_framework("areal", "1.0.4", {"actor": {"eps_clip": -0.5, "lr": 1e-6}})
    with pytest.raises(BadObjective, match=r"reward_norm='group'"):
        from_framework("areal", "1.0.4", {"actor": {"reward_norm": "group"}})
    config = {"algorithm.rollout_correction": {"rollout_rs": "geometric", "rollout_is_threshold": "0.5_5.0"}}
    option = "algorithm.rollout_correction.rollout_is_threshold='0.5_5.0' must be a positive number"
    with pytest.raises(BadObjective, match=re.escape(option)):
        from_framework("verl", "0.6.1", config)


@pytest.mark.parametrize("name", sorted(VERSIONS))
def test_a_config_of_a_thousand_levels_is_one_line(name: str) -> None:
    deep: Any = 1
    for level in range(3000):
        deep = [deep] if level % 2 else {"a": deep}
    with pytest.raises(BadObjective, match="nested more than 100 levels deep"):
        from_framework(name, VERSIONS[name], needed(name) | {"kl_ctrl": deep})


def test_a_default_that_is_refused_is_not_laid_on_the_config() -> None:
    with pytest.raises(BadObjective, match="entropy_coeff") as refused:
        from_framework("verl", "0.3.0", {"actor.clip_ratio": 0.25})
    assert "clip_ratio" not in str(refused.value)
