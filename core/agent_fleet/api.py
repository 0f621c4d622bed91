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
    Check,
    Cost,
    Event,
    Exit,
    Finding,
    Hold,
    Job,
    Lane,
    Launch,
    Outcome,
    Policy,
    Probe,
    Provider,
    Quantity,
    Reader,
    Reading,
    Task,
    Usage,
    Waiting,
    Worker,
)
from agent_fleet.process import identity_of, is_alive, start_detached, stop_tree

__all__ = [
    "Active",
    "Board",
    "Budget",
    "Ceiling",
    "Check",
    "Config",
    "Cost",
    "Event",
    "Exit",
    "Finding",
    "FleetError",
    "Hold",
    "Job",
    "Lane",
    "Launch",
    "Outcome",
    "Policy",
    "Probe",
    "Provider",
    "Quantity",
    "Reader",
    "Reading",
    "Task",
    "Usage",
    "Waiting",
    "Worker",
    "hookimpl",
    "identity_of",
    "is_alive",
    "start_detached",
    "stop_tree",
]
