"""What a process under an account starts with: a home that is ready for its project, the pinned program, its environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from agent_fleet.accounts import binaries, credentials, environment, provisioning
from agent_fleet.accounts.controls import controls_in
from agent_fleet.accounts.ports import ProviderPort
from agent_fleet.accounts.provisioning import Hooks
from agent_fleet.accounts.spec import AccountSpec
from agent_fleet.accounts.values import Profile
from agent_fleet.errors import FleetError


@dataclass(frozen=True, slots=True, kw_only=True)
class Outfit:
    """All that is settled before a process starts. `repr` shows no environment: it can hold a key."""

    spec: AccountSpec
    binary: str
    hooks: Hooks
    environ: Mapping[str, str] = field(repr=False)


def outfit(
    port: ProviderPort, profile: Profile, root: str, carries: Mapping[str, str], ambient: Mapping[str, str]
) -> Outfit:
    """Make the home ready for the project `root`, look at project and program once more, and settle the environment.

    `carries` are the variables that say for whom the process works, `ambient` is the environment that it begins from. Raises
    FleetError: `project_refused`, `profile_state`, or what keeps a home or a key from being used.
    """
    spec = port.spec(profile.provider)
    made = port.homes.of(profile)
    if made is None:
        raise FleetError(
            "profile_state",
            f"the home of {profile.id} is not made any more",
            hint=f"`fleet profile provision {profile.id}` makes it",
        )
    check_controls(root, spec)
    hooks = provisioning.hooks(made.words)
    if spec.homes:
        # also a linked work tree is trusted by its own path
        provisioning.provision(profile.home, provisioning.owned(spec, [root], hooks))
    policy: Literal["refuse", "follow"] = "follow" if port.registry.rules.pin_policy == "follow" else "refuse"
    checked = binaries.check(made.pin, made.pin.path, policy)
    if checked.pin is None:
        raise FleetError("profile_state", checked.words, hint=f"`fleet profile provision {profile.id}` pins it anew")
    keys = credentials.handed_over(spec, profile.options, port.environ)
    return Outfit(
        spec=spec,
        binary=made.pin.path,
        hooks=hooks,
        environ=environment.environment(
            spec,
            profile.home if spec.homes else "",
            ambient,
            environment.person(),
            path=environment.safe_path(ambient.get("PATH", "")),
            allow=environment.allowed(port.registry.providers[profile.provider].options, profile.provider),
            sets={**keys, **carries},
        ),
    )


def check_controls(root: str, spec: AccountSpec) -> None:
    """Raises FleetError (`project_refused`) for a project whose files could give its agent orders or programs."""
    found = controls_in(root, spec.controls)
    if found:
        raise FleetError(
            "project_refused",
            f"{root} holds files that give an agent orders or programs: {', '.join(found)}",
            hint="read them; an account works there once they are gone, also from the work tree of the task",
            details=found,
        )
