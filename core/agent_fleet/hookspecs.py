"""What a plugin may offer. Every hook returns named things; a name decides which is used, never an order.

A plugin is a module or object with one or more of these functions marked by `hookimpl`. Its distribution names it in the
entry-point group of the family. An implementation may leave the `config` argument out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

import pluggy

from agent_fleet.protocols import Check, Decomposer, Embedder, Lane, Policy, Probe, Provider

if TYPE_CHECKING:
    from agent_fleet.config import Config

hookspec = pluggy.HookspecMarker("agent_fleet")
hookimpl = pluggy.HookimplMarker("agent_fleet")


class Offers(Protocol):
    """The hooks, one a family."""

    @hookspec
    def fleet_probes(self, config: Config) -> Iterable[Probe]:
        """Offer ways to read what this machine can spare."""
        ...

    @hookspec
    def fleet_lanes(self, config: Config) -> Iterable[Lane]:
        """Offer ways to run a worker's process."""
        ...

    @hookspec
    def fleet_providers(self, config: Config) -> Iterable[Provider]:
        """Offer kinds of agents."""
        ...

    @hookspec
    def fleet_policies(self, config: Config) -> Iterable[Policy]:
        """Offer rules that cap the number of workers or make a task wait."""
        ...

    @hookspec
    def fleet_embedders(self, config: Config) -> Iterable[Embedder]:
        """Offer ways to turn texts into vectors, by which answers that say the same in other words are found."""
        ...

    @hookspec
    def fleet_checks(self, config: Config) -> Iterable[Check]:
        """Offer health checks for `fleet doctor`."""
        ...

    @hookspec
    def fleet_decomposers(self, config: Config) -> Iterable[Decomposer]:
        """Offer ways to take a goal apart for `fleet deploy`."""
        ...
