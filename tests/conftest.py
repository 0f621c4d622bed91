from __future__ import annotations

pytest_plugins = ["agent_fleet.testing", "support.fixtures"]
