"""Rollout logs: finding, opening, checking and writing them."""

from audit.logs.catalogue import find_runs, open_run
from audit.logs.manifest import Manifest
from audit.logs.new_rows import hash_prompt
from audit.logs.run import Run
from audit.logs.validate import validate
from audit.logs.writer import RolloutWriter

__all__ = ["Manifest", "RolloutWriter", "Run", "find_runs", "hash_prompt", "open_run", "validate"]
