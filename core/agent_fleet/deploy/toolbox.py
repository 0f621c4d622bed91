"""Which MCP servers a worker gets: names looked up in a local mirror of the MCP registry, as the settings that clients take.

The mirror is the registry's own answer (`{"servers": [{"server": {"name": …, "packages": […], "remotes": […]}}]}`), or a list of
such servers. Secrets are never in it: a variable that a server needs stands in its settings as `${NAME}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent_fleet.errors import FleetError
from agent_fleet.queue.files import BadFileError, read_json

Server = dict[str, Any]

_RUNNERS = {
    "npm": ("npx", ("-y",), "{identifier}@{version}"),
    "pypi": ("uvx", (), "{identifier}=={version}"),
    "oci": ("docker", ("run", "-i", "--rm"), "{identifier}:{version}"),
}
_STDIO = ("stdio", "")


class Toolbox:
    """The servers of a mirror, by their whole name and by its last part, where that is of one server alone."""

    def __init__(self, entries: Iterable[Mapping[str, Any]] = ()) -> None:
        self._entries: dict[str, Mapping[str, Any]] = {}
        short: dict[str, list[str]] = {}
        for entry in entries:
            name = entry["name"]
            if name not in self._entries:
                short.setdefault(name.rpartition("/")[2], []).append(name)
            self._entries[name] = entry
        self._short = {part: names[0] for part, names in short.items() if len(names) == 1}

    @property
    def names(self) -> tuple[str, ...]:
        """Every name by which a server can be asked for, the shortest of each."""
        known = {whole: part for part, whole in self._short.items()}
        return tuple(sorted(known.get(name, name) for name in self._entries))

    def servers(self, wanted: Sequence[str]) -> dict[str, Server]:
        """The settings of these servers, by a name that clients take, and of no others. Raises `bad_input`."""
        found: dict[str, Server] = {}
        for name in dict.fromkeys(wanted):
            entry = self._entries.get(name) or self._entries.get(self._short.get(name, ""))
            if entry is None:
                there = ", ".join(self.names[:20]) or "none; the key deploy.registry names a mirror"
                raise _bad(f"no tool server {name[:100]!r} is in the registry", f"there are: {there}")
            found[_label(name)] = _settings(entry)
        return found


def read(path: str) -> Toolbox:
    """The toolbox of a mirror in a file; an empty path is an empty one. Raises FleetError."""
    if not path:
        return Toolbox()
    try:
        listed = read_json(path).get("servers")
    except FileNotFoundError:
        raise FleetError("not_found", f"there is no registry mirror {path}", hint="mend deploy.registry") from None
    except BadFileError as error:
        raise _bad(f"the registry mirror {path} cannot be read: {error}", "fetch it again") from None
    if not isinstance(listed, list):
        raise _bad(f"the registry mirror {path} has no list of servers", "fetch it again")
    return listing(listed)


def listing(listed: Iterable[object]) -> Toolbox:
    """The toolbox of what a registry lists; what is no server is left out."""
    entries = [each.get("server", each) if isinstance(each, dict) else {} for each in listed]
    return Toolbox(entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("name"), str))


def _settings(entry: Mapping[str, Any]) -> Server:
    """How a client starts or reaches a server: its first package that runs here, else its first address."""
    for package in _tables(entry.get("packages")):
        kind = package.get("registryType", package.get("registry_type"))
        transport = package.get("transport")
        told = transport.get("type", "") if isinstance(transport, dict) else ""
        if kind in _RUNNERS and told in _STDIO:
            return _command(str(entry["name"]), kind, package)
    for remote in _tables(entry.get("remotes")):
        url = remote.get("url")
        if isinstance(url, str) and url.startswith(("https://", "http://")):
            headers = {str(each["name"]): _value(each) for each in _tables(remote.get("headers")) if "name" in each}
            kind = "sse" if remote.get("type") == "sse" else "http"
            return {"type": kind, "url": url, **({"headers": headers} if headers else {})}
    raise _bad(f"the tool server {entry['name']} has no package or address that can be used", "choose another")


def _command(name: str, kind: str, package: Mapping[str, Any]) -> Server:
    runner, before, form = _RUNNERS[kind]
    identifier, version = package.get("identifier"), package.get("version")
    if not isinstance(identifier, str) or not isinstance(version, str) or identifier.startswith("-") or not version:
        raise _bad(f"the tool server {name} names no package with a version", "choose another")
    variables = {
        str(each["name"]): _value(each) for each in _tables(package.get("environmentVariables")) if "name" in each
    }
    passed = [word for variable in variables for word in ("-e", variable)] if kind == "oci" else []
    arguments = [
        *before,
        *passed,
        *_words(name, package.get("runtimeArguments")),
        form.format(identifier=identifier, version=version),
        *_words(name, package.get("packageArguments")),
    ]
    hint = package.get("runtimeHint")
    server: Server = {"command": hint if isinstance(hint, str) and hint in ("npx", "uvx", "docker") else runner}
    return {**server, "args": arguments, **({"env": variables} if variables else {})}


def _words(name: str, told: object) -> list[str]:
    words: list[str] = []
    for each in _tables(told):
        value = each.get("value", each.get("default"))
        if value is None and each.get("isRequired"):
            raise _bad(f"the tool server {name} needs an argument that nothing here can give", "choose another")
        if value is None:
            continue
        words += [str(each["name"])] if each.get("type") == "named" and "name" in each else []
        words.append(str(value))
    return words


def _value(told: Mapping[str, Any]) -> str:
    """What a variable or header is set to: what the registry says, else the person's own variable of that name."""
    value = told.get("value")
    if isinstance(value, str) and not told.get("isSecret"):
        return value
    name = "".join(sign if sign.isalnum() else "_" for sign in str(told["name"])).upper()
    return f"${{{name}}}"


def _tables(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _label(name: str) -> str:
    """A name that every client takes: letters, digits, `-` and `_`."""
    part = name.rpartition("/")[2]
    return (
        "".join(sign if sign.isascii() and (sign.isalnum() or sign in "-_") else "-" for sign in part)[:60] or "tools"
    )


def _bad(message: str, hint: str) -> FleetError:
    return FleetError("bad_input", message, hint=hint)
