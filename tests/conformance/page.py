"""Write docs/conformance.md: run with ``make conformance``."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import torch  # noqa: E402

from audit.errors import AuditError  # noqa: E402
from audit.objectives.dialects import DIALECTS, from_framework  # noqa: E402
from conformance.case import BOUNDS, SEEDS, Case, Errors, measure  # noqa: E402
from conformance.cases import CASES  # noqa: E402
from conformance.fingerprint import fingerprint  # noqa: E402

PAGE = ROOT / "docs" / "conformance.md"
HEAD = """# Our weights against the frameworks' own code

Every case calls one framework's own functions on random ragged batches, takes the gradient of its loss with
respect to the log-prob of every token by autograd, and compares with the objective that should equal it:
{seeds} batches each of several groups, responses of different lengths, masked tokens inside responses, ratios
on both sides of the clip. Made by `make conformance`, which installs the frameworks in a virtual environment
of its own; `tests/test_conformance_page.py` holds the bounds (1e-6; 1e-5 where a framework insists on
float32) and says so when a case, or a field of an objective, changed since.

- *advantage*: the largest difference of a token's advantage, over the largest of its response. *scaled*: of
  its weight, over the largest of its response. *per token*: of its weight, over itself.
- *how*: **own code**, functions of the installed package; they run in float64, with their casts to float32
  lifted. **autograd**: the package cannot be installed from a registry, or not without a GPU stack, so the
  loss was written down from its source and differentiated; it says less than own code does.
- *dialect*: **same** where the objective that `rlaudit` reads from the framework's own config has the same
  weights within the bound; **refused** where it says that it cannot express the config; **differs**
  otherwise; – where the case has no config of its own.

Errors of about 1e-9 to 1e-7 are small constants that the frameworks add to denominators (1e-8) or variances
and that an objective leaves out. Those of 1e-6 are groups of one response, whose raw reward verl and SkyRL
divide by 1 + 1e-6.

"""
COLUMNS = ("framework", "version", "algorithm", "advantage", "scaled", "per token", "how", "dialect")
UNREAD = """
## Not run

{lines}
"""
NOT_RUN = (
    "verl's optimal_token_baseline and tir_optimal_token_baseline, batch-normalised rollout weights, and "
    "rejection by k2 or k3 of a response or by its largest token: no objective expresses them.",
    "The random draw of Clip-Cov: an objective gives its expectation; here the whole window is drawn.",
    "OpenRLHF's gates by binary KL or total variation, and AReaL's M2PO and KL metrics of rejection: no "
    "objective expresses them.",
    "SkyRL's Clip-Cov and KL-Cov look at advantages that carry the reduction: compared at a constant one.",
    "Everything around the functions: which mask, which log-probs and which token count a trainer passes to "
    "them was read, not run, except for TRL (docs/trl-gradient.md).",
    "TRL's asynchronous GRPO, GSPO-token and the loss that Tinker's service computes: read only.",
)


def number(value: float) -> str:
    """A figure of the table."""
    return f"{value:.0e}" if value else "0"


def by_dialect(case: Case) -> str:
    """Whether the framework's config leads to the same weights."""
    if case.config is None or case.framework not in DIALECTS:
        return "–"
    try:
        declared = from_framework(case.framework, case.version, dict(case.config), trainer=case.trainer)
    except AuditError as error:
        print(f"refused: {case.id}: {error}")  # noqa: T201
        return "refused"
    objective = declared.objective
    if objective.baseline.kind == "logged":  # the framework is handed its advantages
        objective = objective.replace(baseline=case.objective.baseline, scale=case.objective.scale)
    found = measure(case, objective)
    return "same" if found.worst <= BOUNDS[case.precision] else "differs"


def row(case: Case, found: Errors, dialect: str) -> str:
    """One line of the table."""
    figures = (number(value) for value in (found.advantage, found.scaled, found.token))
    how = case.verified + (" (float32)" if case.precision == "float32" else "")
    cells = (case.framework, case.version, case.name, *figures, how, dialect)
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Measure every case, write the page; 1 where a case is out of its bound or differs from its dialect."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    os.environ.setdefault("LOGURU_LEVEL", "ERROR")
    lines, bad = [], []
    for case in CASES:
        found, dialect = measure(case), by_dialect(case)
        lines.append(row(case, found, dialect))
        if found.worst > BOUNDS[case.precision] or dialect == "differs":
            bad.append(f"{case.id}: {found}, dialect: {dialect}")
    page = HEAD.format(seeds=len(SEEDS))
    page += f"<!-- fingerprint: {fingerprint(CASES)} -->\n\n"
    page += f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|\n" + "\n".join(lines) + "\n"
    page += UNREAD.format(lines="\n".join(f"- {line}" for line in NOT_RUN))
    PAGE.write_text(page, encoding="utf-8")
    print(f"{len(CASES)} cases, {len(bad)} out of bounds: {PAGE.relative_to(ROOT)}")  # noqa: T201
    for line in bad:
        print(f"  {line}")  # noqa: T201
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
