"""Generated notes: Markdown in which it is known what is an item of a section that is taken, and what only looks like one."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

SURE = "word tail 7"
WORDS = st.sampled_from(
    (
        "fix",
        "the",
        "login",
        "🙂",
        "שלום",
        "مرحبا",
        "a\u00a0b",
        "!",
        "~",
        "⇒",
        "🔒",
        "?",
        "-x",
        "`code`",
        "**b**",
        "e\u0301",
        "<!--",
        "|",
        "\\",
    )
)
TEXTS = st.lists(WORDS, max_size=5).map(lambda words: " ".join(["do", *words]))
BULLETS = st.sampled_from(("- ", "* ", "+ ", "1. ", "23) ", "-\t"))
# what may stand inside an item; none of it is an item of its own, and none is a field
INSIDE = st.sampled_from(
    (
        "  more words",
        "  - [ ] a step",
        "\t- [x] a step",
        "",
        "      - [ ] deep",
        "   * plain",
        "  > quoted",
        "  | a | b |",
    )
)
NOISE = st.sampled_from(
    (
        "a paragraph",
        "> - [ ] quoted",
        "```\n- [ ] code\n```",
        "~~~~ sh\n- [ ] code\n~~~\n~~~~",
        "<!-- - [ ] hidden -->",
        "<!--\n- [ ] hidden\n\n- [ ] hidden too\n-->",
        "    - [ ] indented code",
        "- a plain bullet\n  - [ ] below it",
        "- [-] given up",
        "- [] no box",
        "- [ ]no blank",
        "-\u00a0[ ] no list",
        "-[ ] no list",
        "- [ ]",
        "text - [ ] in a line",
        "| - [ ] | cell |",
        "***",
        "\\- [ ] escaped",
    )
)
TAKEN = st.sampled_from(("## READY", "### now:", "# TODO ✅", "## 🔥 **Now** ##", "Todo\n----", "###### To-do"))
OTHERS = st.sampled_from(("# Ideas", "# Ready when you are", "Inbox\n=====", "# Log book", "# nowhere", "#"))
ENDS = st.sampled_from(("\n", "\r\n", "\r"))


class Note(NamedTuple):
    """A note, and the texts behind the boxes of its open and its ticked items in sections that are taken."""

    data: bytes
    open: tuple[str, ...]
    ticked: tuple[str, ...]


@st.composite
def items(draw: st.DrawFn) -> tuple[str, str, bool]:
    """The lines of one item, its text, and whether it is open."""
    text = draw(TEXTS)
    is_open = draw(st.booleans())
    box = draw(st.sampled_from((" ", "\u00a0"))) if is_open else draw(st.sampled_from("xX"))
    first = f"{draw(BULLETS)}[{box}] {text}{draw(st.sampled_from(('', ' ', chr(9))))}"
    inside = draw(st.lists(INSIDE, max_size=3))
    return "\n".join([first, *inside]), text, is_open


@st.composite
def notes(draw: st.DrawFn) -> Note:
    """Sections that are taken and sections that are not, every kind of line in them, in every encoding of line ends."""
    blocks: list[str] = []
    opened: list[str] = []
    ticked: list[str] = []
    for _ in range(draw(st.integers(1, 4))):
        is_taken = draw(st.booleans())
        blocks.append(draw(TAKEN if is_taken else OTHERS))
        for _ in range(draw(st.integers(0, 4))):
            if draw(st.booleans()):
                blocks.append(draw(NOISE))
                continue
            lines, text, is_open = draw(items())
            blocks += [lines, "between"]  # a paragraph, so that one block is never inside another
            if is_taken:
                (opened if is_open else ticked).append(text)
    whole = ("\n" + draw(st.sampled_from(("", "\n")))).join(
        f"{block}\n" for block in ["# A title", "# Another", *blocks]
    )
    whole = whole.replace("\n", draw(ENDS))
    if draw(st.booleans()):
        whole = whole.rstrip("\r\n")
    noise = draw(st.sampled_from((b"", b"\xff\xfe bad bytes \xc3 ", b"plain ")))
    mark = draw(st.sampled_from((b"", b"\xef\xbb\xbf")))
    return Note(mark + noise + (b"\n\n" if noise else b"") + whole.encode(), tuple(opened), tuple(ticked))


def lines_of_anything() -> st.SearchStrategy[bytes]:
    """Bytes in which everything may be inside everything, open or closed."""
    parts = st.one_of(
        st.sampled_from(
            (
                b"- [ ] a",
                b"- [x] a",
                b"- [ ] b",
                b"  ",
                b"\t",
                b"# ",
                b"READY",
                b"Log",
                b"\n",
                b"\r\n",
                b"\r",
                b"\n\n",
                b"```",
                b"~~~",
            )
        ),
        st.sampled_from(
            (
                b"<!--",
                b"-->",
                b"> ",
                b"---",
                b"===",
                b"1. ",
                b"- ",
                b"[ ]",
                b"\xc2\xa0",
                b"\xff",
                b"\x00",
                b"\xe2\x80\xa8",
            )
        ),
        st.binary(max_size=3),
    )
    return st.lists(parts, max_size=30).map(b"".join)
