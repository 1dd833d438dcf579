"""Markdown as it streams in."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.base.text.markdown import HELD_MAX_CHARS, MarkdownStream, StyledSpan
from tables import table

PIECES = st.sampled_from(
    [
        "*",
        "**",
        "***",
        "_",
        "__",
        "`",
        "``",
        "```",
        "~~~",
        "\\",
        "#",
        "# ",
        "> ",
        "- ",
        "1. ",
        "12",
        " ",
        "    ",
        "a",
        "word",
        "é😀",
        "\n",
        "\n\n",
        "```py\n",
        "\n```\n",
        "x" * 150,
        " " * 150,
        "`" * 11,
        "*" * 5,
        "\t",
        "[",
        "](",
        "](x) ",
        ")",
        "h",
        "http",
        "https://a.b/c",
        "|",
        "| a ",
        "\n|-|\n",
        "|:--|--:|\n",
    ]
)
TEXTS = st.lists(PIECES, max_size=30).map("".join)


def render(*chunks: str) -> list[StyledSpan]:
    stream = MarkdownStream()
    return [span for chunk in chunks for span in stream.render_chunk(chunk)] + stream.flush()


def characters(spans: list[StyledSpan]) -> list[tuple[str, str, str]]:
    """Every character with its style: what a person sees, whatever the chunks were. Blocks stay whole."""
    shown: list[tuple[str, str, str]] = []
    for span in spans:
        if span.style in ("code_block", "table"):
            shown.append((span.text, span.style, span.language))
        else:
            shown += [(char, span.style, span.target) for char in span.text]
    return shown


@pytest.mark.requirement("H16.4")
@given(TEXTS, st.lists(st.integers(0, 10_000), max_size=12))
def test_text_and_styles_do_not_depend_on_the_cuts(text: str, cuts: list[int]):
    edges = [0, *sorted(at % (len(text) + 1) for at in cuts), len(text)]
    chunks = [text[start:end] for start, end in itertools.pairwise(edges)]
    whole = characters(render(text))
    assert characters(render(*chunks)) == whole
    assert characters(render(*text)) == whole


@pytest.mark.requirement("H16.4")
@given(TEXTS)
def test_what_is_shown_was_written_and_in_that_order(text: str):
    written = iter(text)
    assert all(char in written for span in render(text) for char in span.text)


@pytest.mark.requirement("H16.4")
@given(TEXTS.filter(lambda text: "```" not in text and "~~~" not in text))
def test_no_word_and_no_line_end_is_ever_dropped(text: str):
    def kept(text: str) -> str:
        return "".join(char for char in text if char.isalnum() or char == "\n")

    shown = (span.text + (span.target if span.target != span.text else "") for span in render(text))
    assert kept("".join(shown)) == kept(text)


@pytest.mark.requirement("H16.4")
@table(
    ("text", "spans"),
    [
        ("plain", [StyledSpan("plain", "plain")]),
        ("a **b** c", [StyledSpan("a ", "plain"), StyledSpan("b", "bold"), StyledSpan(" c", "plain")]),
        ("*b*", [StyledSpan("b", "italic")]),
        ("_b_ __c__", [StyledSpan("b", "italic"), StyledSpan(" ", "plain"), StyledSpan("c", "bold")]),
        ("***b***", [StyledSpan("b", "bold_italic")]),
        ("**a *b* c**", [StyledSpan("a ", "bold"), StyledSpan("b", "bold_italic"), StyledSpan(" c", "bold")]),
        ("`a*b*`", [StyledSpan("a*b*", "code")]),
        ("[a *b*](x_y_(z))", [StyledSpan("a b", "link", target="x_y_(z)")]),
        ('[a](<x> "t").', [StyledSpan("a", "link", target="x"), StyledSpan(".", "plain")]),
        ("- [ ] a[1] (b)", [StyledSpan("- ", "bullet"), StyledSpan("[ ] a[1] (b)", "plain")]),
        ("[](x) [a] (x)", [StyledSpan("[](x) [a] (x)", "plain")]),
        (
            "(see https://a.b/c_d_e), the",
            [
                StyledSpan("(see ", "plain"),
                StyledSpan("https://a.b/c_d_e", "link", target="https://a.b/c_d_e"),
                StyledSpan("), the", "plain"),
            ],
        ),
        ("xhttp://a the http:// one", [StyledSpan("xhttp://a the http:// one", "plain")]),
        (
            "a\n| b | c |\n|---|--:|\n| 1 | 2 |\nd",
            [
                StyledSpan("a\n", "plain"),
                StyledSpan("| b | c |\n|---|--:|\n| 1 | 2 |\n", "table"),
                StyledSpan("d", "plain"),
            ],
        ),
        ("| b |\n| c |\nd", [StyledSpan("| b |\n| c |\nd", "plain")]),
        ("`` a`b ``", [StyledSpan("a`b", "code")]),
        ("**a `*` b**", [StyledSpan("a ", "bold"), StyledSpan("*", "code"), StyledSpan(" b", "bold")]),
        ("## A *b*\nc", [StyledSpan("A b", "heading"), StyledSpan("\nc", "plain")]),
        (
            "- a\n  * b",
            [
                StyledSpan("- ", "bullet"),
                StyledSpan("a\n  ", "plain"),
                StyledSpan("* ", "bullet"),
                StyledSpan("b", "plain"),
            ],
        ),
        ("10) a", [StyledSpan("10) ", "bullet"), StyledSpan("a", "plain")]),
        ("> a\nb", [StyledSpan("> a", "quote"), StyledSpan("\nb", "plain")]),
        ("```py\nx = 1\n```\nb", [StyledSpan("x = 1\n", "code_block", "py"), StyledSpan("b", "plain")]),
        ("~~~\n```\n~~~", [StyledSpan("```\n", "code_block")]),
        ("````\n```\n````\n", [StyledSpan("```\n", "code_block")]),
        ("  ```sh x\n  a\n    b\n  ```\n", [StyledSpan("a\n  b\n", "code_block", "sh")]),
        ("a ```b``` c", [StyledSpan("a ", "plain"), StyledSpan("b", "code"), StyledSpan(" c", "plain")]),
        ("```b```", [StyledSpan("b", "code")]),
    ],
)
def test_markup_becomes_styles(text: str, spans: list[StyledSpan]):
    assert render(text) == spans


@pytest.mark.requirement("H16.4")
@table(
    "text",
    [
        "*args, **kwargs",
        "2 * 3 * 4",
        "a ** b ** c",
        "snake_case_name",
        "**open\nend**",
        "`open",
        "#no",
        "-no",
        "1.no",
        "####### seven",
        "***",
        "---",
        "* ",
        "a * b",
        "****a****",
        "C:\\dir",
        "\\",
        "**" + "x" * HELD_MAX_CHARS + "**",
        "1234567890. no",
        " " * 500 + "# no",
        " " * HELD_MAX_CHARS + "# no",
        "*****a*",
        "_a_b",
        "__init__py",
    ],
)
def test_what_only_looks_like_markup_is_shown_as_written(text: str):
    spans = render(text)
    assert "".join(span.text for span in spans) == text
    assert {span.style for span in spans} <= {"plain", "bullet"}


def test_a_backslash_keeps_a_marker_as_text():
    assert characters(render(r"\*a\* \`b\`")) == [(char, "plain", "") for char in "*a* `b`"]


@pytest.mark.requirement("H16.4")
def test_inline_styles_come_as_soon_as_they_close_even_with_split_markers():
    stream = MarkdownStream()
    assert stream.render_chunk("so *") == [StyledSpan("so ", "plain")]
    assert stream.render_chunk("*bo") == []
    assert stream.render_chunk("ld*") == []
    assert stream.render_chunk("* on") == [StyledSpan("bold", "bold"), StyledSpan(" on", "plain")]


@pytest.mark.requirement("H16.4")
def test_a_code_block_is_held_until_its_fence_closes_and_then_comes_once():
    stream = MarkdownStream()
    for chunk in ("``", "`p", "y\nx", " = 1\ny", " = 2\n`", "``"):
        assert stream.render_chunk(chunk) == []
    assert stream.render_chunk("\nafter") == [
        StyledSpan("x = 1\ny = 2\n", "code_block", "py"),
        StyledSpan("after", "plain"),
    ]


@pytest.mark.requirement("H16.4")
def test_flush_delivers_an_unclosed_block_and_starts_anew():
    stream = MarkdownStream()
    assert stream.render_chunk("```py\nx = 1") == []
    assert stream.flush() == [StyledSpan("x = 1", "code_block", "py")]
    assert stream.render_chunk("# a\n") == [StyledSpan("a", "heading"), StyledSpan("\n", "plain")]
    assert stream.flush() == []


def test_a_long_line_of_anything_is_read_in_linear_time():
    for start, unit in [("```\n", "abcd"), ("", "*a_b"), ("", "````"), ("", "    "), ("", "*"), ("", "1")]:
        stream = MarkdownStream()
        spans = stream.render_chunk(start)
        for _ in range(2000):
            spans += stream.render_chunk(unit)
        spans += stream.flush()
        assert sum(len(span.text) for span in spans) > 1000
