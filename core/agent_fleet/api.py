"""All that a plugin may import from Agent Fleet."""

from __future__ import annotations

from agent_fleet.config import Config
from agent_fleet.errors import FleetError
from agent_fleet.hookspecs import hookimpl
from agent_fleet.model import (
    Active,
    Board,
    Budget,
    Ceiling,
    Cost,
    Crew,
    Event,
    Exit,
    Finding,
    Hold,
    Job,
    Launch,
    Outcome,
    Quantity,
    Reading,
    Task,
    Usage,
    Waiting,
    Worker,
)
from agent_fleet.process import identity_of, is_alive, start_detached, stop_tree
from agent_fleet.protocols import (
    Check,
    Cleaner,
    Lane,
    Mender,
    Musters,
    Policy,
    Probe,
    Provider,
    Reader,
    Seated,
    Visible,
)
from agent_fleet.tree import marked

__all__ = [
    "Active",
    "Board",
    "Budget",
    "Ceiling",
    "Check",
    "Cleaner",
    "Config",
    "Cost",
    "Crew",
    "Event",
    "Exit",
    "Finding",
    "FleetError",
    "Hold",
    "Job",
    "Lane",
    "Launch",
    "Mender",
    "Musters",
    "Outcome",
    "Policy",
    "Probe",
    "Provider",
    "Quantity",
    "Reader",
    "Reading",
    "Seated",
    "Task",
    "Usage",
    "Visible",
    "Waiting",
    "Worker",
    "hookimpl",
    "identity_of",
    "is_alive",
    "marked",
    "start_detached",
    "stop_tree",
]
