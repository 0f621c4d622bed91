"""Who checks: the second pool is named before anything is started, and is never the one that made the answers."""

from __future__ import annotations

import secrets
from dataclasses import replace

from agent_fleet.aggregate.verification import Inspection, Terms
from agent_fleet.config import Config
from agent_fleet.deploy.record import Deployment, Second
from agent_fleet.errors import FleetError
from agent_fleet.run import accounts, crews
from agent_fleet.run.accounts import Access

Pool = tuple[str, str, str]
"""A provider, its model and its pool of accounts; an empty model is the provider's own choice."""


def wished(config: Config, *, provider: str, model: str, pool: str, lane: str, terms: Terms) -> Second:
    """The second pool that is asked for; what is left out is as configured."""
    get = config.get
    return Second(
        provider=provider or get("deploy.verify_provider"),
        model=model or get("deploy.verify_model"),
        pool=pool or get("deploy.verify_pool"),
        lane=lane,
        terms=terms if terms.seed else replace(terms, seed=secrets.token_hex(4)),
    )


def appointed(deployment: Deployment, wish: Second, access: Access, lane: str) -> Deployment:
    """The deployment with its second pool; `lane` is where agents work that name none.

    Raises `bad_input` where that could be the first one, and for terms that no sample can meet. What is not known to
    differ is the same.
    """
    Inspection(wish.terms, ("", "", ""))
    settings = deployment.settings
    first = settings.provider or str(access.config.get("providers.default"))
    provider = wish.provider or first
    own = provider == first
    model = access.model(provider, wish.model or (settings.model if own else ""))
    pool = wish.pool or (settings.pool if own else "")
    named = wish.lane or (settings.lane if own else "")
    checker = (provider, model, access.pool(pool))
    for maker in sorted(_makers(deployment, access)):
        if not _differ(maker, checker, access, named or lane):
            raise FleetError(
                "bad_input",
                f"the second pool is the one that makes the answers: {_named(maker)}",
                hint="name another with --verify-provider or --verify-model, or a pool of other accounts with --verify-pool",
            )
    return replace(deployment, second=replace(wish, provider=provider, model=model, pool=pool, lane=named))


def _makers(deployment: Deployment, access: Access) -> set[Pool]:
    """Everyone who may be given a part."""
    found = set()
    for provider, model in deployment.ways():
        who = provider or str(access.config.get("providers.default"))
        found.add((who, access.model(who, model), access.pool(deployment.settings.pool)))
    return found


def _differ(maker: Pool, checker: Pool, access: Access, lane: str) -> bool:
    """Whether nobody is in both. A session that works many tasks is on one account, whatever pools its tasks name."""
    if maker[0] != checker[0] or (maker[1] and checker[1] and maker[1] != checker[1]):
        return True
    if not maker[2] or not checker[2] or crews.berth(access.plugins, lane, checker[0]) is not None:
        return False
    one, other = (accounts.members(access.environ, pool[2], pool[0]) for pool in (maker, checker))
    return not one & other


def _named(pool: Pool) -> str:
    provider, model, accounts_of = pool
    return provider + (f", {model}" if model else "") + (f", accounts of {accounts_of}" if accounts_of else "")
