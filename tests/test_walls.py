from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_fleet.commands.table import COMMANDS

ROOT = Path(__file__).parents[1]
CORE = ROOT / "core"
PACKAGES = {directory.name: directory for directory in sorted((ROOT / "plugins").glob("*/agent_fleet_*"))}
MODULES = [*sorted(CORE.rglob("*.py")), *(file for each in PACKAGES.values() for file in sorted(each.rglob("*.py")))]
MOST_LINES = 400

# docs/architecture.md, from the ground up; a module belongs to the longest prefix that it has.
FLOORS = {
    "agent_fleet": 0,
    "agent_fleet.queue": 1,
    "agent_fleet.queue.touches": 0,
    "agent_fleet.accounts": 2,
    "agent_fleet.accounts.spec": 0,
    "agent_fleet.accounts.values": 0,
    "agent_fleet.accounts.windows": 0,
    "agent_fleet.project": 2,
    "agent_fleet.settings": 2,
    "agent_fleet.plan": 2,
    "agent_fleet.capacity": 2,
    "agent_fleet.machine": 2,
    "agent_fleet.cost": 2,
    "agent_fleet.aggregate": 2,
    "agent_fleet.checklist": 2,
    "agent_fleet.throttle": 2,
    "agent_fleet.health": 2,
    "agent_fleet.routing": 2,
    "agent_fleet.deploy": 3,
    "agent_fleet.deploy.values": 0,
    "agent_fleet.deploy.balance": 0,
    "agent_fleet.deploy.objects": 0,
    "agent_fleet.run": 3,
    "agent_fleet.agents": 3,
    "agent_fleet.agents.allowance": 0,
    "agent_fleet.agents.dialect": 0,
    "agent_fleet.agents.report": 0,
    "agent_fleet.commands": 4,
    "agent_fleet.cli": 4,
    "agent_fleet.clicked": 4,
    "agent_fleet.ledger": 2,
    "agent_fleet.__main__": 4,
    "agent_fleet.testing": 4,
    "agent_fleet.library": 4,
}


def name(file: Path) -> str:
    root = CORE if CORE in file.parents else file.parents[1]
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


KNOWN = {name(file): file for file in MODULES}


def is_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Every node that runs, in functions too; what only a type checker reads is left out."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt) and is_type_checking(child):
            assert isinstance(child, ast.If)
            for other in child.orelse:
                yield other
                yield from statements(other)
            continue
        yield child
        yield from statements(child)


def imports(source: str, module: str, *, package: bool = False) -> set[str]:
    """The modules that a source imports while it runs; `from package import x` counts as x where that is a module."""
    found: set[str] = set()
    for node in statements(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                above = parts[: len(parts) - node.level + package]
                base = ".".join([*above, *([base] if base else [])])
            for alias in node.names:
                full = f"{base}.{alias.name}"
                found.add(full if full in KNOWN else base)
    return found


def imported(file: Path) -> set[str]:
    return imports(file.read_text(encoding="utf-8"), name(file), package=file.name == "__init__.py")


def floor(module: str) -> int:
    prefixes = [prefix for prefix in FLOORS if module == prefix or module.startswith(prefix + ".")]
    return FLOORS[max(prefixes, key=len)]


def ours(modules: set[str]) -> set[str]:
    return {module for module in modules if module.split(".")[0] == "agent_fleet"}


CORE_FILES = [file for file in MODULES if CORE in file.parents]
PLUGIN_FILES = [file for file in MODULES if CORE not in file.parents]


@pytest.mark.parametrize("file", CORE_FILES, ids=name)
def test_core_imports_no_plugin(file: Path) -> None:
    assert {module for module in imported(file) if module.split(".")[0] in PACKAGES} == set()


@pytest.mark.parametrize("file", CORE_FILES, ids=name)
def test_no_floor_imports_a_higher_one(file: Path) -> None:
    mine = name(file)
    assert {module for module in ours(imported(file)) if floor(module) > floor(mine)} == set()


@pytest.mark.parametrize("file", PLUGIN_FILES, ids=name)
def test_a_plugin_imports_the_api_and_its_own_package_alone(file: Path) -> None:
    package = name(file).split(".")[0]
    allowed = {"agent_fleet.api", package}
    foreign = {
        module
        for module in imported(file)
        if module.startswith("agent_fleet") and module not in allowed and not module.startswith(package + ".")
    }
    assert foreign == set()


@pytest.mark.parametrize("file", MODULES, ids=name)
def test_a_module_stays_small(file: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


@pytest.mark.parametrize("package", PACKAGES)
def test_names_lists_exactly_the_modules_that_mark_a_hook(package: str) -> None:
    offering = set()
    for file in PACKAGES[package].glob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        marked = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list]
        if any("hookimpl" in ast.unparse(mark) for node in marked for mark in node.decorator_list):
            offering.add(file.stem)
    init = ast.parse((PACKAGES[package] / "__init__.py").read_text(encoding="utf-8"))
    values = [
        node.value
        for node in init.body
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and "NAMES" in ast.unparse(node)
    ]
    (value,) = values
    assert value is not None
    listed = ast.literal_eval(value)
    assert offering
    assert set(listed) == offering
    assert list(listed) == sorted(listed)


def test_no_module_imports_itself_in_a_circle() -> None:
    """Counts what a module imports when it is loaded; an import inside a function cannot close a circle at load time."""
    edges: dict[str, set[str]] = {}
    for module, file in KNOWN.items():
        tree = ast.parse(file.read_text(encoding="utf-8"))
        top = ast.Module([node for node in tree.body if not isinstance(node, (ast.FunctionDef, ast.ClassDef))], [])
        source = ast.unparse(top)
        edges[module] = (imports(source, module, package=file.name == "__init__.py") & set(KNOWN)) - {module}
    done: set[str] = set()

    def walk(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " → ".join([*path, module])
        if module not in done:
            for other in sorted(edges[module]):
                walk(other, (*path, module))
            done.add(module)

    for module in edges:
        walk(module, ())


def test_the_drawing_of_the_architecture_names_every_module_and_no_other() -> None:
    """A command is there by its name alone, and so is a part that the modules of one package share."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    words = set(re.findall(r"`([a-z_0-9]+)`", text))
    own = COMMANDS.keys() | {name.replace("-", "_") for name in COMMANDS}
    stems = {file.stem for file in MODULES if not file.stem.startswith("_")}
    commands = {file.stem for file in (CORE / "agent_fleet" / "commands").glob("*.py")}
    assert stems - (commands & own) - words == set()
    tables = re.findall(r"^\| ((?:`[a-z_0-9]+`(?:, )?)+) \|", text, flags=re.MULTILINE)
    named = {word for row in tables for word in re.findall(r"`([a-z_0-9]+)`", row)}
    assert len(named) > 40
    assert named - stems == set()
    assert set(PACKAGES) == {name for name in PACKAGES if f"/{name}`" in text}


def test_the_walls_see_every_form_of_import() -> None:
    source = (
        "from __future__ import annotations\n"
        "import agent_fleet.run.driver\n"
        "from agent_fleet import config\n"
        "from . import model\n"
        "def late():\n    from agent_fleet_lanes.headless import fleet_lanes\n"
        "if TYPE_CHECKING:\n    from agent_fleet.queue.store import Queue\n"
    )
    found = imports(source, "agent_fleet.errors")
    assert {"agent_fleet.run.driver", "agent_fleet.config", "agent_fleet.model", "agent_fleet_lanes.headless"} <= found
    assert not any("queue" in module for module in found)
    assert floor("agent_fleet.queue.store") > floor("agent_fleet.config")
    assert floor("agent_fleet.run.driver") > floor("agent_fleet.plan") > floor("agent_fleet.queue")
