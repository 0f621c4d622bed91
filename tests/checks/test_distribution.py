from __future__ import annotations

import json
from pathlib import Path

from agent_fleet.model import Finding
from agent_fleet_checks.distribution import PACKAGES, Distribution
from support.distributions import install

FILES = {f"{package}/__init__.py": "" for package in PACKAGES}


def findings(*path: Path) -> list[Finding]:
    return list(Distribution([str(each) for each in path]).run("/"))


def levels(found: list[Finding]) -> list[str]:
    return [finding.level for finding in found]


def test_a_clean_installation_is_in_order(tmp_path: Path) -> None:
    install(tmp_path, "agent-fleet", version="0.1.0", modules=FILES)
    install(tmp_path, "agent-fleet-acme", modules={"agent_fleet_acme.py": ""})
    found = findings(tmp_path)
    assert levels(found) == ["ok"]
    assert found[0].text == "agent_fleet comes from agent-fleet 0.1.0"


def test_another_distribution_with_our_import_package_and_script_is_named(tmp_path: Path) -> None:
    install(tmp_path, "agent-fleet", version="0.1.0", modules=FILES)
    scripts = {"console_scripts": {"fleet": "agent_fleet.cli:main"}}
    install(tmp_path, "otherfleet", version="0.2.1", modules={"agent_fleet/cli.py": ""}, entry_points=scripts)
    texts = [finding.text for finding in findings(tmp_path) if finding.level == "fault"]
    assert texts == [
        "otherfleet 0.2.1 also brings the import package agent_fleet",
        "otherfleet 0.2.1 also brings the command fleet",
    ]


def test_a_third_party_that_takes_a_reserved_import_name_is_named(tmp_path: Path) -> None:
    install(tmp_path, "agent-fleet", version="0.1.0", modules=FILES)
    install(tmp_path, "lanes-for-all", modules={"agent_fleet_lanes/__init__.py": ""})
    found = [finding for finding in findings(tmp_path) if finding.level == "fault"]
    assert [finding.text for finding in found] == ["lanes-for-all 1.0 also brings the import package agent_fleet_lanes"]
    assert "reinstall" in found[0].hint


def test_a_package_that_is_gone_is_a_fault(tmp_path: Path) -> None:
    kept = {file: text for file, text in FILES.items() if "lanes" not in file}
    install(tmp_path, "agent-fleet", version="0.1.0", modules=kept)
    found = findings(tmp_path)
    assert [finding.text for finding in found if finding.level == "fault"] == [
        "the package agent_fleet_lanes cannot be found"
    ]


def test_another_copy_earlier_on_the_path_is_a_warning(tmp_path: Path) -> None:
    install(tmp_path / "site", "agent-fleet", version="0.1.0", modules=FILES)
    for file in FILES:
        (tmp_path / "copy" / file).parent.mkdir(parents=True)
        (tmp_path / "copy" / file).touch()
    assert levels(findings(tmp_path / "copy", tmp_path / "site")) == ["warning"]
    assert levels(findings(tmp_path / "site", tmp_path / "copy")) == ["ok"]
    assert levels(findings(tmp_path / "copy")) == ["ok"]


def test_an_editable_installation_may_lie_in_its_checkout(tmp_path: Path) -> None:
    info = install(tmp_path / "site", "agent-fleet", version="0.1.0")
    for file in FILES:
        (tmp_path / "the checkout" / file).parent.mkdir(parents=True)
        (tmp_path / "the checkout" / file).touch()
    direct = {"url": (tmp_path / "the checkout").as_uri(), "dir_info": {"editable": True}}
    (info / "direct_url.json").write_text(json.dumps(direct), encoding="utf-8")
    assert levels(findings(tmp_path / "the checkout", tmp_path / "site")) == ["ok"]
    (info / "direct_url.json").write_text("{", encoding="utf-8")
    assert levels(findings(tmp_path / "the checkout", tmp_path / "site")) == ["warning"]
