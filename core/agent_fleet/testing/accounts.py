"""The contract of a provider with accounts: what its spec says can be done, and does no harm."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from agent_fleet.accounts.arguments import LONGEST, build, parse
from agent_fleet.accounts.credentials import credential
from agent_fleet.accounts.environment import Person, environment, matches
from agent_fleet.accounts.provisioning import faults, hooks, owned, provision
from agent_fleet.accounts.spec import Account, AccountSpec, Option
from agent_fleet.accounts.values import QuotaReading
from agent_fleet.accounts.windows import checked
from agent_fleet.errors import FleetError
from agent_fleet.protocols import Accounts, Hooked, Identified, Personal, Provider, Quotas
from agent_fleet.testing.contract import asked, check_name, is_writable, must

ROOTS = ("/src/one.two", '/src/with "quotes" and spaces')
PROMPT = "--help; $(id)"
STORES = ("file", "keychain", "named")
_PLACE = re.compile(r"<([a-z_]+)>")


def check_accounts(provider: Provider, tmp_path: Path) -> AccountSpec:
    """Check what a provider says of its accounts, and hand its spec back.

    The home is provisioned below `tmp_path`, its sources are asked for an account that nobody is logged in to, and command lines
    are made from the grammar. No program is started but what a quota reader of the provider starts.
    """
    name = check_name(provider)
    must(isinstance(provider, Accounts), f"{name} has no account_spec()")
    spec = asked(f"{name}.account_spec()", provider.account_spec)  # type: ignore[attr-defined]
    if not isinstance(spec, AccountSpec):
        raise AssertionError(f"{name}.account_spec() is {spec!r}, wanted an AccountSpec")
    must(provider.account_spec() == spec, f"{name}.account_spec() changes from one look to the next")  # type: ignore[attr-defined]
    _check_names(name, spec)
    _check_surroundings(name, spec)
    _check_grammar(name, spec)
    home = tmp_path / "home"
    if spec.homes:
        _check_home(name, spec, home)
    found = asked(f"{name}: its credential places", credential, spec, str(home), Person("somebody", str(tmp_path)))
    must(found.state in ("absent", "invalid"), f"{name} finds a login in a home that nobody has logged in to")
    _check_abilities(name, provider, spec, home)
    return spec


def _check_names(name: str, spec: AccountSpec) -> None:
    must(spec.binary and os.sep not in spec.binary, f"{name} names its binary {spec.binary!r}, wanted a plain name")
    must(bool(spec.owned) <= bool(spec.homes), f"{name} owns keys in a home that its accounts do not have")
    logins = {place.name for place in spec.credentials if place.store == "file"}
    for path in (*(key.file for key in spec.owned), *logins, *spec.controls):
        sound = path and not os.path.isabs(path) and ".." not in path.split("/")
        must(sound, f"{name} names {path!r}, wanted a path below the home or the project")
    for shared in spec.shared:
        must("/" not in shared and not shared.startswith("."), f"{name} shares {shared!r}, wanted a plain name")
    both = logins & ({key.file for key in spec.owned} | set(spec.shared))
    must(not both, f"{name} writes to or shares {sorted(both)}, where a login lies")
    for place in spec.credentials:
        must(place.store in STORES, f"{name} keeps a login in {place.store!r}, wanted one of {', '.join(STORES)}")
        must(place.store != "file" or place.tokens, f"{name} does not say where in {place.name} the login stands")


def _check_surroundings(name: str, spec: AccountSpec) -> None:
    """No variable of the person selects another home or login, allowed or not."""
    secret = [each.rstrip("*") for each in spec.surroundings.secret]
    ambient = dict.fromkeys((*spec.homes, *(each for each in secret if each), "A_VARIABLE"), "of the person")
    who = Person("somebody", "/home/somebody")
    found = asked(
        f"{name}: its surroundings", environment, spec, "/h", ambient, who, path="/usr/bin", allow=("*", *spec.homes)
    )
    kept = [each for each, value in found.items() if value == "of the person" and each != "A_VARIABLE"]
    must(not kept, f"{name} lets {', '.join(kept)} of the person through")
    must(
        all(found.get(each) == "/h" for each in spec.homes), f"{name} does not set {', '.join(spec.homes)} to the home"
    )
    for place in spec.credentials:
        hidden = place.store != "named" or matches(place.name, spec.surroundings.secret)
        must(hidden, f"{name} takes {place.name} from the person's environment: it is not among the secret ones")


def _check_grammar(name: str, spec: AccountSpec) -> None:
    grammar = spec.grammar
    known = {option.name for option in grammar.options} | {"prompt", "session"}
    for form in (grammar.start, grammar.resume, grammar.piped):
        unknown = {found[1] for word in form if (found := _PLACE.fullmatch(word))} - known
        must(
            not unknown, f"{name}: the forms of its grammar name {', '.join(sorted(unknown))}, which is no option of it"
        )
    must("<prompt>" in grammar.start, f"{name}: a start has no place for the prompt")
    must(not grammar.resume or "<session>" in grammar.resume, f"{name}: a resume has no place for the session")
    must("<prompt>" not in grammar.piped, f"{name}: a prompt that is piped stands among the arguments too")
    given = [word for option in grammar.options if option.required for word in _example(option)]
    request = asked(f"{name}: its grammar", parse, grammar, [*given, PROMPT], operation="start")
    made = asked(f"{name}: its grammar", build, grammar, request, root=ROOTS[0]).arguments
    must(made[-2:] == ("--", PROMPT), f"{name} does not put the prompt last, behind `--`")
    for bad in (["--help", *given, PROMPT], [*given, PROMPT, PROMPT], [*given, ""], []):
        _check_refused(name, spec, bad)
    if grammar.piped:
        long = parse(grammar, [*given, "x" * (LONGEST + 1)], operation="start")
        command = build(grammar, long, root=ROOTS[0])
        must(command.stdin and max(map(len, command.arguments), default=0) < LONGEST, f"{name} loses a long prompt")


def _check_refused(name: str, spec: AccountSpec, words: list[str]) -> None:
    try:
        parse(spec.grammar, words, operation="start")
    except FleetError:
        return
    raise AssertionError(f"{name} accepts the arguments {words!r}")


def _example(option: Option) -> Iterable[str]:
    value = option.values[0] if option.values else "value"
    return [word.replace("{}", value) for word in option.words]


def _check_home(name: str, spec: AccountSpec, home: Path) -> None:
    keys = owned(spec, ROOTS, hooks(("/opt/fleet", "--config", "/x y")))
    left = [key.path for key in keys for part in (*key.path, *_texts(key.value)) if re.fullmatch(r"\{[a-z_]+\}", part)]
    must(not left, f"{name}: {left} holds a place that fleet does not fill in")
    asked(f"{name}: provisioning its home", provision, str(home), keys)
    must(faults(str(home), keys) == [], f"{name}: its home is not ready after it was provisioned")
    must(provision(str(home), keys) == (), f"{name}: its home changes each time that it is provisioned")


def _texts(value: object) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)


def _check_abilities(name: str, provider: Provider, spec: AccountSpec, home: Path) -> None:
    account = Account(
        profile=f"{name}-1",
        provider=name,
        home=str(home) if spec.homes else "",
        environ={
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(home.parent),
            **dict.fromkeys(spec.homes, str(home)),
        },
    )
    if isinstance(provider, Identified):
        who = asked(f"{name}.identity()", provider.identity, account, 5.0)
        must(who is None, f"{name}.identity() names an account that nobody has logged in to: {who!r}")
    if isinstance(provider, Personal):
        own = asked(f"{name}.own_accounts()", lambda: list(provider.own_accounts(str(home), str(home / "none"))))
        must(not own, f"{name}.own_accounts() names an account that nobody has logged in to: {own!r}")
    if isinstance(provider, Quotas):
        for reader in asked(f"{name}.quota_readers()", lambda: list(provider.quota_readers(account))):
            source = check_name(reader)
            reading = asked(f"{name}: {source}.read()", reader.read, account, 5.0)
            must(
                reading is None or isinstance(reading, QuotaReading),
                f"{name}: {source} gave {reading!r}, wanted a QuotaReading",
            )
            fresh = reading is not None and checked(reading, source, reading.observed_at or 0.0).status == "fresh"
            must(not fresh, f"{name}: {source} has fresh figures of an account that nobody has logged in to")
    if isinstance(provider, Hooked):
        must(provider.hook_event("no-such-event", (), b"{}") is None, f"{name} finds something in a hook that is none")
        for payload in (b"", b"{", b"[1]", b"\xff", b"{}"):
            try:
                said = provider.hook_event("session-start", ("one more",), payload)
            except FleetError:
                continue
            except Exception as error:
                raise AssertionError(f"{name}.hook_event() raised {type(error).__name__} for {payload!r}") from error
            must(said is None or is_writable(said.session), f"{name}.hook_event() found a session in {payload!r}")
