"""One ``.pt`` of slime, opened only where it holds nothing but tensors, numbers, text, lists and dicts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from audit.errors import BadLog
from audit.importers.plain_tensors import load_plain

PLAIN = ".plain"
CODE = (
    "import glob, numpy, torch; "
    "p = lambda v: v if v is None or type(v) in (int, float, bool, str) or isinstance(v, torch.Tensor) else "
    "{str(k): p(x) for k, x in v.items()} if isinstance(v, dict) else "
    "[p(x) for x in v] if isinstance(v, (list, tuple)) else "
    "v.item() if isinstance(v, numpy.generic) else "
    "torch.tensor(v) if isinstance(v, numpy.ndarray) and v.dtype.kind in 'biuf' else str(v); "
    "[torch.save(p(torch.load(f, map_location='cpu', weights_only=False)), f + '.plain') "
    "for f in glob.glob('**/*.pt', recursive=True)]"
)
"""Writes beside every file what can be read of it."""
RECIPE = f'in the dump\'s folder, where slime is installed, run: python -c "{CODE}"'


def plain_of(file: Path) -> Path:
    """Return what the recipe wrote beside a file, else the file."""
    plain = file.with_name(file.name + PLAIN)
    return plain if plain.is_file() else file


def load(file: Path) -> Mapping[str, Any]:
    """Return what a file holds.

    Raises
    ------
    BadLog
        It holds objects of classes and was not converted, or is none of slime's.
    """
    try:
        found = load_plain(file)
    except BadLog as error:
        how = f"; {RECIPE}" if "not opened" in str(error) else ""
        raise BadLog(f"{error}{how}") from None
    if not isinstance(found, Mapping):
        raise BadLog(f"{file.name}: holds no samples of slime")
    return found
