"""For authors of plugins: contract checks, fixtures, and an agent that does what a script says. Needs `agent-fleet[testing]`.

Opt in with `pytest_plugins = ["agent_fleet.testing"]` in the top conftest; it gives the fixtures `plugins`, `board` and
`fleet_project`. The checks are plain functions that raise AssertionError with a sentence. `agent_fleet.testing.agent` is the
scripted agent, `agent_fleet.testing.provider` the provider of its name.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_fleet.testing.accounts import check_accounts
    from agent_fleet.testing.board import new_board
    from agent_fleet.testing.lanes import check_lane
    from agent_fleet.testing.policies import check_policy
    from agent_fleet.testing.probes import check_probe
    from agent_fleet.testing.project import Answer, FleetProject, script
    from agent_fleet.testing.providers import check_provider

__all__ = [
    "Answer",
    "FleetProject",
    "check_accounts",
    "check_lane",
    "check_policy",
    "check_probe",
    "check_provider",
    "new_board",
    "script",
]

pytest_plugins = ("agent_fleet.testing.fixtures",)

_HOMES = {
    "Answer": "project",
    "FleetProject": "project",
    "check_accounts": "accounts",
    "check_lane": "lanes",
    "check_policy": "policies",
    "check_probe": "probes",
    "check_provider": "providers",
    "new_board": "board",
    "script": "project",
}


def __getattr__(name: str) -> object:
    """Load what is asked for and no more: the agent, which lies below this package, has to start fast and without pytest."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
