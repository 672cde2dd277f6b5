"""Small inline SVG of a metric in two runs over steps. Numbers in, geometry out; no text of a log gets in."""

from __future__ import annotations

from markupsafe import Markup

from audit.analyses.timeline import Course

_WIDTH, _HEIGHT = 300.0, 60.0


def course_chart(course: Course) -> Markup:
    """Draw A and B over the bins of steps on one scale, and a dashed line where they part."""
    sides = ([m.a for m in course.moments], [m.b for m in course.moments])
    known = [value for side in sides for value in side if value is not None]
    if not known:
        return Markup("")
    low, high = min(known), max(known)
    room = high - low or 1.0
    last = max(len(course.moments) - 1, 1)

    def x(at: int) -> float:
        return at / last * _WIDTH

    def line(kind: str, values: list[float | None]) -> str:
        points = " ".join(
            f"{x(at):.1f},{_HEIGHT * (0.95 - 0.9 * (value - low) / room):.1f}"
            for at, value in enumerate(values)
            if value is not None
        )
        return f'<polyline class="{kind}" points="{points}"/>'

    mark = ""
    if course.parted is not None:
        at = x(course.parted)
        mark = f'<line class="zero" x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="{_HEIGHT:g}"/>'
    box = f'viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" preserveAspectRatio="none" aria-hidden="true"'
    return Markup(f'<svg class="curves" {box}>{mark}{line("one", sides[0])}{line("two", sides[1])}</svg>')
