from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from agent_fleet import hookspecs
from agent_fleet.config import KEYS, Config
from agent_fleet.plugins import FAMILIES, Plugins
from support.distributions import install

ROOT = Path(__file__).parents[2]


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_script", ROOT / "scripts" / "docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["hooks.md", "config.md", "cli.md"])
def test_a_page_made_from_the_code_is_current(page: str) -> None:
    made = script().pages()[ROOT / "docs" / page]
    assert (ROOT / "docs" / page).read_text(encoding="utf-8") == made, "run scripts/docs.py"


def test_every_hook_has_a_family_a_heading_and_its_group() -> None:
    text = (ROOT / "docs" / "hooks.md").read_text(encoding="utf-8")
    specified = {name for name in vars(hookspecs.Offers) if name.startswith("fleet_")}
    assert specified == {family.hook for family in FAMILIES}
    for family in FAMILIES:
        assert f"\n## `{family.hook}`\n" in text
        assert f"`{family.group}`" in text
        assert f"def {family.hook}(config: Config) -> Iterable[{family.protocol.__name__}]" in text
        assert all(f"def {member}(" in text for member in family.members)


def test_every_key_is_documented_with_its_meaning() -> None:
    text = (ROOT / "docs" / "config.md").read_text(encoding="utf-8")
    for key in KEYS:
        assert f"| `{key.name}` |" in text
        assert key.meaning in text
        assert key.meaning.endswith(".")


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_example_of_every_hook_works_once_installed(
    family: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = next(each for each in FAMILIES if each is family)
    kind = chosen.protocol.__name__.lower()
    source = script().example(kind).read_text(encoding="utf-8")
    module = f"fleet_example_{kind}"
    entry_points = {chosen.group: {kind: module}}
    install(tmp_path, f"fleet-example-{kind}", modules={f"{module}.py": source}, entry_points=entry_points)
    monkeypatch.syspath_prepend(tmp_path)
    plugins = Plugins(Config("/", ""))
    offers = [offer for offer in plugins.all(chosen) if not offer.origin.builtin]
    assert plugins.broken == []
    assert len(offers) == 1
    assert plugins.get(chosen, offers[0].name) is offers[0].thing


def test_a_page_that_lags_behind_the_code_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = script()
    stale = ROOT / "docs" / "nosuch.md"
    monkeypatch.setattr(module, "pages", lambda: {stale: "text"})
    assert module.main(["--check"]) == 1
    assert not stale.exists()
