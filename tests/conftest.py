"""Settings for every test: few threads; one hypothesis profile that gates and one that searches.

``HYPOTHESIS_PROFILE`` chooses: ``gate`` (the default) draws the same examples in every run, so that a change
cannot fail by luck; ``fuzz`` draws many and new ones, and prints how to repeat a failure.
"""

from __future__ import annotations

import os

import pytest
import torch
from hypothesis import HealthCheck, settings

# Two test processes share two cores; torch's own threads would only get in each other's way.
torch.set_num_threads(1)

settings.register_profile(
    "gate",
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "fuzz",
    deadline=None,
    max_examples=2000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))


@pytest.fixture(autouse=True, scope="session")
def _no_cache_of_the_user(tmp_path_factory) -> None:
    os.environ["RLAUDIT_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
