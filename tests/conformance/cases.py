"""All cases, framework by framework."""

from __future__ import annotations

from conformance import (
    areal_cases,
    liger_cases,
    nemo_rl_cases,
    openrlhf_cases,
    skyrl_cases,
    trl_cases,
    unsloth_cases,
    verl_corrections,
    verl_estimators,
    verl_losses,
    written_cases,
    written_rows_cases,
)
from conformance.case import Case

CASES: list[Case] = [
    *trl_cases.CASES,
    *verl_estimators.CASES,
    *verl_losses.CASES,
    *verl_corrections.CASES,
    *openrlhf_cases.CASES,
    *skyrl_cases.CASES,
    *areal_cases.CASES,
    *liger_cases.CASES,
    *unsloth_cases.CASES,
    *nemo_rl_cases.CASES,
    *written_cases.CASES,
    *written_rows_cases.CASES,
]
