"""The result of holding logged scalars against the tokens."""

from __future__ import annotations

import msgspec

from audit.analyses.infer_clip import ClipFit
from audit.analyses.loss_fit import LossFit


class LossInference(msgspec.Struct, frozen=True):
    """What the scalars of ``metrics/`` say about the objective."""

    status: str
    """``fits``: a candidate reproduces the logged loss; ``partial``: the clip fractions alone are reproduced;
    ``none_fits``; ``skipped``: the log cannot say."""
    reason: str = ""
    best: LossFit | None = None
    equivalent: list[LossFit] = []
    """Every candidate that fits: what this log cannot tell apart."""
    clip: list[ClipFit] = []
    """Readings of the clip fractions that reproduce them, with the interval of epsilon."""
    open: list[str] = []
    """Parts of the objective of which these scalars show nothing."""
    agrees: bool | None = None
    """Whether the declared objective reproduces them; None where that cannot be said."""
    contradictions: list[str] = []
    """Declared parts that nothing that fits has, in words."""
    contradicted: list[str] = []
    """Their names."""
    notes: list[str] = []
    """What was logged otherwise than its name says."""
    n: int = 0
    """Logged values of the loss that were recomputed."""
    tokens: int = 0

    def options(self, part: str) -> list[LossFit]:
        """Fits with distinct values of a part; none where the log leaves the part open."""
        if self.status not in ("fits", "partial") or part in self.open:
            return []
        by_value: dict[bytes, LossFit] = {}
        for fit in self.equivalent:
            by_value.setdefault(msgspec.json.encode(fit.part(part)), fit)
        return list(by_value.values())
