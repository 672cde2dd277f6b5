"""What logged scalars say of the objective, in words that the terminal, HTML and Markdown share."""

from __future__ import annotations

from audit.analyses.loss_fit import SHOWN_BY_LOSS
from audit.analyses.loss_inference import LossInference
from audit.report import format as fmt


def loss_in_words(found: LossInference) -> str:
    """Say what the logged loss and clip fractions fit, how well, and what they leave open."""
    pieces = []
    if found.status in ("fits", "partial"):
        listed = []
        for part in SHOWN_BY_LOSS[1:]:
            options = [fit.describe(part) for fit in found.options(part)]
            if options:
                listed.append(_either(options))
        kind = "clip fractions alone fit" if found.status == "partial" else "fit"
        pieces.append(f"{kind} {'; '.join(listed)}" if listed else "fit")
    if found.status == "fits" and found.best is not None:
        pieces.append(f"misfit {fmt.number(found.best.residual)}")
    if found.status != "fits":
        pieces.append(f"{'skipped: ' if found.status == 'skipped' else ''}{found.reason}")
    if found.n:
        pieces.append(f"n = {fmt.plural(found.n, 'logged value')}")
    if found.agrees is True:
        pieces.append("as declared")
    elif found.agrees is False:
        pieces.append(f"contradicts the declaration ({'; '.join(found.contradictions)})")
    if found.open and found.status == "fits":
        pieces.append(f"shows nothing of {', '.join(found.open)}")
    return "; ".join(pieces + found.notes)


def _either(options: list[str]) -> str:
    """``a per update or micro-batch; or b per update``: scopes of one aggregation together."""
    scopes: dict[str, list[str]] = {}
    for option in options:
        kind, _, scope = option.partition(" per ")
        scopes.setdefault(kind, []).append(scope)
    told = [f"{kind} per {' or '.join(of)}" if of[0] else kind for kind, of in scopes.items()]
    return " or ".join(told)
