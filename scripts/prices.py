"""Write the packaged price table, `core/agent_fleet/data/prices.json`, from `genai-prices` (MIT, Pydantic Services Inc.).

That package is a tool of this script alone: install it into a throw-away environment and run the script with its Python.
`--date` is the day on which the prices were fetched, today if it is not given.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import re
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parents[1] / "core" / "agent_fleet" / "data" / "prices.json"

# The models that work is routed to, by the vendor whose own list prices are taken.
MODELS = {
    "anthropic": """
        claude-fable-5 claude-fable-5-1 claude-fable-5-2 claude-mythos-5-2 claude-haiku-4-5 claude-haiku-5-5 claude-opus-4-1
        claude-opus-4-5 claude-opus-4-6 claude-opus-4-7 claude-opus-4-8 claude-opus-5 claude-opus-5-5 claude-sonnet-4-0
        claude-sonnet-4-5 claude-sonnet-4-6 claude-sonnet-5 claude-sonnet-5-5
    """,
    "openai": """
        gpt-4.1 gpt-4.1-mini gpt-5 gpt-5-mini gpt-5-nano gpt-5.1 gpt-5.1-codex-mini gpt-5.2 gpt-5.3 gpt-5.3-codex gpt-5.4
        gpt-5.4-mini gpt-5.4-nano gpt-5.5 gpt-5.5-pro gpt-5.6-luna gpt-5.6-sol gpt-5.6-terra gpt-6-astra gpt-6-luna
        gpt-6-sol gpt-6.1-sol gpt-6.1-terra o3 o4-mini codex-mini
    """,
    "google": """
        gemini-2.5-pro gemini-3-flash-preview gemini-3.1-pro-preview gemini-3.5-flash gemini-3.5-flash-lite
        gemini-3.6-flash gemini-3.7-flash gemini-3.8-flash gemini-4-argon
    """,
    "deepseek": "deepseek-v4-flash deepseek-v4-pro",
    "mistral": "devstral-2512 codestral-2508 mistral-large-4",
    "moonshotai": "kimi-k2.7-code kimi-k3",
    "x-ai": "grok-4.7 grok-code-fast-1",
    "zai": "GLM-4.7 GLM-5.3",
}

# What stands before the slash of a model's name, and whose models it then can be.
PREFIXES = {
    **{vendor: vendor for vendor in MODELS},
    "deepseek-ai": "deepseek",
    "mistralai": "mistral",
    "models": "google",  # the resource name of the Gemini API
    "xai": "x-ai",
    "z-ai": "zai",
}

CLASSES = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
}


def main(args: list[str]) -> int:
    """Write the table; the exit status is 0, or 1 if a model is not there any more."""
    from genai_prices.data import providers

    date = (
        args[args.index("--date") + 1] if "--date" in args else datetime.datetime.now(datetime.UTC).date().isoformat()
    )
    known = {provider.id: provider for provider in providers}
    models: dict[str, Any] = {}
    missing = []
    for vendor, names in MODELS.items():
        there = {model.id: model for model in known[vendor].models}
        missing += [f"{vendor}/{name}" for name in names.split() if name not in there]
        for name in names.split():
            if name in there:
                models[name.lower()] = _entry(known[vendor], there[name])
    if missing:
        sys.stderr.write(f"not in the source any more: {', '.join(missing)}\n")
        return 1
    _drop_shared_aliases(models)
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(_text(_head(date), models), encoding="utf-8")
    sys.stdout.write(f"{TARGET}: {len(models)} models\n")
    return 0


def _head(date: str) -> dict[str, Any]:
    distribution = importlib.metadata.distribution("genai-prices")
    notice = next(file for file in distribution.files or () if file.name == "LICENSE")
    return {
        "format": 1,
        "unit": "US dollars per million tokens",
        "date": date,
        "source": f"genai-prices {distribution.version}",
        "url": "https://github.com/pydantic/genai-prices",
        "license": "MIT",
        "notice": [line for line in notice.read_text().splitlines() if line],
        "prefixes": PREFIXES,
    }


def _entry(provider: Any, model: Any) -> dict[str, Any]:
    pages = [url.rstrip(".,;") for url in re.findall(r"https://[^\s)]+", model.price_comments or "")]
    pages = [url for url in pages if "github.com" not in url] + list(provider.pricing_urls or ())
    return {
        "vendor": provider.id,
        "source": pages[0] if pages else "",
        "aliases": sorted(_aliases(provider, model)),
        "periods": _periods(model),
    }


def _aliases(provider: Any, model: Any) -> set[str]:
    """The whole names in the source's rules. The beginning of a name counts as a whole one: what may follow it is not guessed."""
    found = {text.rstrip("-@").lower() for text in _texts(model.match)} - {model.id.lower()}
    return {text for text in found if provider.find_model(text) is model}


def _texts(rule: Any) -> list[str]:
    for part in ("equals", "starts_with"):
        if hasattr(rule, part):
            return [getattr(rule, part)]
    return [text for inner in getattr(rule, "or_", None) or getattr(rule, "and_", None) or () for text in _texts(inner)]


def _drop_shared_aliases(models: dict[str, Any]) -> None:
    owners: dict[str, list[str]] = {}
    for name, entry in models.items():
        for alias in entry["aliases"]:
            owners.setdefault(alias, []).append(name)
    for entry in models.values():
        entry["aliases"] = [alias for alias in entry["aliases"] if len(owners[alias]) == 1 and alias not in models]


def _periods(model: Any) -> list[dict[str, Any]]:
    """Prices by the day from which they hold. Prices of some hours of the day are a second possibility of the last period."""
    if not isinstance(model.prices, list):
        return [{"valid_from": None, "rates": _rates(model.prices)}]
    periods: list[dict[str, Any]] = []
    for priced in model.prices:
        start = getattr(priced.constraint, "start_date", None)
        if priced.constraint is None or start is not None:
            periods.append({"valid_from": start.isoformat() if start else None, "rates": _rates(priced.prices)})
        else:
            rates = periods[-1]["rates"]
            rates += [{"when": "peak hours", **rate} for rate in _rates(priced.prices)]
            periods[-1]["rates"] = [rate for place, rate in enumerate(rates) if rate not in rates[:place]]
    return periods


def _rates(price: Any) -> list[dict[str, Any]]:
    """The rate of ordinary requests, then one for each size of prompt (tokens) above which a dearer one holds."""
    values = {name: getattr(price, field, None) for name, field in CLASSES.items()}
    starts = sorted({tier.start for value in values.values() for tier in getattr(value, "tiers", ())})
    rows = []
    for start in (0, *starts):
        row: dict[str, Any] = {"above": start} if start else {}
        for name, value in values.items():
            if value is not None:
                row[name] = float(_at(value, start))
        rows.append(row)
    return rows


def _at(value: Any, start: int) -> Any:
    if not hasattr(value, "tiers"):
        return value
    return (
        next((tier.price for tier in reversed(value.tiers) if tier.start <= start), value.base) if start else value.base
    )


def _text(head: dict[str, Any], models: dict[str, Any]) -> str:
    """JSON with one line a model, so that a change of one price is a change of one line."""
    rows = ",\n".join(f"    {json.dumps(name)}: {json.dumps(models[name])}" for name in sorted(models))
    return json.dumps(head, indent=2).removesuffix("\n}") + ',\n  "models": {\n' + rows + "\n  }\n}\n"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
