"""All cases, framework by framework."""

from __future__ import annotations

from conformance import trl_cases, verl_corrections, verl_estimators, verl_losses
from conformance.case import Case

CASES: list[Case] = [
    *trl_cases.CASES,
    *verl_estimators.CASES,
    *verl_losses.CASES,
    *verl_corrections.CASES,
]
