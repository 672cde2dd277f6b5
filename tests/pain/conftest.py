"""The builder of the logs is importable from here; ``EVERY_LOG=1`` opens every page on each of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=bool(os.environ.get("EVERY_LOG")))
def _every_page(request, monkeypatch) -> Iterator[None]:
    """Once a test has written its spoiled logs and checked them, no page may fail on any of them."""
    root = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    if root is None:
        return
    from shown import PAGES, faults, opened, views

    from audit.importers import find_runs

    for run in [each.path.relative_to(root).as_posix() for each in find_runs(root) if each.error is None]:
        for page in PAGES:
            at = opened(monkeypatch, root, page, run)
            assert [(run, page, view, found) for view in views(at) if (found := faults(at))] == []
