"""The tiers that a configuration names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_fleet.config import load
from agent_fleet.errors import FleetError
from agent_fleet.routing import Tier, tiers


def test_tiers_come_from_the_configuration_the_cheapest_first(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[tiers.hard]\nlevel = 9\n[tiers.easy]\nlevel = -1\nmodel = "x"\nfor = "y"\n')
    config = load(str(tmp_path), queue_dir=str(tmp_path), environ={})
    assert config.warnings == ()
    assert tiers(config.tiers) == (Tier("easy", -1, "", "x", "y"), Tier("hard", 9))


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"a": {}}, "tiers.a.level is missing"),
        ({"a": {"level": "1"}}, "tiers.a.level is '1'"),
        ({"a": {"level": True}}, "tiers.a.level is True"),
        ({"a": {"level": 1, "modle": "x"}}, "tiers.a.modle means nothing"),
        ({"a": {"level": 1}, "b": {"level": 1}}, "tiers.b.level is that of tiers.a too"),
        ({"A b": {"level": 1}}, "is no name"),
    ],
)
def test_a_table_that_means_nothing_is_named(tables: dict[str, dict[str, Any]], said: str) -> None:
    with pytest.raises(FleetError, match=said) as raised:
        tiers(tables)
    assert raised.value.code == "bad_config" and raised.value.hint
