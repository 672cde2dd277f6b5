"""The loss that the trainer logged: is it what the declared aggregation makes of these tokens?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from audit.analyses.checks.logged_scalars import by_update, closeness, of_evaluation, rounding
from audit.analyses.checks.look import Entry, Look, problem
from audit.analyses.checks.loss_forms import DECLARED, Form, forms
from audit.analyses.checks.surrogate import losses
from audit.schema import Problem

LEAST = 6
"""Logged values that are compared; heuristic: one free factor is fitted to them."""
CLOSE = 0.005
"""Relative misfit of a loss that is that of the tokens, in float32 or as a trainer rounds it; heuristic."""
BETTER = 5.0
"""Times that another aggregation must come closer; heuristic."""
VOID = 1e-5
"""A loss below this times the mean |advantage| is the rounding of its own sums; heuristic."""
PURE = ("policy_loss", "pg_loss", "actor_loss", "policy_gradient_loss")
"""Names of losses without the KL."""
WHOLE = ("loss", "total_loss")


class _Fit(NamedTuple):
    form: Form
    factor: float
    misfit: float


def _find(look: Look) -> Iterator[Problem]:
    found = [(name, *fit) for name in _names(look) for fit in [_fits(look, name)] if fit is not None]
    stepped = [name for name, declared, _ in found if declared.misfit <= CLOSE]
    for name, declared, best in found:
        if declared.misfit > CLOSE:
            yield _contradicted(look, name, declared, best, stepped)


def _names(look: Look) -> list[str]:
    kept = {name: name.lower().split("/") for name in look.metrics}
    return [name for name, parts in kept.items() if parts[-1] in WHOLE + PURE and not of_evaluation(name)]


def _fits(look: Look, name: str) -> tuple[_Fit, _Fit] | None:
    """The declared aggregation and the closest one; None where nothing can be said."""
    own = losses(look, whole=name.lower().split("/")[-1] in WHOLE)
    made = (
        [] if own is None else [fit for form in forms(look, own) for fit in _fit(look, name, form, own.size)]
    )
    declared = next((fit for fit in made if fit.form.name == DECLARED), None)
    if declared is None or declared.misfit <= CLOSE:
        return None if declared is None else (declared, declared)
    close = [fit for fit in made if fit.misfit <= CLOSE]
    best = next(iter([fit for fit in close if fit.factor == 1.0] or close), None)
    if best is None or declared.misfit < BETTER * max(best.misfit, CLOSE / 2):
        return None
    return declared, best


def _fit(look: Look, name: str, form: Form, size: float) -> Iterator[_Fit]:
    """A form as it is, and times the factor that fits best; nothing where the loss is 0 but for rounding."""
    logged, of_tokens = by_update(look, name, form.values)
    scale = float(np.sqrt(np.mean(of_tokens**2))) if len(logged) >= LEAST else 0.0
    if scale <= VOID * size or not np.any(np.abs(logged) > 0):
        return
    slack = rounding(logged)
    yield _Fit(form, 1.0, closeness(logged, of_tokens, slack))
    factor = float(logged @ of_tokens) / float(of_tokens @ of_tokens)
    if factor > 0 and not form.fixed:
        yield _Fit(form, factor, closeness(logged, factor * of_tokens, slack))


def _contradicted(look: Look, name: str, declared: _Fit, best: _Fit, stepped: list[str]) -> Problem:
    own = look.declared
    assert own is not None
    said = own.aggregation.kind + (" per micro-batch" if own.aggregation.scope == "micro_batch" else "")
    if best.form.name == DECLARED:
        text = (
            f"{name} is {best.factor:.3g} times the loss that the declared aggregation ({said}) gives "
            f"(misfit {best.misfit:.1g})."
        )
    else:
        times = "" if best.factor == 1.0 else f"{best.factor:.3g} times "
        text = (
            f"The declared aggregation is {said}, and {name} does not fit it (relative misfit "
            f"{declared.misfit:.2g}); it fits {times}{best.form.words} ({best.misfit:.1g})."
        )
    other = [known for known in stepped if known != name]
    if other:
        text += f" {other[0]} fits the declared one: {name} is another number than the loss that was stepped."
    return problem(
        look,
        "loss.aggregation-differs",
        None,
        text + best.form.more,
        "info" if other or best.form.name == DECLARED else "warning",
        certainty="likely",
        hint="Compare losses only of equal aggregation, micro-batches and accumulation.",
    )


CHECK = Entry(
    "the loss that the trainer logged",
    {"loss.aggregation-differs": "the logged loss is that of another aggregation than the declared one"},
    _find,
    ("reward", "logp_theta", "logp_old"),
)
