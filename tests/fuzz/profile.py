"""How many damaged streams are tried: the Hypothesis profile `ci` under CI=true, fewer elsewhere."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile("ci", max_examples=2_000, deadline=None, suppress_health_check=_SLOW, print_blob=True)
settings.register_profile("brief", max_examples=300, deadline=None, suppress_health_check=_SLOW)

FUZZ = settings.get_profile("ci" if os.environ.get("CI") == "true" else "brief")
"""For `@settings(FUZZ)`; loaded by none, so that other tests keep theirs."""
