"""How the answers of a deployment are compared: by what the settings say, and by what is installed."""

from __future__ import annotations

from dataclasses import dataclass

from agent_fleet.aggregate.likeness import BY_MEANING, LOOSELY, Bounds
from agent_fleet.config import Config
from agent_fleet.errors import FleetError
from agent_fleet.plugins import EMBEDDERS, Plugins
from agent_fleet.protocols import Embedder


@dataclass(frozen=True, slots=True)
class Comparison:
    """The bounds, None where only equal answers are one; and what turns texts into vectors, if it is used."""

    bounds: Bounds | None
    embedder: Embedder | None


def comparison(plugins: Plugins, config: Config) -> Comparison:
    """What `deploy.dedup` asks for. By words, vectors show more to a person where they are installed.

    Raises `unusable` where meaning is asked for and no embedder can be used, `unknown_plugin` or `plugin_broken` for its name.
    """
    way = config.get("deploy.dedup")
    if way == "exact":
        return Comparison(None, None)
    embedder = plugins.get(EMBEDDERS, config.get("deploy.embedder"))
    why = embedder.usable() or ("" if embedder.calibration else f"the embedder {embedder.name} is not calibrated")
    if way == "words":
        return Comparison(Bounds(), None if embedder.usable() else embedder)
    if why:
        raise FleetError(
            "unusable",
            f"answers cannot be compared by meaning: {why}",
            hint="install it, or set deploy.dedup to words",
        )
    return Comparison(LOOSELY if way == "loosely" else BY_MEANING, embedder)
