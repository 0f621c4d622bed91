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
    Formed,
    Lane,
    Mender,
    Musters,
    Policy,
    Probe,
    Provider,
    Reader,
    Resumes,
    Seated,
    Visible,
)
from agent_fleet.screen import plain, well_formed
from agent_fleet.skill.bundle import places as skill_places
from agent_fleet.tree import marked
from agent_fleet.walls import Wall
from agent_fleet.walls import parse as parse_wall

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
    "Formed",
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
    "Resumes",
    "Seated",
    "Task",
    "Usage",
    "Visible",
    "Waiting",
    "Wall",
    "Worker",
    "hookimpl",
    "identity_of",
    "is_alive",
    "marked",
    "parse_wall",
    "plain",
    "skill_places",
    "start_detached",
    "stop_tree",
    "well_formed",
]
