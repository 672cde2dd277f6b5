"""``rlaudit import --formats``: the foreign formats, what each holds and cannot hold."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from audit.report.formats import Format
from audit.report.text.shared import QUIET, STRONG, Page


def show_formats(formats: Sequence[Format], console: Console | None = None) -> None:
    """Print every format."""
    page = Page(console)
    for each in formats:
        page.say((each.name, STRONG), f"  {each.title}")
        page.say((f"tier {each.tier} of 6; groups {each.groups}", QUIET), indent=2)
        if each.holds:
            page.say(f"holds {', '.join(each.holds)}", indent=2)
        if each.cannot:
            page.say(f"holds {each.cannot}", indent=2)
        page.gap()
    page.say(("rlaudit import SRC DEST --format NAME; every command also opens such a log as it is.", QUIET))
    page.print()
