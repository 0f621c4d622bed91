"""How the answers of a deployment are compared: what the settings ask for, and what is installed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import pytest

from agent_fleet.aggregate.likeness import BY_MEANING, JUDGED, LOOSELY, Bounds
from agent_fleet.config import load
from agent_fleet.deploy.comparison import Comparison, comparison
from agent_fleet.errors import FleetError
from agent_fleet.plugins import Plugins
from agent_fleet_embedders.wordllama import WordLlama
from support.deployments import hired
from support.runs import Site

ONE = "Old rows stay in the cache because the job that should delete them never runs."
TWO = "Because the job that should delete them never runs, old rows stay in the cache."
LLAMA = f"vectors of wordllama {version('wordllama')}"


def settled(**settings: str) -> Comparison:
    environ: Mapping[str, str] = {f"FLEET_DEPLOY_{name.upper()}": value for name, value in settings.items()}
    config = load("/", queue_dir="", environ=environ)
    return comparison(Plugins(config, third_party=False), config)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the extra were not installed."""
    monkeypatch.setattr(WordLlama, "usable", lambda _: "wordllama is not installed")


def test_words_decide_unless_told_otherwise_and_vectors_only_show() -> None:
    found = settled()
    assert found.bounds == Bounds()
    assert found.bounds.score is None
    assert found.embedder is not None


@pytest.mark.parametrize(("way", "bounds"), [("exact", None), ("meaning", BY_MEANING), ("loosely", LOOSELY)])
def test_each_way_has_its_bounds(way: str, bounds: Bounds | None) -> None:
    found = settled(dedup=way)
    assert found.bounds == bounds
    assert (found.embedder is None) == (bounds is None)


def test_without_the_extra_the_default_needs_no_model(bare: None) -> None:
    assert settled() == Comparison(Bounds(), None)


TIERS = '[tiers.small]\nlevel = 1\nprovider = "anthropic"\nmodel = "some-model"\n'


def test_a_judge_is_the_model_of_a_tier_and_needs_no_extra(tmp_path: Path, bare: None) -> None:
    (tmp_path / "config.toml").write_text(f'[deploy]\ndedup = "judged"\ndedup_tier = "small"\n{TIERS}')
    config = load("/", queue_dir=str(tmp_path), environ={})
    plugins = Plugins(config, third_party=False)
    found = comparison(plugins, config)
    assert (found.bounds, found.embedder) == (JUDGED, None)
    assert found.judge is not None
    assert (found.judge.name, found.judge.provider, found.judge.model) == ("small", "anthropic", "some-model")


def test_a_judge_that_no_tier_names_is_refused() -> None:
    with pytest.raises(FleetError) as refused:
        settled(dedup="judged", dedup_tier="nobody")
    assert refused.value.code == "bad_config"
    assert "deploy.dedup_tier" in refused.value.message


@pytest.mark.parametrize("way", ["meaning", "loosely"])
def test_meaning_is_refused_where_nothing_can_tell_it(bare: None, way: str) -> None:
    with pytest.raises(FleetError) as refused:
        settled(dedup=way)
    assert refused.value.code == "unusable"
    assert "deploy.dedup" in refused.value.hint


def test_an_embedder_without_weights_for_its_score_cannot_tell_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WordLlama, "calibration", None)
    assert settled().embedder is not None
    with pytest.raises(FleetError, match="not calibrated"):
        settled(dedup="meaning")


def test_an_embedder_that_is_not_there_is_named() -> None:
    with pytest.raises(FleetError) as refused:
        settled(embedder="nobody")
    assert refused.value.code == "unknown_plugin"


WAYS = [
    ("exact", 1, 0, "equal texts alone"),
    ("words", 1, 1, f"words; {LLAMA} show what else may be the same"),
    ("meaning", 2, 0, f"meaning; {LLAMA}"),
]


def test_the_report_says_how_answers_were_compared(tmp_path: Path) -> None:
    site = hired(Site(tmp_path))
    lines = [text[::-1] for text in (ONE, f"- {ONE}", TWO)]
    site.json(
        *("deploy", "--task", "Turn it round", "--inputs", "-", "--parts", "1", "--force", "--stagger", "0"),
        stdin="\n".join(lines).encode(),
    )
    for way, linked, shown, by in WAYS:
        told = site.json("report", "d1", env={"FLEET_DEPLOY_DEDUP": way})
        assert told["duplicates"] == {"answers": 3, "linked": linked, "to_ask": shown, "by": by, "judged": None}
        files = {Path(file).suffix: Path(file).read_text(encoding="utf-8") for file in told["files"]}
        report = json.loads(files[".json"])
        assert report["compared_by"] == by
        assert report["duplicates"] == {"items": {"answers": 3, "linked": linked, "share": round(linked / 3, 4)}}
        assert report["questions"]["count"] == shown
        assert by in files[".html"]
        assert ("May be the same" in files[".md"]) == bool(shown)
