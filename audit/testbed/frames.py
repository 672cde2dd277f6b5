"""The numbers of the figures as frames, and the figures made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from audit.analyses.prompt_factor import prompt_factors
from audit.analyses.zero_signal import zero_signal
from audit.objectives.catalogue import named
from audit.objectives.objective import Objective
from audit.report.figures_theme import THEMES, Theme
from audit.testbed.language import Language
from audit.testbed.measure import (
    LENGTH_RUNS,
    TARGET_RUNS,
    Curves,
    length_curves,
    measured_factors,
    target_curves,
)

if TYPE_CHECKING:
    from altair import LayerChart

SIZES = (4, 8, 16, 64)
GROUP_SIZE = 8
GROUPS = 6000
"""Groups per prompt from which a prompt-weight factor is measured."""
FACTORS = {"GRPO": "grpo", "RLOO": "rloo", "Dr. GRPO": "dr_grpo"}
SHORT = Language(budget=4)
"""For the distance to pi*: with fewer prefixes training comes near it within the figure."""
_FINE = [at / 200 for at in range(201)]


def silence_frames(language: Language) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Exact shares of groups without signal: curves, and the testbed's prompts; curve, rate, value."""

    def frame(rates: list[float]) -> pl.DataFrame:
        rows = [(f"G = {size}", p, zero_signal((1.0 - p, p), size)) for size in SIZES for p in rates]
        return pl.DataFrame(rows, schema=["curve", "rate", "value"], orient="row")

    return frame(_FINE), frame(list(language.rates))


def factor_frames(language: Language) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Exact prompt-weight factors: curve, rate, value; and measured ones, with low and high (95 %)."""
    curves = [
        (title, factor.rate, factor.factor)
        for title, name in FACTORS.items()
        for factor in prompt_factors(named(name), GROUP_SIZE, _FINE)
    ]
    titles = {name: title for title, name in FACTORS.items()}
    measured = measured_factors(language, list(map(named, titles)), GROUP_SIZE, GROUPS)
    points = [
        (titles[m.objective], m.rate, m.factor, m.factor - 1.96 * m.error, m.factor + 1.96 * m.error)
        for m in measured
    ]
    names = ["curve", "rate", "value"]
    return (
        pl.DataFrame(curves, schema=names, orient="row"),
        pl.DataFrame(points, schema=[*names, "low", "high"], orient="row"),
    )


def length_frame(runs: dict[str, Curves]) -> pl.DataFrame:
    """Lengths over training: curve, side, step, mean, low, high (the seeds' extremes)."""
    return pl.concat(
        [_banded(name, curves, side, side) for name, curves in runs.items() for side in ("correct", "wrong")]
    )


def target_frame(runs: dict[str, Curves]) -> pl.DataFrame:
    """KL to pi* over training; columns of :func:`length_frame`."""
    return pl.concat([_banded(name, curves, "kl", "") for name, curves in runs.items()])


@dataclass(frozen=True)
class Measured:
    """Everything that the figures show."""

    silence: tuple[pl.DataFrame, pl.DataFrame]
    factor: tuple[pl.DataFrame, pl.DataFrame]
    last: pl.DataFrame
    """Lengths where the last letter is the answer."""
    first: pl.DataFrame
    """Lengths where the first letter is the answer."""
    target: pl.DataFrame


def measure_all(progress: Callable[[float], None]) -> Measured:
    """Measure everything that the figures show; ``progress`` gets the share that is done."""
    parts = 2 * len(LENGTH_RUNS) + len(TARGET_RUNS)
    done = 0

    def within(share: float) -> None:
        progress((done + share) / parts)

    def train(
        make: Callable[..., Curves], language: Language, objectives: dict[str, Objective]
    ) -> dict[str, Curves]:
        nonlocal done
        runs = {}
        for name, objective in objectives.items():
            runs[name] = make(language, objective, progress=within)
            done += 1
        return runs

    language = Language()
    return Measured(
        silence=silence_frames(language),
        factor=factor_frames(language),
        last=length_frame(train(length_curves, language, LENGTH_RUNS)),
        first=length_frame(train(length_curves, Language(answer="first"), LENGTH_RUNS)),
        target=target_frame(train(target_curves, SHORT, TARGET_RUNS)),
    )


def draw_all(found: Measured, out: Path, themes: Sequence[Theme] = THEMES) -> list[Path]:
    """Draw both figures in every theme into a directory that exists; returns the files.

    Raises
    ------
    AuditError
        vl-convert is not installed.
    """
    from audit.report.figures import figure, save_figure

    written = []
    for theme in themes:
        for name, panels in figures_of(found, theme).items():
            written += save_figure(figure(panels, theme), out / name, theme)
    return written


def figures_of(found: Measured, theme: Theme) -> dict[str, list[LayerChart]]:
    """Return the panels of each figure, by the name of its files."""
    from audit.report.figures import factor_panel, length_panel, silence_panel, target_panel

    seeds = "solid: correct, dashed: wrong; band: 10 seeds"
    return {
        "group-statistics": [
            silence_panel(*found.silence, theme),
            factor_panel(*found.factor, theme),
            length_panel(found.last, theme, "The normaliser moves length", seeds),
        ],
        "length-and-target": [
            length_panel(
                found.first,
                theme,
                "Where length cannot matter",
                "the first letter is the answer; band: 10 seeds",
            ),
            target_panel(found.target, theme, "Which target is reached", "beta = 0.3; band: 10 seeds"),
        ],
    }


def _banded(name: str, curves: Curves, quantity: str, side: str) -> pl.DataFrame:
    values = curves.values[quantity]
    return pl.DataFrame(
        {
            "curve": [name] * len(curves.steps),
            "side": [side] * len(curves.steps),
            "step": curves.steps,
            "mean": values.mean(-1).tolist(),
            "low": values.amin(-1).tolist(),
            "high": values.amax(-1).tolist(),
        }
    )
