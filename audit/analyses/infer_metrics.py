"""What the scalars that a trainer logged say of the objective, beyond what advantages show."""

from __future__ import annotations

import msgspec
import numpy as np

from audit.analyses.infer_clip import Bound, ClipFit, clip_fits
from audit.analyses.infer_loss import LossFits, fit_loss
from audit.analyses.logged_meaning import kl_note, reward_note
from audit.analyses.logged_scalars import WITHOUT_KL, Series, series
from audit.analyses.loss_agreement import contradictions, declared_surrogate
from audit.analyses.loss_fit import SHOWN_BY_LOSS, LossFit
from audit.analyses.loss_inference import LossInference
from audit.analyses.loss_sample import LossSample, loss_sample
from audit.analyses.loss_windows import LEAST
from audit.errors import AuditError
from audit.facts.rows import RunRows, dense
from audit.logs.metrics import Metrics
from audit.objectives.objective import Objective

LOOSE = 0.05
"""Relative width added to an interval of epsilon that no loss bears out: log-probs that were rounded, as to
bfloat16, shift what counts as clipped; heuristic."""
NEEDS_LOSS = "needs the loss of every step in metrics/"


def infer_metrics(rows: RunRows, metrics: Metrics, declared: Objective | None) -> LossInference:
    """Recompute loss and clip fractions from the tokens under every candidate, and name what fits.

    Up to :data:`audit.analyses.loss_sample.MOST` loss tokens are read, from the first steps on.
    """
    if not len(metrics.value):
        return LossInference("skipped", NEEDS_LOSS)
    try:
        return _infer(rows, metrics, declared)
    except AuditError as error:
        return LossInference("skipped", str(error))


def _infer(rows: RunRows, metrics: Metrics, declared: Objective | None) -> LossInference:
    logged = {name: series(rows, metrics, name) for name in ("loss", "clip_low", "clip_high", "clip", "kl")}
    first = next((one for one in logged.values() if one is not None), None)
    notes = [note for note in (reward_note(rows, series(rows, metrics, "reward")),) if note]
    if first is None:
        return LossInference("skipped", NEEDS_LOSS, notes=notes)
    sample = loss_sample(rows, first.window)
    slices = _slices(rows)
    clip: list[ClipFit] = []
    clip_logged = logged["clip"] is not None or logged["clip_low"] is not None
    if clip_logged and sample.moved:
        clip = clip_fits(sample, logged["clip_low"], logged["clip_high"], logged["clip"], slices)
    notes += [note for note in (kl_note(sample, logged["kl"], slices),) if note]
    loss = logged["loss"]
    fits: LossFits | None = None
    if loss is not None:
        fits = fit_loss(rows, sample, loss, clip, declared_surrogate(declared), clip_logged=clip_logged)
    made = _told(loss, fits, clip, sample)
    made = msgspec.structs.replace(made, clip=clip, notes=notes + made.notes, tokens=len(sample.row))
    return made if declared is None else _against(made, declared, rows)


def _told(
    loss: Series | None, fits: LossFits | None, clip: list[ClipFit], sample: LossSample
) -> LossInference:
    if fits is not None and fits.fitting:
        open_ = [] if sample.moved else ["ratio", "clip"]
        best = fits.fitting[0]
        unseen = sample.gap is not None and not fits.sees_kl
        if unseen or (best.kl == "none" and loss is not None and loss.name in WITHOUT_KL):
            open_.append("kl")
        notes = []
        if best.factor != 1.0 and not best.aggregation.endswith("-norm"):
            notes.append(
                f"the logged loss is {best.factor:.4g} times the recomputed one: how it is logged, or a loss "
                "that is off by this factor"
            )
        return LossInference(
            "fits", best=best, equivalent=fits.fitting, open=open_, notes=notes, n=fits.windows
        )
    n = 0 if fits is None else fits.windows
    if loss is None:
        reason = NEEDS_LOSS
    elif n <= LEAST:
        reason = f"only {n} logged values of the loss belong to logged rows"
    else:
        reason = "no candidate reproduces the logged loss"
        closest = None if fits is None else fits.closest
        if closest is not None:
            parts = ", ".join(closest.describe(part) for part in SHOWN_BY_LOSS[1:])
            reason += f"; the closest ({parts}) misses it by {closest.residual:.2g} of its size"
    seen = [reading for reading in clip if reading.low.high is not None and reading.high.high is not None]
    if seen and not (loss is not None and n > LEAST):
        # Where a loss was logged and nothing makes it, the tokens of the log are not those of the trainer.
        alone = [_from_clip(reading) for reading in seen]
        rest = [part for part in SHOWN_BY_LOSS if part not in ("ratio", "clip")]
        return LossInference("partial", reason, best=alone[0], equivalent=alone, open=rest, n=n)
    return LossInference("none_fits" if loss is not None and n > LEAST else "skipped", reason, n=n)


def _from_clip(reading: ClipFit) -> LossFit:
    """What clip fractions alone say."""
    return LossFit(
        surrogate="ppo",
        level=reading.level,
        epsilon_low=reading.low.nominal,
        epsilon_high=reading.high.nominal,
        dual=None,
        dual_shows=False,
        low_bound=_wide(reading.low),
        high_bound=_wide(reading.high),
        aggregation="token-mean",
        scope="update",
        longest=False,
        factor=1.0,
        kl="none",
        beta=0.0,
        beta_range=None,
        mask_truncated=False,
        residual=0.0,
    )


def _wide(bound: Bound) -> Bound:
    high = None if bound.high is None else bound.high * (1.0 + LOOSE)
    return Bound(bound.low * (1.0 - LOOSE), high)


def _against(made: LossInference, declared: Objective, rows: RunRows) -> LossInference:
    found = contradictions(made, declared, rows)
    if found is None:
        return made
    best = found.closest or made.best
    return msgspec.structs.replace(
        made,
        best=best,
        agrees=not found.words,
        contradictions=found.words,
        contradicted=found.parts,
    )


def _slices(rows: RunRows) -> dict[str, np.ndarray]:
    """What a fraction may be formed over."""
    found = {}
    if rows.has("micro_batch") and not rows.table["micro_batch"].null_count:
        micro_batch = dense(rows.update, rows.numpy("micro_batch"))
        if int(micro_batch.max(initial=0)) > int(rows.update.max(initial=0)):
            found["micro_batch"] = micro_batch
    return {**found, "update": rows.update}
