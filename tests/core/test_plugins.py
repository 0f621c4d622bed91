from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_fleet.config import Config, load
from agent_fleet.errors import FleetError
from agent_fleet.plugins import CAPACITY, CHECKS, FAMILIES, LANES, POLICIES, PROVIDERS, Plugins
from support.child import child
from support.distributions import install

GOOD = """
    from agent_fleet.api import hookimpl

    class Thing:
        def __init__(self, name):
            self.name = name
        def usable(self):
            return None
        def read(self):
            return ()

    @hookimpl
    def fleet_probes():
        yield Thing({name!r})
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory of installed distributions, on the path; the modules in it are forgotten afterwards."""
    directory = tmp_path / "site"
    directory.mkdir()
    before = set(sys.modules)
    monkeypatch.syspath_prepend(directory)
    yield directory
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(directory)):
            del sys.modules[name]


def probe(site: Path, distribution: str, source: str, *, name: str = "", version: str = "1.0") -> None:
    """Install a distribution with one entry point for a probe."""
    module = distribution.replace("-", "_")
    points = {CAPACITY.group: {name or distribution: module}}
    install(site, distribution, version=version, modules={f"{module}.py": source}, entry_points=points)


def settings(**environ: str) -> Config:
    return load("/nowhere", queue_dir="", environ=environ, hostname="here")


def plugins(**environ: str) -> Plugins:
    return Plugins(settings(**environ))


def refused(call: Callable[[], object]) -> FleetError:
    with pytest.raises(FleetError) as caught:
        call()
    return caught.value


def test_a_built_in_is_found_by_importing_its_module_alone_and_no_package_metadata() -> None:
    code = (
        "import sys\n"
        "from agent_fleet.config import Config\n"
        "from agent_fleet.plugins import CAPACITY, Plugins\n"
        "print(Plugins(Config('/', '')).get(CAPACITY, 'procfs').name)\n"
        "print(sorted(name for name in sys.modules if 'metadata' in name or name == 'agent_fleet_capacity.macos'))\n"
    )
    assert child("-c", code).stdout.splitlines() == ["procfs", "[]"]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_built_in_module_offers_a_whole_thing_under_its_own_name(family: object) -> None:
    chosen = next(each for each in FAMILIES if each is family)
    found = Plugins(settings(), third_party=False)
    offers = found.all(chosen)
    assert found.broken == []
    assert {offer.name for offer in offers} >= set(found.names(chosen))
    assert [offer.name for offer in offers] == sorted(offer.name for offer in offers)
    assert all(offer.origin.builtin and offer.origin.distribution == "agent-fleet" for offer in offers)


def test_a_third_party_is_found_by_name_and_named_with_its_version(site: Path) -> None:
    probe(site, "agent-fleet-slurm", GOOD.format(name="slurm"), name="slurm", version="2.3")
    found = plugins()
    assert found.get(CAPACITY, "slurm").name == "slurm"
    assert str(found.offer(CAPACITY, "slurm").origin) == "capacity.slurm from agent-fleet-slurm 2.3"
    assert found.broken == []
    assert {"slurm", "procfs"} <= {offer.name for offer in found.all(CAPACITY)}
    assert "slurm" in found.names(CAPACITY)


def test_only_the_entry_point_of_that_name_is_imported(site: Path) -> None:
    probe(site, "fleet-wanted", GOOD.format(name="wanted"), name="wanted")
    probe(site, "fleet-other", "raise RuntimeError('must not be imported')")
    found = plugins()
    assert found.get(CAPACITY, "wanted").name == "wanted"
    assert found.broken == []
    assert "fleet_other" not in sys.modules


def test_a_thing_is_found_under_its_own_name_whatever_its_entry_point_is_called(site: Path) -> None:
    probe(site, "fleet-several", GOOD.format(name="inner"), name="outer")
    assert plugins().get(CAPACITY, "inner").name == "inner"


def test_one_module_may_serve_two_families(site: Path) -> None:
    source = GOOD.format(name="both") + (
        "\n    class Rule:\n        name = 'both'\n"
        "        def ceiling(self, board): ...\n        def hold(self, task, board): ...\n"
        "\n    @hookimpl\n    def fleet_policies(config):\n        return [Rule()]\n"
    )
    points = {CAPACITY.group: {"both": "fleet_both"}, POLICIES.group: {"both": "fleet_both"}}
    install(site, "fleet-both", modules={"fleet_both.py": source}, entry_points=points)
    found = plugins()
    assert found.get(CAPACITY, "both").name == found.get(POLICIES, "both").name == "both"
    assert found.broken == []


BROKEN = {
    "raises at import": ("import nosuchmodule", "ModuleNotFoundError: No module named 'nosuchmodule'"),
    "leaves at import": ("raise SystemExit(3)", "SystemExit: 3"),
    "does not parse": ("def (", "SyntaxError"),
    "raises with control characters": ("raise ValueError('a\\x1b[31m\\nb')", "ValueError: a?[31m b"),
    "raises an error without text": (
        "class E(Exception):\n    def __str__(self):\n        raise ValueError\nraise E",
        "E",
    ),
    "raises in the hook": ("@hookimpl\ndef fleet_probes():\n    raise RuntimeError('no')", "RuntimeError: no"),
    "raises in the middle": ("@hookimpl\ndef fleet_probes():\n    yield Thing()\n    1 / 0", "ZeroDivisionError"),
    "misspells the hook": ("@hookimpl\ndef fleet_probe():\n    return []", "there is no hook fleet_probe"),
    "asks for an unknown argument": ("@hookimpl\ndef fleet_probes(board):\n    return []", "board"),
    "has no hook": ("def fleet_probes():\n    return []", "it has no fleet_probes marked by hookimpl"),
    "wraps": ("@hookimpl(wrapper=True)\ndef fleet_probes():\n    return (yield)", "is a wrapper"),
    "returns nothing": ("@hookimpl\ndef fleet_probes():\n    pass", "TypeError"),
    "offers text": ("@hookimpl\ndef fleet_probes():\n    return 'text'", "offers a str without a name"),
    "offers without end": (
        "import itertools\n@hookimpl\ndef fleet_probes():\n    return itertools.repeat(Thing())",
        "offers more than 1000 things",
    ),
    "offers a class": ("@hookimpl\ndef fleet_probes():\n    return [Thing]", "offers the class Thing"),
    "offers without a name": (
        "class Nameless(Thing):\n    name = ''\n@hookimpl\ndef fleet_probes():\n    return [Nameless()]",
        "offers a Nameless without a name",
    ),
    "offers a name that nobody can type": (
        "class Odd(Thing):\n    name = 'a b'\n@hookimpl\ndef fleet_probes():\n    return [Odd()]",
        "offers a Odd without a name",
    ),
    "lacks a member": (
        "class Less:\n    name = 'bad'\n    def usable(self): ...\n@hookimpl\ndef fleet_probes():\n    return [Less()]",
        "'bad' has no read, which a Probe must have",
    ),
    "has a member that cannot be called": (
        "class Odd(Thing):\n    read = 3\n@hookimpl\ndef fleet_probes():\n    return [Odd()]",
        "read of 'bad' cannot be called",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_plugin_costs_only_its_own_offers_and_is_named(site: Path, case: str) -> None:
    source, says = BROKEN[case]
    thing = "class Thing:\n    name = 'bad'\n    def usable(self): ...\n    def read(self): ...\n"
    probe(site, "fleet-bad", f"from agent_fleet.api import hookimpl\n{thing}{source}\n", name="bad", version="6.6")
    probe(site, "fleet-good", GOOD.format(name="good"), name="good")
    found = plugins()
    assert {"good", "procfs"} <= {offer.name for offer in found.all(CAPACITY)}
    assert "bad" not in {offer.name for offer in found.all(CAPACITY)}
    assert len(found.broken) == 1
    sentence = str(found.broken[0])
    assert sentence.startswith("capacity.bad from fleet-bad 6.6: ")
    assert says in sentence
    assert sentence.isprintable()
    error = refused(lambda: plugins().get(CAPACITY, "bad"))
    assert (error.code, error.message) == ("plugin_broken", sentence)


def test_one_bad_thing_costs_not_the_others_of_its_plugin(site: Path) -> None:
    source = GOOD.format(name="good") + "\n    @hookimpl\n    def fleet_probes():\n        return [3, Thing('good')]\n"
    probe(site, "fleet-mixed", source, name="good")
    found = plugins()
    assert found.get(CAPACITY, "good").name == "good"
    assert [problem.what for problem in found.broken] == [
        "fleet_probes offers a int without a name of one printable word"
    ]


def test_a_built_in_wins_over_a_third_party_of_its_name_and_the_clash_is_reported(site: Path) -> None:
    probe(site, "fleet-shadow", GOOD.format(name="procfs"), name="procfs")
    found = plugins()
    assert found.offer(CAPACITY, "procfs").origin.builtin
    assert [offer.origin.builtin for offer in found.all(CAPACITY) if offer.name == "procfs"] == [True]
    assert [str(problem) for problem in found.broken] == [
        "capacity.procfs from fleet-shadow 1.0: the name 'procfs' is taken by capacity.procfs from agent-fleet 0.1.0"
    ]


def test_a_name_offered_by_two_distributions_is_nobodys_and_both_are_named(site: Path) -> None:
    probe(site, "fleet-one", GOOD.format(name="same"), name="same")
    probe(site, "fleet-two", GOOD.format(name="same"), name="same")
    found = plugins()
    assert "same" not in {offer.name for offer in found.all(CAPACITY)}
    assert {problem.origin.distribution for problem in found.broken} == {"fleet-one", "fleet-two"}
    error = refused(lambda: plugins().get(CAPACITY, "same"))
    assert error.code == "plugin_broken"
    assert "fleet-one" in error.message
    assert "fleet-two" in error.message


def test_a_misspelt_name_is_answered_with_what_there_is(site: Path) -> None:
    probe(site, "fleet-good", GOOD.format(name="good"), name="good")
    error = refused(lambda: plugins().get(CAPACITY, "nosuch"))
    assert error.code == "unknown_plugin"
    assert error.message == "no capacity plugin 'nosuch'"
    assert error.hint == "there are: cgroup1, cgroup2, good, macos, procfs"


def test_the_key_plugins_limits_which_distributions_are_let_in(site: Path) -> None:
    probe(site, "fleet-one", GOOD.format(name="one"), name="one")
    probe(site, "fleet-two", "raise RuntimeError", name="two")

    def names(found: Plugins) -> set[str]:
        return {offer.name for offer in found.all(CAPACITY)} & {"one", "two"}

    assert names(plugins(FLEET_PLUGINS="off")) == set()
    assert names(plugins(FLEET_PLUGINS="Fleet_One")) == {"one"}
    limited = plugins(FLEET_PLUGINS="fleet-one")
    limited.all(CAPACITY)
    assert limited.broken == []
    assert "fleet_two" not in sys.modules
    assert names(Plugins(settings(), third_party=False)) == set()
    assert names(Plugins(settings(FLEET_PLUGINS="off"), third_party=True)) == {"one"}


def test_an_interrupt_passes_through_a_plugin(site: Path) -> None:
    probe(site, "fleet-interrupted", "raise KeyboardInterrupt", name="interrupted")
    with pytest.raises(KeyboardInterrupt):
        plugins().get(CAPACITY, "interrupted")


def test_a_distribution_with_damaged_metadata_costs_only_its_own(site: Path) -> None:
    probe(site, "fleet-good", GOOD.format(name="good"), name="good")
    damaged = install(site, "fleet-damaged", entry_points={CAPACITY.group: {"x": "y"}})
    (damaged / "entry_points.txt").write_bytes(b"[agent_fleet.capacity]\n\xff\xfe = x\n")
    hollow = install(site, "fleet-hollow", entry_points={CAPACITY.group: {"hollow": "nosuchmodule"}})
    (hollow / "METADATA").unlink()
    found = plugins()
    assert "good" in {offer.name for offer in found.all(CAPACITY)}
    assert len(found.broken) == 2


def test_what_a_hidden_older_copy_of_a_distribution_offers_is_left_out(site: Path, tmp_path: Path) -> None:
    probe(site, "fleet-twice", GOOD.format(name="twice"), name="twice", version="2.0")
    probe(tmp_path / "older", "Fleet.Twice", GOOD.format(name="twice"), name="twice", version="1.0")
    sys.path.append(str(tmp_path / "older"))
    try:
        found = plugins()
        assert found.offer(CAPACITY, "twice").origin.version == "2.0"
        found.all(CAPACITY)
        assert found.broken == []
    finally:
        sys.path.remove(str(tmp_path / "older"))


def test_a_plugin_that_hangs_or_prints_neither_stops_a_command_nor_spoils_its_answer(site: Path) -> None:
    probe(site, "fleet-hangs", "print('loud')\nimport threading\nthreading.Event().wait()\n", name="hangs")
    probe(site, "fleet-good", GOOD.format(name="good"), name="good")
    done = child("-m", "agent_fleet", "plugins", "--json", "--family", "capacity", site=site)
    answer = json.loads(done.stdout)
    assert done.returncode == 1
    assert (answer["ok"], answer["code"]) == (False, "plugin_broken")
    assert [(each["name"], each["why"]) for each in answer["broken"]] == [("hangs", "it took longer than 10 s")]
    assert "good" in {each["name"] for each in answer["plugins"]}
    assert answer["requirements"] == ["fleet-good==1.0"]
    assert "capacity.hangs from fleet-hangs 1.0: it took longer than 10 s" in done.stderr


def test_questions_that_overlap_leave_the_answer_on_standard_output(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    probe(site, "fleet-one", GOOD.format(name="one"), name="one")
    found = plugins()
    offer = found.offer(CAPACITY, "one")
    both, first_is_over = threading.Barrier(2), threading.Event()

    def ask(number: int) -> None:
        both.wait(10)
        print(f"loud {number}")
        assert number == 1 or first_is_over.wait(10)

    askers = [threading.Thread(target=found.ask, args=(offer, lambda _, n=n: ask(n))) for n in (1, 2)]
    for asker in askers:
        asker.start()
    askers[0].join(10)
    print("answered while another question is open")
    first_is_over.set()
    askers[1].join(10)
    print("answered after all")
    told = capsys.readouterr()
    assert told.out == "answered while another question is open\nanswered after all\n"
    assert sorted(told.err.splitlines()) == ["loud 1", "loud 2"]


def test_the_listing_says_why_a_thing_cannot_be_used_even_if_asking_it_fails(site: Path) -> None:
    source = GOOD.format(name="moody").replace("return None", "raise OSError('moody')")
    probe(site, "fleet-moody", source, name="moody")
    answer = json.loads(child("-m", "agent_fleet", "plugins", "--json", site=site).stdout)
    row = next(each for each in answer["plugins"] if each["name"] == "moody")
    assert row["usable"] is False
    assert "OSError: moody" in row["why"]
    assert answer["code"] == "plugin_broken"


def test_a_healthy_installation_lists_every_family_with_status_0(site: Path) -> None:
    done = child("-m", "agent_fleet", "plugins", site=site)
    assert done.returncode == 0, done.stderr
    assert {line.split()[0] for line in done.stdout.splitlines()[1:]} == {family.name for family in FAMILIES}


def test_a_question_to_a_thing_is_contained_but_its_own_fleet_error_passes(site: Path) -> None:
    probe(site, "fleet-good", GOOD.format(name="good"), name="good")
    found = plugins()
    offer = found.offer(CAPACITY, "good")
    assert found.ask(offer, lambda thing: list(thing.read())) == []
    error = refused(lambda: found.ask(offer, lambda thing: 1 / len(thing.name[:0])))
    assert error.code == "plugin_broken"
    assert "capacity.good from fleet-good 1.0: ZeroDivisionError" in error.message
    assert len(found.broken) == 1
    said = FleetError("unusable", "not here", hint="elsewhere")

    def say(thing: object) -> None:
        raise said

    assert refused(lambda: found.ask(offer, say)) is said


def test_a_built_in_that_refuses_its_configuration_says_so_itself(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[agents.claude]\nargv = ['x']\n", encoding="utf-8")
    config = load("/nowhere", queue_dir=str(tmp_path), environ={})
    found = Plugins(config, third_party=False)
    assert refused(lambda: found.get(PROVIDERS, "command")).code == "bad_config"
    assert found.get(PROVIDERS, "claude").name == "claude"
    assert found.get(LANES, "headless").name == "headless"
    assert found.all(CHECKS)
