"""One set of warmed-up weights for all tests that train with TRL."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def single_threaded() -> Iterator[None]:
    """One thread: faster for models this small, and sums in one order."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with single_threaded():
        yield


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tiny = pytest.importorskip("tiny")
    with single_threaded():
        return tiny.save_start(tmp_path_factory.mktemp("start"))
