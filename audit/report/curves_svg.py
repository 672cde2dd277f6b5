"""Small inline SVG of curves over a run: numbers in, geometry out. No text of a log gets in here."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

_WIDTH, _HEIGHT = 300.0, 70.0
Values = Sequence[float | None]


def two_curves(first: Values, second: Values) -> Markup:
    """Two curves over the same points, each on its own scale about a common zero line.

    For quantities whose scales have nothing to do with each other: only sign and shape can be compared.
    """
    zero = f'<line class="zero" x1="0" x2="{_WIDTH:g}" y1="{_HEIGHT / 2:g}" y2="{_HEIGHT / 2:g}"/>'
    lines = "".join(_line(kind, values) for kind, values in (("one", first), ("two", second)))
    box = f'viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" preserveAspectRatio="none" aria-hidden="true"'
    return Markup(f'<svg class="curves" {box}>{zero}{lines}</svg>')


def _line(kind: str, values: Values) -> str:
    known = [(at, value) for at, value in enumerate(values) if value is not None]
    largest = max((abs(value) for _, value in known), default=0.0) or 1.0
    last = max(len(values) - 1, 1)
    points = " ".join(
        f"{at / last * _WIDTH:.1f},{_HEIGHT / 2 * (1.0 - 0.9 * value / largest):.1f}" for at, value in known
    )
    return f'<polyline class="{kind}" points="{points}"/>'
