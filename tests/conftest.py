"""Settings for every test: few threads, one hypothesis profile."""

from __future__ import annotations

import torch
from hypothesis import HealthCheck, settings

# Two test processes share two cores; torch's own threads would only get in each other's way.
torch.set_num_threads(1)

settings.register_profile("rlaudit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("rlaudit")
