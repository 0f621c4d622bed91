"""Commands of the hot path: told as data, so that a well-formed command line needs no parsing library.

`claim`, `heartbeat`, `done`, `block` and `fail` are typed by agents, thousands of times. `Spec.parse` reads a line in its
plain form and leaves everything else (help, mistakes) to click, which is made from the same data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    import click

FORMATS = ("human", "json", "toon")
_GLOBAL = ("--config", "--project", "--format")
_KINDS: dict[str, Callable[[str], Any]] = {"text": str, "int": int, "float": float}


class Option(NamedTuple):
    """One option of a command: `--lane` becomes the keyword `lane`."""

    name: str
    help: str
    kind: Literal["text", "int", "float", "flag"] = "text"
    default: Any = None
    metavar: str | None = None
    required: bool = False

    @property
    def key(self) -> str:
        return self.name[2:].replace("-", "_")


class Spec(NamedTuple):
    """A command with one argument and some options; `run` gets a `Shared` first, then all of them as keywords."""

    name: str
    help: str
    argument: str
    metavar: str
    options: tuple[Option, ...]
    run: Callable[..., Any]

    def parse(self, args: list[str]) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """(global options, keywords) of a whole command line, or None if click should look at it."""
        settings: dict[str, Any] = {}
        values: dict[str, Any] = {option.key: option.default for option in self.options}
        words: list[str] = []
        own = {option.name: option for option in self.options}
        position = 0
        while position < len(args):
            word = args[position]
            position += 1
            if word == "--":
                words += args[position:]
                break
            if not word.startswith("-") or word == "-":
                words.append(word)
                continue
            name, equals, value = word.partition("=")
            option = own.get(name) if words else None
            if name == "--json" or (option is not None and option.kind == "flag"):
                if equals:
                    return None
                (settings.update(format="json") if option is None else values.update({option.key: True}))
                continue
            if not equals:
                if position >= len(args):
                    return None
                value = args[position]
                position += 1
            if not (_set(values, option, value) if option is not None else _set_global(settings, name, value)):
                return None
        if len(words) != 2 or words[0] != self.name:
            return None
        if any(option.required and values[option.key] is None for option in self.options):
            return None
        return settings, {self.argument: words[1], **values}

    def as_click(self) -> click.Command:
        """The same command for click."""
        import click

        from agent_fleet.commands import command

        def function(*args: Any, **kwargs: Any) -> Any:
            # click leaves its parameters on the function that it decorates, so every command gets one of its own
            return self.run(*args, **kwargs)

        for option in reversed(self.options):
            if option.kind == "flag":
                function = click.option(option.name, is_flag=True, help=option.help)(function)
                continue
            wanted: dict[str, Any] = {"required": True} if option.required else {"default": option.default}
            kind = _KINDS[option.kind]
            function = click.option(option.name, type=kind, metavar=option.metavar, help=option.help, **wanted)(
                function
            )
        function = click.argument(self.argument, metavar=self.metavar)(function)
        return command(self.name, help=self.help)(function)


def _set(values: dict[str, Any], option: Option, text: str) -> bool:
    try:
        values[option.key] = _KINDS[option.kind](text)
    except ValueError:
        return False
    return True


def _set_global(settings: dict[str, Any], name: str, text: str) -> bool:
    if name not in _GLOBAL or (name == "--format" and text not in FORMATS):
        return False
    settings[name[2:]] = text
    return True
