"""Small inline SVG for reports: numbers in, geometry out. No text of a log gets in here."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from audit.stats import Estimate

_WIDTH, _HEIGHT = 200.0, 16.0
_MIDDLE = _HEIGHT / 2
Domain = tuple[float, float]


def share_domain(ends: Sequence[float | None]) -> Domain:
    """Return 0 to 1, wider where a share or its interval lies outside."""
    known = [end for end in ends if end is not None]
    return min([0.0, *known]), max([1.0, *known])


def effect_domain(estimates: Sequence[Estimate]) -> Domain:
    """Return the range of several estimates from 0, with a little room above."""
    ends = [end for e in estimates for end in (e.value, e.high) if end is not None]
    return 0.0, 1.05 * max([*ends, 1e-12])


def symmetric_domain(value: float | None, low: float | None, high: float | None) -> Domain:
    """Return a range around zero for a difference and its interval."""
    largest = max([abs(x) for x in (value, low, high) if x is not None] or [1.0]) or 1.0
    return -1.1 * largest, 1.1 * largest


def bar(value: float, low: float | None, high: float | None, domain: Domain) -> Markup:
    """Return a bar from zero to ``value`` with a whisker over its interval."""
    zero, end = _x(0.0, domain), _x(value, domain)
    body = _rect("track", 0.0, _WIDTH) + _rect("bar", min(zero, end), abs(end - zero))
    return _svg(body + _whisker(low, high, domain))


def point(value: float, low: float | None, high: float | None, domain: Domain) -> Markup:
    """Return a point with a whisker over its interval, and a line at zero."""
    zero = _x(0.0, domain)
    axis = f'<line class="zero" x1="{zero:.2f}" x2="{zero:.2f}" y1="0" y2="{_HEIGHT:g}"/>'
    mark = _x(value, domain)
    dot = f'<rect class="dot" x="{mark - 2:.2f}" y="{_MIDDLE - 4:g}" width="4" height="8"/>'
    return _svg(axis + _whisker(low, high, domain) + dot)


def _x(value: float, domain: Domain) -> float:
    low, high = domain
    return min(max((value - low) / (high - low), 0.0), 1.0) * _WIDTH


def _rect(kind: str, x: float, width: float) -> str:
    return f'<rect class="{kind}" x="{x:.2f}" y="2" width="{width:.2f}" height="{_HEIGHT - 4:g}"/>'


def _whisker(low: float | None, high: float | None, domain: Domain) -> str:
    if low is None or high is None:
        return ""
    left, right = _x(low, domain), _x(high, domain)
    ends = "".join(
        f'<line class="whisker" x1="{x:.2f}" x2="{x:.2f}" y1="{_MIDDLE - 4:g}" y2="{_MIDDLE + 4:g}"/>'
        for x in (left, right)
    )
    span = f'<line class="whisker" x1="{left:.2f}" x2="{right:.2f}" y1="{_MIDDLE:g}" y2="{_MIDDLE:g}"/>'
    return span + ends


def _svg(body: str) -> Markup:
    box = f'viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" preserveAspectRatio="none" aria-hidden="true"'
    return Markup(f"<svg {box}>{body}</svg>")
