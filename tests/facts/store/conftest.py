"""No test may touch the user's own cache."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def user_cache(tmp_path_factory, monkeypatch):
    """An empty directory for the user's cache."""
    folder = tmp_path_factory.mktemp("user-cache")
    for name in ("RLAUDIT_CACHE", "RLAUDIT_CACHE_LIMIT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RLAUDIT_CACHE_DIR", str(folder))
    return folder
