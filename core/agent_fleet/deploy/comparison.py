"""How the answers of a deployment are compared: by what the settings say, and by what is installed."""

from __future__ import annotations

from dataclasses import dataclass

from agent_fleet import routing
from agent_fleet.aggregate.likeness import BY_MEANING, JUDGED, LOOSELY, Bounds
from agent_fleet.config import Config
from agent_fleet.errors import FleetError
from agent_fleet.plugins import EMBEDDERS, PROVIDERS, Plugins
from agent_fleet.protocols import Embedder
from agent_fleet.routing import Tier


@dataclass(frozen=True, slots=True)
class Comparison:
    """The bounds, None where only equal answers are one; what turns texts into vectors, if it is used; and the tier whose model
    is asked about what is alike, if one is.
    """

    bounds: Bounds | None
    embedder: Embedder | None
    judge: Tier | None = None


def comparison(plugins: Plugins, config: Config) -> Comparison:
    """What `deploy.dedup` asks for. By words, vectors show more to a person, or to the judge, where they are installed.

    Raises `unusable` where meaning is asked for and no embedder can be used, `unknown_plugin` or `plugin_broken` for its name,
    `bad_config` where a model is to judge and no tier says which.
    """
    way = config.get("deploy.dedup")
    if way == "exact":
        return Comparison(None, None)
    embedder = plugins.get(EMBEDDERS, config.get("deploy.embedder"))
    why = embedder.usable() or ("" if embedder.calibration else f"the embedder {embedder.name} is not calibrated")
    usable = None if embedder.usable() else embedder
    if way == "words":
        return Comparison(Bounds(), usable)
    if way == "judged":
        name = config.get("deploy.dedup_tier")
        return Comparison(JUDGED, usable, routing.named(config.tiers, "deploy.dedup_tier", name))
    if why:
        raise FleetError(
            "unusable",
            f"answers cannot be compared by meaning: {why}",
            hint="install it, or set deploy.dedup to words",
        )
    return Comparison(LOOSELY if way == "loosely" else BY_MEANING, embedder)


def refuse(plugins: Plugins, config: Config) -> None:
    """Raise FleetError, before anything is started, for a comparison that could not be made at its end."""
    judge = comparison(plugins, config).judge
    if judge is None:
        return
    provider = judge.provider or config.get("providers.default")
    trouble = plugins.ask(plugins.offer(PROVIDERS, provider), lambda each: each.usable())
    if trouble:
        raise FleetError(
            "unusable",
            f"nobody can judge which answers say the same: provider {provider}: {trouble}",
            hint="name another tier in deploy.dedup_tier, or set deploy.dedup to words",
        )
