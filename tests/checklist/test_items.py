"""What the signs and lines of an item mean, and which items are known again."""

from __future__ import annotations

from typing import Any

import pytest

from agent_fleet.checklist.identity import digests
from agent_fleet.checklist.item import entries, marked
from agent_fleet.checklist.outline import outline
from agent_fleet.checklist.promotion import Promotion, promotion
from agent_fleet.errors import FleetError
from agent_fleet.queue.task import Habits, resolve_needs


def read(text: str, standing: dict[str, str] | None = None) -> Promotion:
    known = standing or {}
    return promotion(outline(text.encode()), "TODO.md", known, list(known), Habits())


def bodies(text: str) -> list[dict[str, Any]]:
    return [dict(body) for body in read("# TODO\n" + text).bodies]


def targets(text: str) -> list[str]:
    return [body["target"] for body in read(text).bodies]


def refusal(text: str) -> str:
    with pytest.raises(FleetError) as refused:
        bodies(text)
    assert refused.value.code == "bad_input"
    assert refused.value.hint
    return refused.value.message


@pytest.mark.parametrize(
    ("text", "rest", "priority", "need"),
    [
        ("do", "do", 5, "agent"),
        ("!! do", "do", 1, "agent"),
        ("! do", "do", 2, "agent"),
        ("!!! do", "do", 1, "agent"),
        ("~ do", "do", 8, "agent"),
        ("! ~ do", "do", 2, "agent"),
        ("⇒ ! do", "do", 2, "serial"),
        ("!⇒do", "do", 2, "serial"),
        ("⇉ https://example.com/a", "https://example.com/a", 5, "agent"),
        ("⇉⇒ do", "do", 5, "serial"),
        ("https://example.com/a", "https://example.com/a", 5, "browser"),
        ("!important stays", "!important stays", 5, "agent"),
        ("~/notes are kept", "~/notes are kept", 5, "agent"),
        ("~~old~~ new", "~~old~~ new", 5, "agent"),
        ("-xattr of files", "-xattr of files", 5, "agent"),
        ("do ! ~ ⇒ ? 🔒 -x", "do ! ~ ⇒ ? 🔒 -x", 5, "agent"),
        ("do it!", "do it!", 5, "agent"),
        ("\u00a0!\u00a0do", "do", 2, "agent"),
    ],
)
def test_signs_count_in_front_of_the_text_alone(text: str, rest: str, priority: int, need: str) -> None:
    (body,) = bodies(f"- [ ] {text}\n")
    assert (body["target"], body["priority"], body["need"]) == (rest, priority, need)


@pytest.mark.parametrize(
    "text", ["? which", "?which", "🔒 deploy", "!🔒deploy", "-x later", "! -x later", "🔒\ufe0f deploy", "⇒ ? a"]
)
def test_what_is_for_a_person_is_left_and_said(text: str) -> None:
    found = read(f"# TODO\n- [ ] {text}\n- [ ] other\n")
    assert [body["target"] for body in found.bodies] == ["other"]
    ((entry, why),) = found.left
    assert entry.line == 2
    assert why


def test_an_item_that_was_marked_after_it_was_added_is_named_with_its_task() -> None:
    (old,) = marks("- [ ] a\n")
    ((_, why),) = read("- [ ] 🔒 a\n", {old: "t7"}).left
    assert "t7" in why


def test_signs_alone_are_no_task() -> None:
    assert targets("# TODO\n- [ ] !!\n- [ ] 🔒\n- [ ]\n- [ ] \n") == []


def test_the_lines_inside_are_fields_and_notes() -> None:
    (body,) = bodies(
        "- [ ] do\n"
        "  First why.\n"
        "  - **Touches:** `src/a`, src/b/\n"
        "  * touches: docs\n"
        "\tDone-When: `make check && make test`\n"
        "  ```\n  check: not this\n  ```\n"
        "  - [ ] a step\n"
        "    - [x] deeper\n\n"
        "  last: line\n"
    )
    assert body["touches"] == ["src/a", "src/b", "docs"]
    assert body["check"] == "make check && make test"
    assert body["notes"] == "First why.\n```\ncheck: not this\n```\n- [ ] a step\n  - [x] deeper\n\nlast: line"
    assert body["trust"] == "person"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [True, False])
def test_line_ends_and_a_byte_order_mark_are_no_part_of_a_text(end: str, *, last: bool) -> None:
    text = end.join(["\ufeff- [ ] one", "  touches: a", "- [ ] two"]) + (end if last else "")
    found = read(text)
    assert [(body["target"], body["touches"]) for body in found.bodies] == [("one", ["a"]), ("two", [])]


@pytest.mark.parametrize(
    ("inside", "what"),
    [
        ("check: a\n  check: b", "one check"),
        ("check: a\n  done-when: b", "one check"),
        ("touches:", "says nothing"),
        ("touches: ../out", "outside"),
        ("ref: a\n  ref: b", "one ref"),
        ("needs: nothing known", "no item and no task"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(inside: str, what: str) -> None:
    message = refusal(f"- [ ] other\n- [ ] do\n  {inside}\n")
    assert what in message
    assert any(f"line {number}" in message for number in (3, 4, 5))


def test_two_items_with_one_ref_are_refused() -> None:
    assert "twice" in refusal("- [ ] a\n  ref: x\n- [ ] b\n  ref: x\n")


# ------------------------------------------------------------------------------------------------------- sections


@pytest.mark.parametrize(
    "heading",
    [
        "# now",
        "###### READY",
        "## ToDo:",
        "## 🔥 NOW 🔥",
        "## **Ready** ##",
        "Ready\n=====",
        "## To-Do",
        "## to do",
        "  ## READY",
    ],
)
def test_a_section_is_known_by_its_word(heading: str) -> None:
    assert targets(f"# Mine\n- [ ] no\n\ntext\n\n{heading}\n\n- [ ] yes\n\n# End\n- [ ] no\n") == ["yes"]


@pytest.mark.parametrize(
    "heading", ["## Not now", "## READY 2", "## Todo list", "## Nowhere", "##READY", "    ## READY", "- ## READY"]
)
def test_another_word_is_another_section(heading: str) -> None:
    assert targets(f"# Mine\n\n## Second\n\n{heading}\n\n- [ ] no\n") == []


def test_a_deeper_section_belongs_to_the_one_above_but_not_to_a_title() -> None:
    assert targets("## READY\n### Backend\n- [ ] a\n#### More\n- [ ] b\n## Ideas\n- [ ] no\n") == ["a", "b"]
    assert targets("# TODO\n- [ ] a\n## Ideas\n- [ ] no\n") == ["a"]


def test_a_note_without_sections_is_taken_whole_but_for_its_log() -> None:
    assert targets("- [ ] a\n") == ["a"]
    assert targets("# My list\n- [ ] a\n\n## Log\n\n- [ ] no\n") == ["a"]
    assert targets("- [ ] no\n\n# My list\n- [ ] no\n") == []


def test_open_items_elsewhere_are_counted_by_section() -> None:
    assert read("- [ ] x\n## Ideas\n- [ ] a\n- [ ] b\n- [x] c\n## READY\n- [ ] d\n").elsewhere == {"": 1, "Ideas": 2}


def test_settings_for_other_programs_at_the_top_are_no_heading() -> None:
    assert targets("---\ntitle: x\n- [ ] no\n---\n- [ ] yes\n") == ["yes"]


# -------------------------------------------------------------------------------------------------------- identity


def marks(text: str) -> list[str]:
    return digests(entries(outline(text.encode())))


def test_an_item_is_known_by_its_text_and_its_place_among_equals() -> None:
    assert marks("- [ ] ! e\u0301  a") == marks("- [x] \u00e9\u00a0a\n  new step")
    first, second = marks("- [ ] a\n- [ ] a\n")
    assert first != second
    assert marks("- [x] b\n- [x] a\n* [ ] a\n") == [*marks("- [ ] b"), first, second]
    assert marks("- [ ] a") != marks("- [ ] A")


def test_an_edited_item_is_new_and_the_old_one_is_gone() -> None:
    (old,) = marks("- [ ] port 8080\n")
    found = read("- [ ] port 8081\n", {old: "t1"})
    assert [body["target"] for body in found.bodies] == ["port 8081"]
    assert list(found.gone) == [old]


@pytest.mark.parametrize(
    ("text", "rest"), [("! ! a", "a"), ("!" * 500 + " a", "a"), ("! " * 500 + "a", None), ("", "")]
)
def test_signs_without_end(text: str, rest: str | None) -> None:
    found = marked(text)[1]
    assert found == rest if rest is not None else found.endswith("a")


# ----------------------------------------------------------------------------------------------------------- needs


def resolved(text: str, standing: dict[str, str] | None = None) -> list[tuple[str, list[str]]]:
    made = [dict(body) for body in read("# TODO\n" + text, standing).bodies]
    resolve_needs(made, [f"t{at}" for at in range(11, 11 + len(made))], lambda task: task == "t1")
    return [(body["target"], body["needs"]) for body in made]


def test_needs_name_items_by_text_by_ref_and_tasks_by_id() -> None:
    text = "- [ ] ! write, then read\n- [ ] b\n  ref: bee\n- [ ] c\n  needs: write, then read\n  needs: `bee`, t1\n"
    assert resolved(text)[2] == ("c", ["t11", "t12", "t1"])


def test_needs_of_an_item_that_is_ticked_are_met_and_of_one_in_the_queue_are_its_id() -> None:
    (old,) = marks("- [ ] a\n")
    assert resolved("- [x] z\n  ref: zed\n- [ ] a\n- [ ] b\n  needs: zed, a\n", {old: "t1"}) == [("b", ["t1"])]


def test_what_needs_an_item_that_stays_with_the_person_stays_too() -> None:
    found = read(
        "# TODO\n- [ ] ? a\n- [ ] b\n  needs: a\n- [ ] c\n  needs: b\n- [ ] d\n\n# Ideas\n- [ ] e\n\n# NOW\n- [ ] f\n  needs: e\n"
    )
    assert [body["target"] for body in found.bodies] == ["d"]
    assert [(entry.text, "line 2" in why or "line 10" in why) for entry, why in found.left[1:]] == [
        ("b", True),
        ("c", True),
        ("f", True),
    ]


def test_needs_of_a_text_that_two_items_have_are_refused() -> None:
    assert "2 items" in refusal("- [ ] a\n- [ ] a\n- [ ] b\n  needs: a\n")
