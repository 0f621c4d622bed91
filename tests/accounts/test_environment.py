"""The environment of a process under an account: another login, a loader or a browser gets in by no way."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fleet.accounts.environment import Person, allowed, environment, is_trusted, person, safe_path
from agent_fleet.accounts.spec import AccountSpec
from agent_fleet.errors import FleetError
from agent_fleet_providers import _claude_account, _codex_account

WHO = Person("somebody", "/home/somebody")
SPECS = [_claude_account.SPEC, _codex_account.SPEC, _claude_account.KEYED]

POISON = (
    *(
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CONFIG_DIR",
    ),
    *("CLAUDE_SECURESTORAGE_CONFIG_DIR", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_USE_BEDROCK", "CLAUDECODE"),
    *("OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_API_KEY", "CODEX_HOME", "CODEX_SQLITE_HOME", "CODEX_THREAD_ID"),
    *("AGENT_FLEET_TASK_ID", "AGENT_FLEET_CONFIG", "QUOTA_AXI_X", "XDG_CONFIG_HOME", "LD_PRELOAD", "LD_LIBRARY_PATH"),
    *(
        "DYLD_INSERT_LIBRARIES",
        "NODE_OPTIONS",
        "NODE_EXTRA_CA_CERTS",
        "npm_config_prefix",
        "PYTHONPATH",
        "PYTHONSTARTUP",
    ),
    *("PERL5OPT", "RUBYOPT", "BASH_ENV", "BASH_FUNC_ls%%", "ENV", "SHELLOPTS", "ELECTRON_RUN_AS_NODE", "MALLOC_CHECK_"),
    *(
        "BROWSER",
        "GIT_ASKPASS",
        "SSH_ASKPASS",
        "SUDO_ASKPASS",
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "DBUS_SESSION_BUS_ADDRESS",
    ),
    *("HTTP_PROXY", "https_proxy", "NO_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "CURL_CA_BUNDLE", "GCONV_PATH"),
)


def made(spec: AccountSpec, ambient: dict[str, str], home: str = "/h", allow: tuple[str, ...] = ()) -> dict[str, str]:
    return environment(spec, home if spec.homes else "", ambient, WHO, path="/usr/bin", allow=allow)


@pytest.mark.parametrize("spec", SPECS, ids=["claude", "codex", "apikey"])
@pytest.mark.parametrize("name", POISON)
def test_what_could_lead_it_elsewhere_is_gone(spec: AccountSpec, name: str) -> None:
    assert "poison" not in made(spec, {name: "poison"}).values()


@pytest.mark.parametrize("spec", SPECS, ids=["claude", "codex", "apikey"])
def test_what_the_person_works_with_stays(spec: AccountSpec) -> None:
    mine = {
        "LANG": "C.UTF-8",
        "TERM": "xterm",
        "TMPDIR": "/t",
        "SSH_AUTH_SOCK": "/s",
        "FLEET_TASK": "t1",
        "AGENT_ROOT": "/p",
    }
    assert mine.items() <= made(spec, mine).items()


@pytest.mark.parametrize("spec", SPECS, ids=["claude", "codex", "apikey"])
def test_who_the_person_is_comes_from_the_system(spec: AccountSpec) -> None:
    found = made(
        spec, {"HOME": "/evil", "USER": "root", "LOGNAME": "root", "PATH": "/evil"}, allow=("HOME", "USER", "PATH")
    )
    assert (found["HOME"], found["USER"], found["LOGNAME"], found["PATH"]) == (WHO.home, WHO.name, WHO.name, "/usr/bin")


def test_each_kind_has_its_home_and_its_switches() -> None:
    claude, codex, keyed = (made(spec, {}) for spec in SPECS)
    assert claude["CLAUDE_CONFIG_DIR"] == "/h"
    assert (claude["DISABLE_LOGIN_COMMAND"], claude["DISABLE_LOGOUT_COMMAND"]) == ("1", "1")
    assert (codex["CODEX_HOME"], codex["CODEX_SQLITE_HOME"]) == ("/h", "/h")
    assert "CLAUDE_CONFIG_DIR" not in keyed


def test_what_the_person_allows_comes_through() -> None:
    ambient = {"HTTPS_PROXY": "p", "SSL_CERT_FILE": "c", "ANTHROPIC_BASE_URL": "u", "CLAUDE_CODE_MAX_RETRIES": "1"}
    allowed = made(SPECS[0], ambient, allow=("HTTPS_PROXY", "SSL_CERT_FILE", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_*"))
    assert ambient.items() <= allowed.items()


@pytest.mark.parametrize("allow", ["*", "ANTHROPIC_*", "CLAUDE_*", "CODEX_*", "OPENAI_*"])
@pytest.mark.parametrize("spec", SPECS, ids=["claude", "codex", "apikey"])
def test_no_allow_list_lets_another_login_or_home_in(spec: AccountSpec, allow: str) -> None:
    logins = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR", "CODEX_HOME")
    more = ("OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_SQLITE_HOME", "CLAUDE_SECURESTORAGE_CONFIG_DIR")
    found = made(spec, dict.fromkeys((*logins, *more), "poison"), allow=(allow,))
    assert "poison" not in found.values()


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(POISON) | st.text("ABC_*", min_size=1, max_size=8), st.text(max_size=5)))
def test_it_is_pure_and_says_the_same_of_what_it_gave(ambient: dict[str, str]) -> None:
    before = dict(ambient)
    once = made(SPECS[0], ambient)
    assert ambient == before
    assert made(SPECS[0], once) == once


def test_a_path_holds_only_directories_that_nobody_else_can_fill(tmp_path: Path) -> None:
    good, open_, link = tmp_path / "good", tmp_path / "open", tmp_path / "link"
    for each in (good, open_):
        each.mkdir()
    good.chmod(0o755)
    open_.chmod(0o777)
    link.symlink_to(good)
    given = os.pathsep.join(
        [str(open_), "relative", "", ".", str(link), str(good), str(tmp_path / "none"), str(open_ / "in")]
    )
    (open_ / "in").mkdir(mode=0o755)
    found = safe_path(given).split(os.pathsep)
    assert found[0] == str(good.resolve())
    assert "/usr/bin" in found
    assert len(found) == len(set(found))
    assert not {str(open_), str(open_ / "in"), "", ".", "relative"} & set(found)


def test_a_group_of_ones_own_is_nobody_else(tmp_path: Path) -> None:
    mine = pwd.getpwuid(os.getuid())
    tmp_path.chmod(0o775)
    if grp.getgrgid(mine.pw_gid).gr_name != mine.pw_name:
        pytest.skip("this user has no group of their own")
    os.chown(tmp_path, -1, mine.pw_gid)
    assert is_trusted(str(tmp_path))


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give a directory to any group")
@pytest.mark.parametrize("group", [65534, 1, 54321])
def test_a_group_of_others_is_somebody_else(tmp_path: Path, group: int) -> None:
    os.chown(tmp_path, -1, group)
    tmp_path.chmod(0o775)
    assert not is_trusted(str(tmp_path))
    tmp_path.chmod(0o755)
    assert is_trusted(str(tmp_path))


def test_a_directory_that_all_may_write_to_is_no_place_even_if_it_is_sticky(tmp_path: Path) -> None:
    assert not is_trusted("/tmp")
    tmp_path.chmod(0o700)
    assert is_trusted(str(tmp_path))
    assert not is_trusted(str(tmp_path / "gone"))


def test_the_person_is_whoever_runs_this(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "someone-else")
    monkeypatch.setenv("HOME", "/elsewhere")
    assert person().name != "someone-else"
    assert person().home != "/elsewhere"


def test_a_list_of_what_may_stay_is_one() -> None:
    assert allowed({}, "claude") == ()
    assert allowed({"environment_allow": ["HTTPS_PROXY", "MY_*"]}, "claude") == ("HTTPS_PROXY", "MY_*")
    for bad in ("HTTPS_PROXY", 7, [7], ["a b"], ["*"], ["A=B"], [""]):
        with pytest.raises(FleetError, match="environment_allow of claude"):
            allowed({"environment_allow": bad}, "claude")
