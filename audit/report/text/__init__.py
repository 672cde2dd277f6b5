"""What the terminal shows: one function per analysis; each takes a result and prints it.

The functions are imported when they are asked for, so that a page without numbers needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from audit.report.text.check import show_check
    from audit.report.text.clipping import show_clipping
    from audit.report.text.explanation import show_explanation
    from audit.report.text.formats import show_formats
    from audit.report.text.groups import show_groups
    from audit.report.text.imported import show_imported
    from audit.report.text.kl import show_kl
    from audit.report.text.length import show_length
    from audit.report.text.many import show_many
    from audit.report.text.mismatch import show_mismatch
    from audit.report.text.prompts import show_prompts
    from audit.report.text.rewards import show_rewards
    from audit.report.text.sql import show_sql
    from audit.report.text.staleness import show_staleness
    from audit.report.text.summary import show_summary

__all__ = [
    "show_check",
    "show_clipping",
    "show_explanation",
    "show_formats",
    "show_groups",
    "show_imported",
    "show_kl",
    "show_length",
    "show_many",
    "show_mismatch",
    "show_prompts",
    "show_rewards",
    "show_sql",
    "show_staleness",
    "show_summary",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{name.removeprefix('show_')}"), name)
