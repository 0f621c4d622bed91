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
from agent_fleet.protocols import Check, Lane, Mender, Policy, Probe, Provider, Reader
from agent_fleet.tree import marked

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
    "Mender",
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
    "marked",
    "start_detached",
    "stop_tree",
]
