"""The breakdowns as functions of ``import audit`` are those of the command line."""

from __future__ import annotations

import pytest
from synthetic import rollouts, write

import audit
from audit.report.as_json import as_json
from audit.report.schemas import CONTRACTS


@pytest.mark.parametrize("verb", ["groups", "prompts", "rewards", "staleness", "clipping", "kl", "mismatch"])
def test_a_function_gives_the_contract_of_its_verb(tmp_path, verb) -> None:
    run = write(tmp_path / "run", rollouts(steps=2), "grpo")
    result = getattr(audit, verb)(run)
    assert isinstance(result, CONTRACTS[verb])
    assert as_json(getattr(audit, verb)(str(run.path))) == as_json(result)


@pytest.mark.parametrize("verb", ["groups", "prompts", "staleness", "clipping"])
def test_an_objective_may_be_named_and_none_need_be(tmp_path, verb) -> None:
    run = write(tmp_path / "run", rollouts(steps=2))
    assert getattr(audit, verb)(run).objective is None
    assert getattr(audit, verb)(run, "rloo").objective == "rloo"
    with pytest.raises(audit.AuditError, match="unknown objective"):
        getattr(audit, verb)(run, "rlo")
