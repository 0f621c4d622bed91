"""What a provider says of its accounts, as data: where a login lives, what a launch may hold, what is ours in a home.

A provider that gives an `AccountSpec` has accounts. A text in braces (`{home}`, `{root}`) is filled in by the core where the
field says so; nothing else in a spec is a template.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

LoginState = Literal["present", "absent", "invalid", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a process of this account sees of the person's environment. A name may end in `*` for all that begin so.

    `scrub` is taken away beside what the core takes from every account, `sets` is put in. `secret` names what selects or
    is a login: no allow list lets such a variable through.
    """

    scrub: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()
    sets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedKey:
    """One value in a file of the home that fleet keeps as it is; every other key of that file belongs to the provider.

    A part of `path`, and a text in `value`, may be `{root}`: there is one such key for every trusted project. A text may be
    `{session_start}` or `{turn_end}` (the hook's command line for a shell) or `{turn_end_words}` (the same as a list of words).
    With `mark` the value is one element of the list at `path`: the one whose text holds the mark; the others are not ours.
    """

    file: str
    path: tuple[str, ...]
    value: Any
    format: Literal["json", "toml"] = "json"
    mark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialPlace:
    """Where a login is kept.

    `file`: a JSON file `name` in the home. `keychain`: the macOS item of the service `name`, where `{digest}` is the first eight
    hexadecimal digits of the SHA-256 of the home's path in NFC. `named`: a key that the registry's profile names by `key_env` (a
    variable of the person) or `key_file` (a private file), handed to the process as the variable `name`.

    Each of `tokens` is a path to a secret, one of which must be there; `refresh` is a path to what renews it. `expires` leads to
    when it ends, in the unit that `clock` names: seconds or milliseconds since the epoch, or the `exp` claim of a JWT.
    """

    store: Literal["file", "keychain", "named"]
    name: str
    kind: str = "login"
    tokens: tuple[tuple[str, ...], ...] = ()
    refresh: tuple[str, ...] = ()
    expires: tuple[str, ...] = ()
    clock: Literal["seconds", "milliseconds", "jwt"] = "seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """What is known of a login without a value of it. `expires` is in seconds since the epoch; `note` says what is wrong."""

    state: LoginState
    store: str = ""
    kind: str = ""
    expires: float | None = None
    renewable: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option that a caller may give: its words, in which `{}` stands for the value. Once, in the order of the grammar.

    `values` are the words that may stand there, empty for any printable text of at most `longest` characters
    that begins with no dash.
    """

    name: str
    words: tuple[str, ...]
    values: tuple[str, ...] = ()
    longest: int = 256
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """The command lines that are accepted, and what they become.

    A form is a tuple of words. `<name>` stands for the words of that option, if it was given; `<prompt>` for `--` and the prompt;
    `<session>` for the conversation to go on with. `{root}` in a word is the active project as a TOML string.
    `piped` is the form of a prompt too long for an argument, which is then read from standard input; empty: none is taken.
    `notify`, if there is one, is the name of the option by which a caller asks to be told of the end of a turn: its value must be
    the touching of the turn-end file, and becomes fleet's own hook, as a TOML list of strings.
    """

    options: tuple[Option, ...] = ()
    start: tuple[str, ...] = ("<prompt>",)
    resume: tuple[str, ...] = ()
    piped: tuple[str, ...] = ()
    notify: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountSpec:
    """Everything about a provider's accounts that is data.

    `binary` is the program's usual name, `behind` where the program itself lies if that is a launcher (patterns, seen from the
    launcher's directory), `homes` the variables that name the home (none: the account has no home of its own), `shared` the names
    in the person's own home of which an account gets a read-only copy, `controls` the files of a project that could give its
    agent orders or programs, `login` the words after the program by which a person logs in there, `capabilities` what is there
    beside a start: `resume`, `session_hook`, `turn_end_hook`, `quota`, `login`.
    """

    binary: str
    behind: tuple[str, ...] = ()
    homes: tuple[str, ...] = ()
    surroundings: Surroundings = field(default_factory=Surroundings)
    owned: tuple[OwnedKey, ...] = ()
    shared: tuple[str, ...] = ()
    credentials: tuple[CredentialPlace, ...] = ()
    controls: tuple[str, ...] = ()
    login: tuple[str, ...] = ()
    grammar: Grammar = field(default_factory=Grammar)
    efforts: tuple[str, ...] = ()
    capabilities: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One profile as a provider sees it when it is asked something.

    `home` is empty if the kind of account has none. `environ` is the whole environment for a process that asks, and `binary` and
    `tools` (by name) are programs that the registry pins. `options` are the registry's further keys of the profile, `last_output`
    the log of its last run, if there is one. `may_ask` says that the person is there, and that a keychain may ask them. `repr`
    shows no environment: it can hold a key.
    """

    profile: str
    provider: str
    home: str
    binary: str = ""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    options: Mapping[str, str] = field(default_factory=dict)
    tools: Mapping[str, str] = field(default_factory=dict)
    last_output: str = ""
    may_ask: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSaid:
    """What a provider's hook told: a conversation has begun or goes on, or a turn of it has ended."""

    kind: Literal["session", "turn_end"]
    session: str
