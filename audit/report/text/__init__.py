"""What the terminal shows: one function per analysis; each takes a result and prints it."""

from audit.report.text.check import show_check
from audit.report.text.explanation import show_explanation
from audit.report.text.length import show_length
from audit.report.text.summary import show_summary

__all__ = ["show_check", "show_explanation", "show_length", "show_summary"]
