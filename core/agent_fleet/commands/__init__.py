"""What every command shares: global options, the project it works on, and how it answers.

click is imported only where a command line is made with it: the commands of the hot path are not.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agent_fleet import paths
from agent_fleet.errors import FleetError
from agent_fleet.text import printable

if TYPE_CHECKING:
    import click

    from agent_fleet.config import Config
    from agent_fleet.plugins import Plugins
    from agent_fleet.queue.store import Queue


class Shared:
    """One invocation: which project, which configuration, which form of answer. Everything is opened on first use."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.environ = dict(os.environ)
        self.format = options.get("format") or self.environ.get("FLEET_FORMAT") or "human"
        self.config_file: str | None = options.get("config")
        # what a person should know when the command ends, from whatever it opened
        self.tellers: list[Callable[[], list[str]]] = []
        self.options = options

    @property
    def identity(self) -> str:
        """The process on whose behalf this invocation acts: who holds what it claims."""
        return own_identity()

    def text(self, value: str, what: str) -> str:
        """The text of an argument. Raises FleetError if it is not UTF-8."""
        return read_text(value, what)

    @functools.cached_property
    def root(self) -> str:
        return paths.find_root(self.environ, os.getcwd(), self.options.get("project"))

    @property
    def is_root_named(self) -> bool:
        """Whether the project was named rather than looked for."""
        return bool(self.options.get("project") or self.environ.get("AGENT_ROOT"))

    @property
    def named(self) -> list[str]:
        """The options that make another command work on the same project with the same configuration."""
        config = self.options.get("config")
        return ["--project", self.root, *(["--config", os.path.abspath(config)] if config else [])]

    @property
    def queue_dir(self) -> str:
        return os.path.join(self.root, paths.queue_name(self.environ))

    @functools.cached_property
    def queue(self) -> Queue:
        """The project's queue. Raises FleetError (`not_found`) if there is none yet."""
        from agent_fleet.queue.store import Queue

        if not paths.is_queue(self.queue_dir):
            raise FleetError(
                "not_found", f"there is no queue in {self.root}", hint="`fleet init` makes one, and so does `fleet add`"
            )
        queue = Queue(self.queue_dir)
        queue.check_format()
        queue.mend()
        if queue.listing("staging"):
            from agent_fleet.queue import intake

            intake.recover(queue)
        return queue

    @functools.cached_property
    def config(self) -> Config:
        from agent_fleet import config

        return config.load(
            self.root, queue_dir=self.queue_dir, environ=self.environ, explicit=self.options.get("config")
        )

    @functools.cached_property
    def plugins(self) -> Plugins:
        from agent_fleet.plugins import Plugins

        return Plugins(self.config)

    def made_queue(self) -> Queue:
        """The project's queue, made and hidden from git if it was not there."""
        from agent_fleet import project

        if not paths.is_queue(self.queue_dir):
            for notice in project.create(self.root, paths.queue_name(self.environ)):
                self.warn(notice)
        return self.queue

    def emit(self, payload: dict[str, Any], human: Callable[[], str]) -> None:
        """Answer: one object on stdout for programs, or text for people."""
        if self.format == "human":
            text = human()
            if text:
                tell(printable(text))
        else:
            tell(encode({"ok": True, **payload}, self.format))

    def warn(self, text: str) -> None:
        tell(printable(f"warning: {text}"), error=True)

    def close(self) -> None:
        """Say what a person should know: files that were set aside, settings that mean nothing."""
        queue = self.__dict__.get("queue")
        config = self.__dict__.get("config")
        told = (notice for teller in self.tellers for notice in teller())
        for notice in [*(config.warnings if config else ()), *(queue.notices if queue else ()), *told]:
            self.warn(notice)
        if queue:
            queue.notices.clear()
            queue.journal.close()


def tell(text: str, *, error: bool = False) -> None:
    """Write one text and a line end, at once; nothing where there is no such stream."""
    stream = sys.stderr if error else sys.stdout
    if stream is not None:
        stream.write(text + "\n")
        stream.flush()


def encode(payload: dict[str, Any], form: str) -> str:
    """The one object of an answer as JSON or TOON."""
    if form == "toon":
        import toon_format

        return str(toon_format.encode(payload))
    return json.dumps(payload)


def _remember(name: str, value: Any = None) -> Callable[[click.Context, click.Parameter, Any], Any]:
    def store(context: click.Context, _parameter: click.Parameter, given: Any) -> Any:
        if given is not None and given is not False:
            context.find_root().ensure_object(dict)[name] = value or given
        return given

    return store


def global_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that every command takes, before its name and after it."""
    import click

    for option in (
        click.option(
            "--config",
            metavar="FILE",
            expose_value=False,
            callback=_remember("config"),
            help="One more configuration file.",
        ),
        click.option(
            "--project",
            metavar="DIR",
            expose_value=False,
            callback=_remember("project"),
            help="The project to work on.",
        ),
        click.option(
            "--json",
            is_flag=True,
            expose_value=False,
            callback=_remember("format", "json"),
            help="The same as --format json.",
        ),
        click.option(
            "--format",
            type=click.Choice(["human", "json", "toon"]),
            expose_value=False,
            callback=_remember("format"),
            help="The form of the answer.",
        ),
    ):
        function = option(function)
    return function


def command(name: str, *, help: str, **settings: Any) -> Callable[[Callable[..., Any]], click.Command]:  # noqa: A002 -- click's own word
    """Make a click command that takes the global options and gets a `Shared` first."""

    import click

    def decorate(function: Callable[..., Any]) -> click.Command:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            return work(function, click.get_current_context().find_root().ensure_object(dict), *args, **kwargs)

        return click.command(name, cls=click.Command, help=help, **settings)(global_options(run))

    return decorate


def group(name: str, *, help: str, members: dict[str, tuple[str, str, str]]) -> click.Group:  # noqa: A002 -- click's own word
    """A click group of commands: by name, the module below `agent_fleet.commands` and its attribute, each loaded when typed."""
    import importlib

    import click

    class Nest(click.Group):
        def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's signature
            return [*members]  # the name `list` is the command's module here, once that is loaded

        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 -- click's signature
            if cmd_name not in members:
                return None
            module, attribute, _ = members[cmd_name]
            found: click.Command = getattr(importlib.import_module(f"agent_fleet.commands.{module}"), attribute)
            return found

        def resolve_command(
            self, ctx: click.Context, args: list[str]
        ) -> tuple[str | None, click.Command | None, list[str]]:
            if args and args[0] not in members and not args[0].startswith("-"):
                message = f"there is no command {name} {args[0]!r}"
                raise FleetError("usage", message, hint=f"`{ctx.command_path} --help` lists them")
            return super().resolve_command(ctx, args)

        def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 -- click's signature
            with formatter.section("Commands"):
                formatter.write_dl([(each, line) for each, (_, _, line) in members.items()])

    def show(*_: Any, **__: Any) -> None:
        context = click.get_current_context()
        if context.invoked_subcommand is None:
            hint = f"`{context.command_path} --help` shows them"
            raise FleetError("usage", f"say what to do: {', '.join(members)}", hint=hint)

    return Nest(name, help=help, invoke_without_command=True, callback=show, params=_options())


def _options() -> list[Any]:
    """The global options as parameters of a group."""
    import click

    return click.command()(global_options(lambda: None)).params


def work(function: Callable[..., Any], options: dict[str, Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a command's function for one invocation with these global options, and close what it opened."""
    shared = Shared(options)
    try:
        return function(shared, *args, **kwargs)
    finally:
        shared.close()


def own_identity() -> str:
    """The identity of the process on whose behalf this command runs: the agent above it, not the shell between them."""
    from agent_fleet import identity

    return identity.identity_of(identity.ancestor_owner(os.getpid()))


def read_text(value: str, what: str) -> str:
    """An option's text; `-` reads standard input. Raises FleetError for text that is not UTF-8."""
    if value != "-":
        return value
    data = sys.stdin.buffer.read() if sys.stdin else b""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FleetError(
            "bad_input", f"{what} on standard input is not UTF-8", hint="convert it to UTF-8 first"
        ) from None
