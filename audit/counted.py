"""Counted nouns, for the messages of every floor."""

from __future__ import annotations


def plural(n: int, noun: str) -> str:
    """Return ``1 step``, ``2 steps``."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
