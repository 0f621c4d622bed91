"""Declared paths: the answer "they cannot overlap" is never wrong."""

from __future__ import annotations

import fnmatch
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fleet.queue import touches

NAMES = ("a", "b", "ab", "ba")
UNIVERSE = [parts for depth in (1, 2, 3) for parts in itertools.product(NAMES, repeat=depth)]

parts = st.text("ab*?[]!", min_size=1, max_size=4) | st.just("**") | st.sampled_from(NAMES)
patterns = st.lists(parts, min_size=1, max_size=3).map("/".join)


def matches(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Whether a pattern names this path or a directory above it, written down a second time."""
    if not pattern:
        return True
    if pattern[0] == "**":
        return any(matches(pattern[1:], path[start:]) for start in range(len(path) + 1))
    return bool(path) and fnmatch.fnmatchcase(path[0], pattern[0]) and matches(pattern[1:], path[1:])


def claims(pattern: str) -> set[tuple[str, ...]]:
    """Every path of the universe that a task touches which declares this pattern."""
    return {path for path in UNIVERSE if matches(tuple(pattern.split("/")), path)}


@settings(max_examples=600, deadline=None)
@given(patterns, patterns)
def test_two_patterns_that_can_meet_in_a_path_overlap(first: str, second: str) -> None:
    if claims(first) & claims(second):
        assert touches.overlap([touches.normal(first)], [touches.normal(second)])


@given(st.lists(patterns, max_size=4), st.lists(patterns, max_size=4))
def test_overlap_is_the_same_from_both_sides(first: list[str], second: list[str]) -> None:
    assert touches.overlap(first, second) == touches.overlap(second, first)


@given(patterns)
def test_everything_overlaps_with_everything(pattern: str) -> None:
    assert touches.overlap([touches.EVERYTHING], [pattern])
    assert touches.overlap([pattern], [pattern])


@given(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=3), st.lists(st.sampled_from(NAMES), min_size=1, max_size=3)
)
def test_plain_paths_overlap_exactly_where_one_holds_the_other(first: list[str], second: list[str]) -> None:
    shorter = min(len(first), len(second))
    assert touches.overlap(["/".join(first)], ["/".join(second)]) == (first[:shorter] == second[:shorter])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("src", "src/main.py"),
        ("SRC/Main.py", "src/main.py"),
        ("caf\u00e9", "cafe\u0301"),
        ("stra\u00dfe", "STRASSE"),
        ("stra?e", "stra\u00dfe"),
        ("app/[id]/page", "app/?id?/page"),
        ("app/[id]/page", "app/[id]/page"),
        ("a\\*b", "a*b"),
        ("src/{a,b}.py", "src/a.py"),
        ("{src/a,lib}", "src/a"),
        ("src/+(a|b)", "src/ab"),
        ("/home/me/project/src", "src"),
        ("**/x.py", "a/b/x.py"),
        ("a/**/c", "a/c"),
        ("./a//b/", "a/b"),
        ("a/x/../b", "a/b"),
    ],
)
def test_spellings_of_one_path_overlap(first: str, second: str) -> None:
    assert touches.overlap([touches.normal(first)], [touches.normal(second)])


@pytest.mark.parametrize(
    ("first", "second"),
    [("src", "srcs"), ("a/*.py", "a/x.txt"), ("a/*", "b/*"), ("a/**/c", "b/c"), ("/etc", "/usr"), ("a[0-9]", "b1")],
)
def test_paths_that_cannot_meet_do_not_overlap(first: str, second: str) -> None:
    assert not touches.overlap([touches.normal(first)], [touches.normal(second)])


@pytest.mark.parametrize("path", ["..", "a/../..", "../x", "a/**/../b", "{a,b/c}/../d"])
def test_a_path_that_may_leave_the_project_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="outside"):
        touches.normal(path)


@given(st.text(max_size=30))
def test_a_normal_path_stays_as_it_is(path: str) -> None:
    try:
        once = touches.normal(path)
    except ValueError:
        return
    assert touches.normal(once) == once
    assert touches.overlap([once], [once])


@pytest.mark.parametrize(
    "path", ["/etc", "/", "/home/me", "/home/me/projects", "/home/me/project/../other", "~", "~/.ssh", "../x"]
)
def test_a_path_outside_the_project_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="outside the project"):
        touches.inside(path, ["/home/me/project", "/real/project/"])


@pytest.mark.parametrize(
    ("path", "known_as"),
    [
        ("/home/me/project/src/./a", "src/a"),
        ("/real/project//*.py", "*.py"),
        ("/home/me/project", touches.EVERYTHING),
        ("/home/me/project/", touches.EVERYTHING),
        ("src/~", "src/~"),
        ("./~/x", "~/x"),
        ("etc", "etc"),
    ],
)
def test_a_path_of_the_project_is_kept_relative_to_its_root(path: str, known_as: str) -> None:
    assert touches.inside(path, ["/home/me/project", "/real/project/"]) == known_as
