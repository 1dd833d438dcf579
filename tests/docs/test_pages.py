"""The pages hold together: what they link to is there, what they name exists, and a reader gets to each of them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tables import table

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src/bridle"
PAGES = (ROOT / "README.md", ROOT / "AGENTS.md", *sorted((ROOT / "docs").rglob("*.md")))
_FENCE = re.compile(r"^(```|~~~)")
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_FILE = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.py|docs/[\w/.-]+\.md|AGENTS\.md)`")


def text_lines(page: str) -> Iterator[str]:
    """The lines outside of fenced blocks. Fails where a block is not closed."""
    fenced = False
    for line in page.splitlines():
        if _FENCE.match(line.strip()):
            fenced = not fenced
        elif not fenced:
            yield line
    assert not fenced, "a block of code is not closed"


def anchors(page: str) -> set[str]:
    """What a link can name in a page: its headings, lowered, with bars for spaces."""
    headings = (line.lstrip("#").strip() for line in text_lines(page) if re.match(r"#+ ", line))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page: Path) -> Iterator[str]:
    """What a page links to, or names as a file, and what is not there."""
    for line in text_lines(page.read_text(encoding="utf-8")):
        for target in _LINK.findall(line):
            path, _, anchor = target.partition("#")
            if "://" in target or target.startswith("mailto:"):
                continue
            file = (page.parent / path) if path else page
            if not file.exists():
                yield f"{target} is not there"
            elif anchor and anchor not in anchors(file.read_text(encoding="utf-8")):
                yield f"{target} has no such heading"
        for named in _FILE.findall(line):
            ours = [root for root in (ROOT, SOURCE) if (root / named.split("/")[0]).exists()]
            if ours and not any((root / named).exists() for root in ours):
                yield f"{named} is no file here"


@pytest.mark.requirement("X5")
@table("page", PAGES)
def test_what_a_page_links_to_and_names_is_there(page: Path) -> None:
    assert list(broken(page)) == []


@pytest.mark.requirement("X5")
def test_every_page_is_reached_from_the_first_one() -> None:
    reached, new = set[Path](), {ROOT / "README.md"}
    while new:
        page = new.pop()
        reached.add(page)
        text = page.read_text(encoding="utf-8")
        found = {ROOT / named for named in _FILE.findall(text)} | {
            page.parent / link for link in _LINK.findall(text)
        }
        new |= {one for one in found if one.suffix == ".md" and one.is_file()} - reached
    assert set((ROOT / "docs").glob("*.md")) <= reached


@pytest.mark.requirement("X5")
@table("page", PAGES)
def test_the_rows_of_a_table_have_as_many_cells_as_its_head(page: Path) -> None:
    cells = 0
    for line in text_lines(page.read_text(encoding="utf-8")):
        if not line.startswith("|"):
            cells = 0
            continue
        found = len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", line))) - 1
        cells = cells or found
        assert found == cells, line


def test_a_page_that_points_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One\n[a](gone.md) [b](#two) [c](#one) `engine/gone.py` `engine/turn.py`\n")
    assert list(broken(page)) == [
        "gone.md is not there",
        "#two has no such heading",
        "engine/gone.py is no file here",
    ]
