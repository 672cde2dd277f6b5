"""Who is told how a request for facts goes on; by default the log of the program."""

from __future__ import annotations

import logging

_log = logging.getLogger("audit.facts")


class Watcher:
    """Told how a request goes on; does nothing."""

    def start(self, files: int, reused: int) -> None:
        """Hear that ``files`` of the run's files are to be computed and ``reused`` are not."""

    def file_done(self) -> None:
        """Hear that one file is computed."""

    def waiting(self, message: str) -> None:
        """Hear that another process is at work on this run."""
        _log.warning(message)

    def not_stored(self, message: str) -> None:
        """Hear why facts were not stored."""
        _log.warning(message)
