"""What all tests share: how hard hypothesis tries."""

import os

from hypothesis import HealthCheck, settings

# Enough to find a broken law in seconds; `HYPOTHESIS_PROFILE=thorough` looks longer.
settings.register_profile(
    "fast",
    max_examples=50,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", settings.get_profile("fast"), max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))
