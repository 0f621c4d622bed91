"""The settings of one project on one machine, each with its value and where it came from.

Later wins: the defaults here, the user's file, the project's file, the file named on the command line, the environment.
In each file a `[host."pattern"]` table lies over the rest of that file on the machines whose name the pattern matches.

This module is on the hot path: a TOML parser is loaded only if there is a file to parse.
"""

from __future__ import annotations

import os
import stat
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from agent_fleet.errors import FleetError
from agent_fleet.keys import KEYS, Key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ("KEYS", "MAX_FILE", "Config", "Key", "load", "nearest", "no_key", "size", "user_file")

MAX_FILE = 1 << 20
HUGE = 1e300

_UNITS = {"": 1, "b": 1} | {
    prefix + suffix: base**power
    for power, prefix in enumerate("kmgt", start=1)
    for suffix, base in (("", 1024), ("ib", 1024), ("b", 1000))
}
_FREE = ("agents", "plugin", "prices", "tiers")


class Config:
    """The settings in force; `warnings` names what was written and means nothing."""

    __slots__ = ("_free", "_hosts", "_sources", "_values", "queue_dir", "root", "warnings")

    def __init__(self, root: str, queue_dir: str) -> None:
        self.root = root
        self.queue_dir = queue_dir
        self.warnings: tuple[str, ...] = ()
        self._values: dict[str, Any] = {key.name: key.default for key in KEYS}
        self._sources: dict[str, str] = {}
        self._free: dict[str, dict[str, dict[str, Any]]] = {kind: {} for kind in _FREE}
        self._hosts: dict[str, int] = {}

    def get(self, name: str) -> Any:
        """The key's value: text, int (sizes in bytes), float, or a tuple of texts. KeyError if there is no such key."""
        return self._values[name]

    def source(self, name: str) -> str:
        """Where that value came from: default, environment and the variable, or the file and its host table."""
        self._values[name]
        return self._sources.get(name, "default")

    def override(self, name: str, value: Any, source: str) -> None:
        """Set one value for this process alone, above all that was read. Raises `bad_config` for a value of the wrong type."""
        key = next(key for key in KEYS if key.name == name)
        accepted = _accepted(key, value)
        if accepted is None:
            raise _wrong(source, name, value, key.wanted, key.meaning)
        self._values[name] = accepted
        self._sources[name] = source

    def table(self, name: str) -> Mapping[str, Any]:
        """The plugin's own `[plugin.NAME]` table, empty if nobody wrote one."""
        return MappingProxyType(self._free["plugin"].get(name, {}))

    @property
    def agents(self) -> Mapping[str, Mapping[str, Any]]:
        """The `[agents.NAME]` tables, by name."""
        return MappingProxyType({name: MappingProxyType(table) for name, table in self._free["agents"].items()})

    @property
    def prices(self) -> Mapping[str, Mapping[str, Any]]:
        """The `[prices."MODEL"]` tables, by model."""
        return MappingProxyType({name: MappingProxyType(table) for name, table in self._free["prices"].items()})

    @property
    def tiers(self) -> Mapping[str, Mapping[str, Any]]:
        """The `[tiers.NAME]` tables, by name."""
        return MappingProxyType({name: MappingProxyType(table) for name, table in self._free["tiers"].items()})

    @property
    def hosts(self) -> Mapping[str, int]:
        """The limits that `[hosts."NAME"]` tables set, by name or pattern in lower case."""
        return MappingProxyType(self._hosts)

    def hosts_max(self, host: str) -> int:
        """How many tasks of a host may run at once, by its name, else by the longest pattern that matches."""
        host = host.lower()
        if host in self._hosts:
            return self._hosts[host]
        patterns = [pattern for pattern in self._hosts if any(sign in pattern for sign in "*?[")]
        if patterns:
            from fnmatch import fnmatchcase

            for pattern in sorted(patterns, key=lambda each: (-len(each), each)):
                if fnmatchcase(host, pattern):
                    return self._hosts[pattern]
        return int(self._values["hosts.default_max"])


def load(
    root: str,
    *,
    queue_dir: str,
    environ: Mapping[str, str],
    hostname: str | None = None,
    explicit: str | None = None,
) -> Config:
    """Read the settings for the project at `root`. `explicit` must exist; the user's and the project's file need not.

    `hostname` is this machine's name by default. Raises `bad_config` for a file that cannot be read or parsed and for a
    value of the wrong type; a key that is not known is only a warning.
    """
    config = Config(root, queue_dir)
    layers = _Layers(config, hostname)
    for path in (user_file(environ), os.path.join(queue_dir, "config.toml") if queue_dir else ""):
        table = _parsed(path, must_exist=False) if path else None
        if table is not None:
            layers.file(path, table)
    if explicit is not None:
        layers.file(explicit, _parsed(explicit, must_exist=True) or {})
    layers.environment(environ)
    config.warnings = tuple(dict.fromkeys(layers.warnings))
    return config


def user_file(environ: Mapping[str, str]) -> str:
    """The user's own file, by the XDG base directory specification; empty if the environment names no home."""
    base = environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):  # the specification: a relative path is to be ignored
        home = environ.get("HOME", "")
        if not home:
            return ""
        base = os.path.join(home, ".config")
    return os.path.join(base, "agent-fleet", "config.toml")


def size(text: str) -> int | None:
    """The bytes in a text such as "2 GiB" or "1500", None if it means none. "G" and "GiB" are 2^30, "GB" is 10^9."""
    number = text.strip().rstrip("BKMGTIbkmgti ")
    factor = _UNITS.get(text.strip()[len(number) :].strip().lower())
    try:
        value = float(number)
    except ValueError:
        return None
    return int(value * factor) if factor is not None and 0 <= value * factor < float("inf") else None


class _Layers:
    """Lays one source after the other over a configuration that nobody else has seen yet."""

    def __init__(self, config: Config, hostname: str | None) -> None:
        self.config = config
        self.hostname = hostname
        self.keys = {key.name: key for key in KEYS}
        self.sections = {name.rsplit(".", depth)[0] for name in self.keys for depth in range(1, name.count(".") + 1)}
        self.warnings: list[str] = []

    def file(self, path: str, table: dict[str, Any]) -> None:
        overlays = _tables(table.pop("host", {}), "host", path)
        self.table(table, "", path)
        if overlays:
            self.overlay(path, overlays)

    def overlay(self, path: str, overlays: dict[str, dict[str, Any]]) -> None:
        from fnmatch import fnmatchcase

        here = (self.hostname or os.uname().nodename).lower()
        for pattern, overlay in overlays.items():
            if fnmatchcase(here, pattern.lower()):
                self.table(overlay, "", f'{path} [host."{pattern}"]')

    def table(self, table: dict[str, Any], prefix: str, source: str) -> None:
        for name, value in table.items():
            dotted = prefix + name
            if dotted in self.keys:
                self.set(self.keys[dotted], value, source)
            elif dotted in _FREE:
                for each, settings in _tables(value, dotted, source).items():
                    self.config._free[dotted].setdefault(each, {}).update(settings)
            elif prefix == "hosts." and isinstance(value, dict):
                self.host(value, name, source)
            elif dotted in self.sections:
                if not isinstance(value, dict):
                    raise _wrong(source, dotted, value, "a table")
                self.table(value, dotted + ".", source)
            else:
                self.unknown(dotted, source)

    def host(self, table: dict[str, Any], host: str, source: str) -> None:
        """One host's table; a name written without quotes arrives as tables within tables and is put together again."""
        for name, value in table.items():
            if isinstance(value, dict):
                self.host(value, f"{host}.{name}", source)
            elif name != "max":
                self.unknown(f"hosts.{host}.{name}", source)
            elif not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise _wrong(source, f"hosts.{host}.max", value, "a whole number, at least 1")
            else:
                self.config._hosts[host.lower()] = value

    def environment(self, environ: Mapping[str, str]) -> None:
        variables = {key.variable: key for key in KEYS}
        sections = tuple("FLEET_" + section.replace(".", "_").upper() + "_" for section in self.sections)
        for name, text in environ.items():
            key = variables.get(name)
            if key is not None:
                self.set(key, _from_text(key, text), f"environment {name}")
            elif name.startswith(sections) and (near := nearest(name, variables)):
                self.warnings.append(f"environment: {name} sets nothing; did you mean {near}?")

    def set(self, key: Key, value: Any, source: str) -> None:
        accepted = _accepted(key, value)
        if accepted is None:
            raise _wrong(source, key.name, value, key.wanted, key.meaning)
        self.config._values[key.name] = accepted
        self.config._sources[key.name] = source

    def unknown(self, name: str, source: str) -> None:
        self.warnings.append(no_key(source, name, nearest(name, self.keys)))


def _parsed(path: str, *, must_exist: bool) -> dict[str, Any] | None:
    data = _contents(path, must_exist=must_exist)
    if data is None:
        return None
    import tomllib

    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise FleetError("bad_config", f"{path} is not UTF-8 text: {error}", hint="save the file as UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise FleetError(
            "bad_config", f"{path} is not valid TOML: {error}", hint="mend that line, or move the file away"
        ) from None


def _contents(path: str, *, must_exist: bool) -> bytes | None:
    hint = "name a file that exists and that this user may read"
    try:
        descriptor = os.open(
            path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        )  # a pipe in its place must not make us wait
    except (OSError, ValueError) as error:
        if isinstance(error, (FileNotFoundError, NotADirectoryError)) and not must_exist:
            return None
        raise FleetError(
            "bad_config", f"{path} cannot be read: {getattr(error, 'strerror', error)}", hint=hint
        ) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FleetError(
                "bad_config", f"{path} is not a regular file", hint="put a TOML file there, or move it away"
            )
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(MAX_FILE + 1)
    except OSError as error:
        raise FleetError("bad_config", f"{path} cannot be read: {error.strerror}", hint=hint) from None
    finally:
        os.close(descriptor)
    if len(data) > MAX_FILE:
        raise FleetError("bad_config", f"{path} is larger than {MAX_FILE} bytes", hint="keep only settings in it")
    return data


def _from_text(key: Key, text: str) -> Any:
    """The value that an environment variable means; a text that means none is handed back for the error to show."""
    if key.kind in ("list", "names"):
        return text.strip() if text.strip() in key.words else [part.strip() for part in text.split(",") if part.strip()]
    if key.kind in ("whole", "number"):
        try:
            return int(text) if key.kind == "whole" else float(text)
        except ValueError:
            return text
    return text


def _accepted(key: Key, value: Any) -> Any:
    """The value in the key's own type, or None if it is not acceptable."""
    if isinstance(value, str) and key.kind != "bytes":
        free = key.kind == "text" and not key.words
        return value if free or value in key.words else None
    if isinstance(value, list) and key.kind in ("list", "names"):
        return tuple(value) if all(isinstance(each, str) for each in value) else None
    if isinstance(value, str):
        return size(value)
    if isinstance(value, bool) or not isinstance(value, (int, float) if key.kind == "number" else int):
        return None
    if key.kind not in ("whole", "number", "bytes") or not key.least <= value <= key.most or not value < HUGE:
        return None
    return float(value) if key.kind == "number" else value


def _tables(value: Any, name: str, source: str) -> dict[str, dict[str, Any]]:
    if not isinstance(value, dict):
        raise _wrong(source, name, value, "a table of tables")
    for each, table in value.items():
        if not isinstance(table, dict):
            raise _wrong(source, f"{name}.{each}", table, "a table")
    return value


def _wrong(source: str, name: str, value: Any, wanted: str, meaning: str = "") -> FleetError:
    found = "a table" if isinstance(value, dict) else repr(value)
    return FleetError(
        "bad_config", f"{source}: {name} is {found}, wanted {wanted}", hint=meaning or f"write {wanted} there"
    )


def nearest(name: str, names: Iterable[str]) -> str:
    """The one of these names that is most like a name which is none of them; empty where none is like it."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, list(names), n=1, cutoff=0.85)), "")


def no_key(source: str, name: str, near: str) -> str:
    """The sentence about a key that means nothing in a file; `near` is the one that may be meant."""
    return f"{source}: there is no key {name}" + (f"; did you mean {near}?" if near else "")


def usual_model(config: Config, provider: str) -> str:
    """The model that a provider is configured to use; empty if that is its own choice."""
    name = f"provider.{provider}.model"
    return str(config.get(name)) if any(key.name == name for key in KEYS) else ""
