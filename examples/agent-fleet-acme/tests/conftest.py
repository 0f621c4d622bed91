pytest_plugins = ["agent_fleet.testing"]
