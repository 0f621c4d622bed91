from __future__ import annotations

from hypothesis import HealthCheck, settings

pytest_plugins = ["agent_fleet.testing", "support.fixtures"]

# tests hold to what is true, not to how fast this machine is at the moment
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
