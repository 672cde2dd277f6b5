"""One family of errors, whose messages name what is wrong and the closest right thing."""

from __future__ import annotations

import pytest

from audit.errors import (
    AuditError,
    BadLog,
    BadManifest,
    BadObjective,
    MissingColumn,
    UnknownName,
    closest,
)


@pytest.mark.parametrize("kind", [MissingColumn, BadLog, BadManifest, BadObjective, UnknownName])
def test_one_family(kind: type[AuditError]) -> None:
    assert issubclass(kind, AuditError)
    with pytest.raises(ValueError, match="why"):
        raise kind("why")


def test_closest() -> None:
    valid = ["logp_theta", "logp_old", "reward", "GRPO"]
    assert closest("rewards", valid) == " Did you mean 'reward'?"
    assert closest("REWARD", valid) == " Did you mean 'reward'?"
    assert closest("grpo", valid) == " Did you mean 'GRPO'?"
    assert closest("logp_thet", valid).startswith(" Did you mean 'logp_theta'")
    assert closest("entropy", valid) == ""
    assert closest("anything", []) == ""
    assert closest("logp_", ["logp_a", "logp_b", "logp_c"], limit=1).count("'") == 2
    assert closest("logp_", ["logp_a", "logp_b", "logp_c"]).count(" or ") == 1


def test_missing_column() -> None:
    error = MissingColumn.needed_for("logp_old", "the policy ratio", ["reward", "logp_ld"], hint="Log it.")
    assert error.column == "logp_old"
    assert str(error) == (
        "the policy ratio needs column 'logp_old', which this log does not have."
        " Did you mean 'logp_ld'? Log it."
    )
    assert str(MissingColumn.needed_for("entropy", "X")) == (
        "X needs column 'entropy', which this log does not have."
    )


def test_unknown_name_lists_the_known_ones_in_order() -> None:
    error = UnknownName.of("run", "run-1", ["zero", "run-2"])
    assert str(error) == "unknown run 'run-1'. Did you mean 'run-2'? Known: run-2, zero."
    many = str(UnknownName.of("run", "x", [f"r{i:02d}" for i in range(30)]))
    assert many.endswith("r19, ….")
    assert "r20" not in many
