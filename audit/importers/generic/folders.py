"""Which files of a folder are its log."""

from __future__ import annotations

from pathlib import Path

from audit.importers.generic.files import kind_of
from audit.logs.files import numeric_order

NO_RECORDS = frozenset({"run.json", "config.json", "args.json", "training_args.json", "trainer_state.json"})


def files_in(folder: Path) -> list[Path]:
    """Return the files of records of the most frequent kind of a folder, in numeric order."""
    found = [f for f in folder.iterdir() if f.name[0] not in "._" and kind_of(f) and f.name not in NO_RECORDS]
    found = [f for f in found if f.is_file() and not f.name.startswith(("metrics", "wandb-"))]
    kinds = [kind_of(f) for f in found]
    most = max(sorted({k for k in kinds if k}), key=kinds.count, default=None)
    return sorted((f for f in found if kind_of(f) == most), key=lambda f: numeric_order(f.name))
