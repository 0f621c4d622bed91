"""The environment of a process that runs under an account: the person's, less what could select another login or load code.

A deny list with one way back: what the person allows by name is let through, unless it is a login or its place.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from agent_fleet.accounts.spec import AccountSpec, Surroundings
from agent_fleet.errors import FleetError

SCRUBBED = (
    *("AGENT_FLEET_*", "QUOTA_AXI_*", "XDG_*", "BASH_*", "DYLD_*", "ELECTRON_*", "LD_*", "MALLOC_*", "NODE_*"),
    *(
        "NPM_CONFIG_*",
        "npm_config_*",
        "PERL5*",
        "PYTHON*",
        "RUBY*",
        "BASHOPTS",
        "SHELLOPTS",
        "ENV",
        "INIT_CWD",
        "OLDPWD",
        "PERLLIB",
    ),
    *("BROWSER", "CHROME_PATH", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "GH_BROWSER"),
    *("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "all_proxy", "http_proxy", "https_proxy", "no_proxy"),
    *("CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE", "SSLKEYLOGFILE"),
    *("GCONV_PATH", "LOCPATH", "NLSPATH", "GIT_ASKPASS", "GIT_TERMINAL_PROMPT", "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE"),
    *("SUDO_ASKPASS", "GCM_GUI_PROMPT", "GCM_INTERACTIVE", "GCM_MODAL_PROMPT"),
)
_MACOS_ADMIN = 80
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?")
SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin")


class Person(NamedTuple):
    """Who this user is by the system's own list, whatever variables say."""

    name: str
    home: str


def person() -> Person:
    """The user that this process belongs to. Raises `unavailable` if the system does not know that user."""
    import pwd

    try:
        entry = pwd.getpwuid(os.getuid())
    except KeyError:
        raise FleetError(
            "unavailable",
            f"this system has no entry for the user with the number {os.getuid()}",
            hint="run as a user that the system knows",
        ) from None
    return Person(entry.pw_name, entry.pw_dir)


def environment(
    spec: AccountSpec,
    home: str,
    ambient: Mapping[str, str],
    who: Person,
    *,
    path: str,
    allow: Iterable[str] = (),
    sets: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The whole environment. Pure.

    `path` is a `PATH` that was made safe, `allow` are names or beginnings (`*`) that may stay though they would be taken away,
    `sets` is what the caller puts in (who holds which lease). A home variable and what the provider sets cannot be overridden.
    """
    policy = spec.surroundings
    allowed = tuple(allow)
    kept = {name: value for name, value in ambient.items() if _stays(name, policy, allowed, spec.homes)}
    return {
        **kept,
        **(sets or {}),
        "PATH": path,
        "HOME": who.home,
        "USER": who.name,
        "LOGNAME": who.name,
        **policy.sets,
        **(dict.fromkeys(spec.homes, home) if home else {}),
    }


def allowed(options: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """The names that `environment_allow` of a provider's table lets through. Raises `bad_config` for what is no list of names."""
    given = options.get("environment_allow", [])
    if not isinstance(given, (list, tuple)) or not all(
        isinstance(each, str) and _NAME.fullmatch(each) for each in given
    ):
        raise FleetError(
            "bad_config",
            f"environment_allow of {where} is no list of names of variables",
            hint='write it as ["HTTPS_PROXY", "SSL_CERT_FILE"]; a name may end in *',
        )
    return tuple(given)


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns is this name, or its beginning followed by `*`."""
    return any(name.startswith(each[:-1]) if each.endswith("*") else name == each for each in patterns)


def safe_path(given: str, *, trusted: Callable[[str], bool] | None = None) -> str:
    """The directories of a `PATH` in which nobody but root and this user can put a program, then those of the system."""
    check = trusted or is_trusted
    found: dict[str, None] = {}
    for each in (*given.split(os.pathsep), *SYSTEM_PATH):
        if os.path.isabs(each) and os.path.isdir(each):
            real = os.path.realpath(each)
            if real not in found and check(real):
                found[real] = None
    return os.pathsep.join(found)


def is_trusted(path: str) -> bool:
    """Whether this path and all above it belong to root or this user, and no one else may write there.

    A directory that all may write to is trusted above another one if it is sticky and root's: nobody can exchange what lies in it.
    """
    first = True
    while True:
        try:
            found = os.stat(path)
        except OSError:
            return False
        sticky = not first and found.st_mode & stat.S_ISVTX and found.st_uid == 0
        if found.st_uid not in (0, os.getuid()) or (_is_open(found) and not sticky):
            return False
        parent = os.path.dirname(path)
        if parent == path:
            return True
        path, first = parent, False


def _is_open(found: os.stat_result) -> bool:
    """Whether somebody else may write there. A group counts unless this user is alone in it, as most systems set it up.

    On macOS the group `admin` counts as root does: its members can become root, and Homebrew's directories are theirs.
    """
    if found.st_mode & 0o002:
        return True
    if not found.st_mode & 0o020 or (sys.platform == "darwin" and found.st_gid == _MACOS_ADMIN):
        return False
    import grp
    import pwd

    try:
        group, owner = grp.getgrgid(found.st_gid), pwd.getpwuid(found.st_uid)
    except KeyError:
        return True
    return group.gr_gid != owner.pw_gid or group.gr_name != owner.pw_name or bool(set(group.gr_mem) - {owner.pw_name})


def _stays(name: str, policy: Surroundings, allow: tuple[str, ...], homes: tuple[str, ...]) -> bool:
    if name in homes or matches(name, policy.secret):
        return False
    return matches(name, allow) or not matches(name, (*SCRUBBED, *policy.scrub))
