from __future__ import annotations

import json
from pathlib import Path

from agent_fleet.config import KEYS
from support.child import child


def fleet(site: Path, *arguments: str, **environ: str) -> tuple[int, str, str]:
    done = child("-m", "agent_fleet", "--project", str(site), *arguments, site=site, **environ)
    return done.returncode, done.stdout, done.stderr


def test_only_what_differs_from_the_defaults_is_shown_unless_all_is_asked_for(tmp_path: Path) -> None:
    assert "every setting is at its default" in fleet(tmp_path, "config")[1]
    status, out, _ = fleet(tmp_path, "config", FLEET_RUN_STAGGER="7")
    assert (status, out) == (0, "run.stagger = 7.0    environment FLEET_RUN_STAGGER\n")
    _, out, _ = fleet(tmp_path, "config", "--all")
    assert all(f"{key.name} = " in out and key.meaning in out for key in KEYS)
    assert 'capacity.worker_memory = "600 MiB"' in out


def test_json_holds_every_key_with_value_source_and_meaning_and_the_host_limits(tmp_path: Path) -> None:
    (tmp_path / ".agents").mkdir()
    file = tmp_path / ".agents" / "config.toml"
    file.write_text("[run]\nstagger = 3\nnosuch = 1\n[hosts.'example.com']\nmax = 2\n", encoding="utf-8")
    status, out, err = fleet(tmp_path, "config", "--json")
    answer = json.loads(out)
    assert status == 0
    assert [each["key"] for each in answer["settings"]] == [key.name for key in KEYS]
    stagger = next(each for each in answer["settings"] if each["key"] == "run.stagger")
    assert (stagger["value"], stagger["source"], stagger["default"]) == (3.0, str(file), 2.0)
    assert answer["hosts"] == {"example.com": 2}
    assert answer["warnings"] == [f"{file}: there is no key run.nosuch"]
    assert f"warning: {file}: there is no key run.nosuch" in err


def test_a_wrong_value_ends_with_status_2_and_one_sentence(tmp_path: Path) -> None:
    status, out, err = fleet(tmp_path, "config", FLEET_RUN_STAGGER="soon")
    assert (status, out) == (2, "")
    assert "run.stagger is 'soon'" in err
    assert "Traceback" not in err


def test_text_from_a_file_cannot_drive_the_terminal(tmp_path: Path) -> None:
    (tmp_path / ".agents").mkdir()
    text = '[provider.claude]\nmodel = "a\\u001b[31mb"\n'
    (tmp_path / ".agents" / "config.toml").write_text(text, encoding="utf-8")
    _, out, _ = fleet(tmp_path, "config")
    assert "provider.claude.model" in out
    assert "\x1b" not in out
