from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_fleet.config import KEYS, MAX_FILE, Config, load, size
from agent_fleet.errors import FleetError


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / ".config" / "agent-fleet").mkdir(parents=True)
    (tmp_path / "project" / ".agents").mkdir(parents=True)
    return tmp_path


def user(home: Path, text: str) -> str:
    file = home / "home" / ".config" / "agent-fleet" / "config.toml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def project(home: Path, text: str) -> str:
    file = home / "project" / ".agents" / "config.toml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def read(home: Path, *, hostname: str = "build-07", explicit: str | None = None, **environ: str) -> Config:
    root = home / "project"
    return load(
        str(root),
        queue_dir=str(root / ".agents"),
        environ={"HOME": str(home / "home")} | environ,
        hostname=hostname,
        explicit=explicit,
    )


def refused(home: Path, **environ: str) -> str:
    with pytest.raises(FleetError) as caught:
        read(home, **environ)
    assert caught.value.code == "bad_config"
    assert caught.value.hint
    assert "\n" not in caught.value.message
    return caught.value.message


def test_without_any_source_every_key_has_its_default(home: Path) -> None:
    config = read(home)
    for key in KEYS:
        assert config.get(key.name) == key.default
        assert config.source(key.name) == "default"
    assert config.warnings == ()
    assert config.root == str(home / "project")
    assert config.queue_dir == str(home / "project" / ".agents")


def test_every_default_is_a_value_that_a_file_could_set(home: Path) -> None:
    import tomli_w

    nested: dict[str, Any] = {}
    for key in KEYS:
        table = nested
        *path, last = key.name.split(".")
        for part in path:
            table = table.setdefault(part, {})
        table[last] = list(key.default) if isinstance(key.default, tuple) else key.default
    file = project(home, tomli_w.dumps(nested))
    config = read(home)
    for key in KEYS:
        assert config.get(key.name) == key.default
        assert type(config.get(key.name)) is type(key.default)
        assert config.source(key.name) == file


def test_later_sources_win_and_are_named(home: Path) -> None:
    names = ("grace", "idle", "timeout", "stagger")
    users = user(home, "[run]\n" + "".join(f"{name} = 1\n" for name in names))
    projects = project(home, "[run]\n" + "".join(f"{name} = 2\n" for name in names[1:]))
    named = home / "named.toml"
    named.write_text("[run]\ntimeout = 3\nstagger = 3\n", encoding="utf-8")
    config = read(home, explicit=str(named), FLEET_RUN_STAGGER="4")
    assert [config.get(f"run.{name}") for name in names] == [1.0, 2.0, 3.0, 4.0]
    sources = [config.source(f"run.{name}") for name in names]
    assert sources == [users, projects, str(named), "environment FLEET_RUN_STAGGER"]


def test_a_host_table_lies_over_its_own_file_only_on_machines_it_matches(home: Path) -> None:
    text = '[host."Build-*".run]\nstagger = 9\n[run]\nstagger = 1\n'
    file = user(home, text)
    assert read(home, hostname="Build-07").get("run.stagger") == 9.0
    assert read(home, hostname="build-07").source("run.stagger") == f'{file} [host."Build-*"]'
    assert read(home, hostname="laptop").get("run.stagger") == 1.0
    project(home, "[run]\nstagger = 5\n")
    assert read(home, hostname="build-07").get("run.stagger") == 5.0


def test_the_user_file_follows_an_absolute_xdg_directory_only(home: Path) -> None:
    (home / "xdg" / "agent-fleet").mkdir(parents=True)
    (home / "xdg" / "agent-fleet" / "config.toml").write_text("[run]\nstagger = 7\n", encoding="utf-8")
    user(home, "[run]\nstagger = 8\n")
    assert read(home, XDG_CONFIG_HOME=str(home / "xdg")).get("run.stagger") == 7.0
    assert read(home, XDG_CONFIG_HOME="xdg").get("run.stagger") == 8.0


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("FLEET_RUN_STAGGER", "0", "run.stagger", 0.0),
        ("FLEET_QUEUE_MAX_ATTEMPTS", "5", "queue.max_attempts", 5),
        ("FLEET_QUEUE_BROWSER_KINDS", "form, page ,", "queue.browser_kinds", ("form", "page")),
        ("FLEET_QUEUE_BROWSER_KINDS", "", "queue.browser_kinds", ()),
        ("FLEET_CAPACITY_PROBES", "auto", "capacity.probes", "auto"),
        ("FLEET_CAPACITY_PROBES", "procfs", "capacity.probes", ("procfs",)),
        ("FLEET_CAPACITY_WORKER_MEMORY", "1.5 GiB", "capacity.worker_memory", 3 << 29),
        ("FLEET_CAPACITY_WORKER_MEMORY", "1000", "capacity.worker_memory", 1000),
        ("FLEET_PLUGINS", "off", "plugins", "off"),
        ("FLEET_PLUGINS", "agent-fleet-slurm,agent-fleet-acme", "plugins", ("agent-fleet-slurm", "agent-fleet-acme")),
    ],
)
def test_an_environment_variable_sets_its_key(home: Path, variable: str, text: str, name: str, value: object) -> None:
    assert read(home, **{variable: text}).get(name) == value


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("FLEET_RUN_STAGGER", "soon"),
        ("FLEET_RUN_STAGGER", "-1"),
        ("FLEET_RUN_STAGGER", "nan"),
        ("FLEET_RUN_STAGGER", "inf"),
        ("FLEET_RUN_STAGGER", ""),
        ("FLEET_QUEUE_MAX_ATTEMPTS", "0"),
        ("FLEET_QUEUE_MAX_ATTEMPTS", "2.5"),
        ("FLEET_QUEUE_UNDECLARED_WRITES", "sometimes"),
        ("FLEET_CAPACITY_WORKER_MEMORY", "plenty"),
        ("FLEET_POLICY_BATTERY_BELOW", "101"),
    ],
)
def test_an_unusable_variable_is_refused_with_its_name_and_text(home: Path, variable: str, text: str) -> None:
    message = refused(home, **{variable: text})
    assert variable in message
    assert text in message
    assert "wanted" in message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[run]\nstagger = 'soon'", "run.stagger is 'soon', wanted a number, at least 0"),
        ("[run]\nstagger = true", "run.stagger is True"),
        ("[run]\nstagger = nan", "run.stagger is nan"),
        ("[run]\nstagger = 1" + "0" * 400, "run.stagger is 1"),
        ("[run.stagger]\nvalue = 1", "run.stagger is a table"),
        ("run = 3", "run is 3, wanted a table"),
        ("[queue]\nmax_attempts = 1.0", "queue.max_attempts is 1.0, wanted a whole number, at least 1"),
        ("[queue]\nbrowser_kinds = 'form'", "queue.browser_kinds is 'form', wanted a list of texts"),
        ("[queue]\nbrowser_kinds = [1]", "queue.browser_kinds is [1]"),
        ("[capacity]\nprobes = 'procfs'", "capacity.probes is 'procfs', wanted \"auto\" or a list of names"),
        ("[capacity]\nreserve_memory = '-1 GiB'", "capacity.reserve_memory is '-1 GiB'"),
        ("[capacity]\nreserve_memory = -1", "capacity.reserve_memory is -1"),
        ("[hosts.'example.com']\nmax = 0", "hosts.example.com.max is 0, wanted a whole number, at least 1"),
        ("[plugin]\nacme = 1", "plugin.acme is 1, wanted a table"),
        ("agents = 1", "agents is 1, wanted a table of tables"),
        ("host = 1", "host is 1, wanted a table of tables"),
        ("[run]\nstagger = ", "is not valid TOML"),
        ("a = " + "[" * 5000, "is not valid TOML"),
    ],
)
def test_a_file_with_a_wrong_value_is_refused_naming_file_key_and_what_is_wanted(
    home: Path, text: str, says: str
) -> None:
    file = project(home, text)
    message = refused(home)
    assert message.startswith(file)
    assert says in message


def test_files_that_cannot_be_read_are_refused_and_never_waited_for(home: Path) -> None:
    file = home / "project" / ".agents" / "config.toml"
    file.write_bytes(b"\xff\xfe")
    assert "not UTF-8" in refused(home)
    file.write_bytes(b"#" * (MAX_FILE + 1))
    assert "larger than" in refused(home)
    file.unlink()
    os.mkfifo(file)
    assert "not a regular file" in refused(home)
    file.unlink()
    file.mkdir()
    assert str(file) in refused(home)


def test_a_file_named_on_the_command_line_must_exist(home: Path) -> None:
    with pytest.raises(FleetError) as caught:
        read(home, explicit=str(home / "nosuch.toml"))
    assert caught.value.code == "bad_config"
    assert "nosuch.toml" in caught.value.message


def test_unknown_keys_are_warnings_that_name_the_nearest_key(home: Path) -> None:
    file = project(home, "[run]\nstager = 1\n[colour]\nbright = true\n")
    config = read(home, FLEET_RUN_STAGER="0", FLEET_TASK="t1", FLEET_RUN="r1", FLEET_RUN_MARK="x")
    assert f"{file}: there is no key run.stager; did you mean run.stagger?" in config.warnings
    assert f"{file}: there is no key colour" in config.warnings
    assert "environment: FLEET_RUN_STAGER sets nothing; did you mean FLEET_RUN_STAGGER?" in config.warnings
    assert len(config.warnings) == 3
    assert config.get("run.stagger") == 2.0


def test_plugin_and_agent_tables_are_free_and_later_files_win_by_key(home: Path) -> None:
    user(home, "[plugin.slurm]\npartition = 'short'\naccount = 'a'\n[agents.mine]\nargv = ['mine']\n")
    project(home, "[plugin.slurm]\npartition = 'long'\n")
    config = read(home)
    assert dict(config.table("slurm")) == {"partition": "long", "account": "a"}
    assert dict(config.table("nosuch")) == {}
    assert config.agents["mine"]["argv"] == ["mine"]
    assert config.warnings == ()
    with pytest.raises(TypeError):
        config.table("slurm")["partition"] = "x"  # type: ignore[index]  # the property under test


def test_a_host_limit_is_found_by_name_then_by_the_longest_pattern_then_by_default(home: Path) -> None:
    project(
        home,
        "[hosts]\ndefault_max = 4\n"
        "[hosts.'Example.com']\nmax = 2\n"
        "[hosts.'*.com']\nmax = 3\n"
        "[hosts.'*.example.com']\nmax = 5\n"
        "[hosts.bare.example.org]\nmax = 6\n",
    )
    config = read(home)
    hosts = ["example.COM", "other.com", "a.example.com", "bare.example.org", "example.net"]
    assert [config.hosts_max(host) for host in hosts] == [2, 3, 5, 6, 4]
    assert config.warnings == ()


def test_a_key_that_does_not_exist_is_a_bug_of_the_caller(home: Path) -> None:
    config = read(home)
    with pytest.raises(KeyError):
        config.get("run.nosuch")
    with pytest.raises(KeyError):
        config.source("run.nosuch")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0),
        ("600 MiB", 600 << 20),
        ("2GiB", 2 << 30),
        ("2g", 2 << 30),
        ("2 GB", 2_000_000_000),
        ("1.5k", 1536),
        ("7 B", 7),
        ("", None),
        ("GiB", None),
        ("2 XiB", None),
        ("-1", None),
        ("1e999", None),
        ("2 i", None),
    ],
)
def test_a_size_is_read_in_binary_and_decimal_units(text: str, count: int | None) -> None:
    assert size(text) == count


@given(st.text(max_size=12))
def test_no_text_makes_a_size_raise_or_be_negative(text: str) -> None:
    value = size(text)
    assert value is None or value >= 0


def test_loading_without_files_imports_no_toml_parser_and_nothing_heavy(home: Path) -> None:
    code = (
        "import sys, os\n"
        "from agent_fleet.config import load\n"
        "load('/', queue_dir='', environ={'FLEET_RUN_STAGGER': '1', 'FLEET_TASK': 't1'})\n"
        "heavy = {'tomllib', 'difflib', 'fnmatch', 'dataclasses', 'pathlib', 'subprocess', 'logging', 'datetime'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    core = str(Path(__file__).parents[2] / "core")
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(command, env={"PYTHONPATH": core}, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
