"""What an objective gives to a response is the same from NumPy arrays and from torch tensors."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from objective_strategies import objectives
from weight_cases import Row, responses_of
from weight_strategies import batches

from audit.errors import AuditError
from audit.objectives.advantages import advantages, advantages_under
from audit.objectives.batch import Responses
from audit.objectives.coefficients import row_coefficients
from audit.objectives.objective import Baseline, Objective, Scale


def in_numpy(responses: Responses) -> Responses:
    def array(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: array(one) for name, one in value.items()}
        return value.numpy() if isinstance(value, torch.Tensor) else value

    return replace(responses, **{f.name: array(getattr(responses, f.name)) for f in fields(responses)})


def outcome(responses: Responses, objective: Objective) -> Any:
    try:
        return row_coefficients(responses, objective)
    except AuditError as error:
        return str(error)


@given(batches(), objectives())
def test_coefficients_of_arrays_are_those_of_tensors(rows: list[Row], objective: Objective) -> None:
    tensors = responses_of(rows)
    kl = torch.linspace(-0.5, 2.0, len(rows), dtype=torch.float64)
    tensors = replace(tensors, reference_kl=kl)
    arrays = in_numpy(tensors)
    of_tensors, of_arrays = outcome(tensors, objective), outcome(arrays, objective)
    if isinstance(of_tensors, str):
        assert of_arrays == of_tensors
        return
    for f in fields(of_tensors):
        found, wanted = getattr(of_arrays, f.name), getattr(of_tensors, f.name)
        assert isinstance(found, np.ndarray), f.name
        assert str(wanted.dtype) == f"torch.{found.dtype}", f.name
        np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-12, atol=1e-14, err_msg=f.name)
    for f in fields(of_arrays):
        assert torch.equal(
            torch.nan_to_num(getattr(of_arrays.tensors(), f.name)),
            torch.nan_to_num(torch.tensor(getattr(of_arrays, f.name))),
        )


@pytest.mark.parametrize("kind", ["none", "group_mean", "leave_one_out", "batch_mean"])
def test_a_grid_of_candidates_is_what_each_gives_alone(kind: Any) -> None:
    rows = [Row(reward=r, group=g, update=g // 2, generation=g // 2) for g in range(4) for r in (0.0, 1.0, g)]
    arrays = in_numpy(responses_of(rows))
    scales = [Scale(), Scale(kind="group_std", ddof=1, epsilon=1e-4), Scale(kind="batch_std")]
    grid = [(Baseline(kind=kind), scale) for scale in scales]
    for made, (baseline, scale) in zip(advantages_under(arrays, Objective(), grid), grid, strict=True):
        alone = advantages(arrays, Objective(baseline=baseline, scale=scale))
        np.testing.assert_array_equal(made, alone)
