"""The KL that the trainer logged: absent, never a number, or another estimator than one thinks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from audit.analyses.checks.look import Entry, Look, problem
from audit.schema import Problem

CLOSE = 0.02
"""Relative difference up to which a logged KL is that of the tokens; heuristic."""
KL_NAMES = ("kl", "kl_loss", "mean_kl", "kl_mean", "actor_kl", "reward_kl", "reward_kl_penalty")


def _find(look: Look) -> Iterator[Problem]:
    yield from _reference(look)
    yield from _kl(look)


def _reference(look: Look) -> Iterator[Problem]:
    declared = look.declared
    logged = look.metric(*KL_NAMES)
    if look.rows.has("logp_ref"):
        return
    if declared is not None and (declared.kl.loss is not None or declared.kl.reward is not None):
        part = declared.kl.loss or declared.kl.reward
        if part is not None and part.coefficient > 0:
            yield problem(
                look,
                "kl.reference-absent",
                None,
                f"A KL term of coefficient {part.coefficient:g} is declared and logp_ref is absent: what it "
                "did cannot be seen.",
                "info",
                column="logp_ref",
            )
    elif logged is not None and not np.isfinite(logged[2]).any():
        yield problem(
            look,
            "kl.not-computed",
            None,
            f"{logged[0]} is never a number because logp_ref is absent: no KL was computed (coefficient 0).",
            "info",
            column="logp_ref",
        )


def _kl(look: Look) -> Iterator[Problem]:
    """Which estimator the logged KL is, and whether it can be what it is called."""
    logged = look.metric(*KL_NAMES)
    policy = next((p for p in ("theta", "old") if look.rows.has(f"logp_{p}")), None)
    loss = look.loss_tokens
    if logged is None or policy is None or loss is None or not look.rows.has("logp_ref"):
        return
    name, steps, values = logged
    own = {
        form: _by_step(look, look.rows.facts[f"kl_{policy}_ref_{form}"], loss, steps)  # type: ignore[index]
        for form in ("k1", "k2", "k3")
    }
    fits = {
        form: float(np.nansum(np.abs(found - values)) / max(np.nansum(np.abs(values)), 1e-12))
        for form, found in own.items()
        if (np.isfinite(found) & np.isfinite(values)).sum() > 0
    }
    if not fits:
        return
    (form, apart), (_, second) = sorted(fits.items(), key=lambda found: found[1])[:2]
    mean = {key: float(np.nanmean(found)) for key, found in own.items()}
    negative = int((values < 0).sum())
    text = ", ".join(f"{key} = {value:.3g}" for key, value in mean.items())
    if apart <= CLOSE:
        if (form == "k3" and not negative) or second < 3 * apart or second < CLOSE:
            return
        said = f"Reported {name} = {form}"
        said += f" (can be negative; it is in {negative} of {len(values)} steps)" if form == "k1" else ""
        yield problem(
            look,
            "kl.reported-estimator",
            None,
            f"{said}; per loss token {text}.",
            "info",
            column="logp_ref",
            hint="Two runs that log different estimators do not log the same KL.",
        )
    elif negative:
        yield problem(
            look,
            "kl.reported-estimator",
            None,
            f"Reported {name} is negative in {negative} of {len(values)} steps, so it is neither k2 nor k3, "
            f"and it is not k1 of the logged tokens; per loss token {text}.",
            column="logp_ref",
        )


def _by_step(look: Look, total: np.ndarray, loss: np.ndarray, steps: np.ndarray) -> np.ndarray:
    use = look.first & np.isfinite(total)
    known, at = np.unique(look.rows.step[use], return_inverse=True)
    mean = np.bincount(at, weights=total[use]) / np.maximum(np.bincount(at, weights=loss[use]), 1)
    place = np.searchsorted(known, steps)
    hit = (
        (place < len(known)) & (known[np.minimum(place, len(known) - 1)] == steps)
        if len(known)
        else steps < 0
    )
    return np.where(hit, mean[np.minimum(place, len(known) - 1)] if len(known) else np.nan, np.nan)


CHECK = Entry(
    "the KL that the trainer logged",
    {
        "kl.reference-absent": "a KL term is declared and the reference was not logged",
        "kl.not-computed": "a KL metric without a number, and no reference",
        "kl.reported-estimator": "which KL estimator the trainer logged; negative ones",
    },
    _find,
    ("reward",),
)
