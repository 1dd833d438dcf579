"""Highlight code.

Only languages people often read are told apart, and only texts and lines of ordinary length: what a model wrote must
not keep a screen busy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from bridle.base.text.markdown import Style

TokenStyle: TypeAlias = Literal["keyword", "string", "comment", "number", "name"]
MAX_CHARACTERS: Final = 40_000
MAX_LINE_CHARACTERS: Final = 400

CodePiece: TypeAlias = "tuple[str, TokenStyle | None]"

_LANGUAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "bash": ("sh", "bash", "zsh", "shell"),
    "c": ("c", "h"),
    "cpp": ("cpp", "c++", "cc", "hpp"),
    "csharp": ("cs", "csharp", "c#"),
    "css": ("css",),
    "docker": ("dockerfile", "docker"),
    "go": ("go",),
    "html": ("html", "htm"),
    "ini": ("ini", "cfg"),
    "java": ("java",),
    "javascript": ("js", "javascript", "jsx", "mjs", "cjs"),
    "json": ("json", "jsonc"),
    "kotlin": ("kt", "kotlin"),
    "lua": ("lua",),
    "make": ("makefile", "make", "mk"),
    "php": ("php",),
    "python": ("py", "python", "pyi", "python3"),
    "ruby": ("rb", "ruby"),
    "rust": ("rs", "rust"),
    "sql": ("sql",),
    "swift": ("swift",),
    "toml": ("toml",),
    "typescript": ("ts", "typescript", "tsx"),
    "yaml": ("yaml", "yml"),
}
_NAMES: Final = {name: language for language, names in _LANGUAGES.items() for name in names}


def language_of(path: str) -> str:
    """The language of a file, by its name; empty where nobody can tell."""
    name = path.rpartition("/")[2].lower()
    return _NAMES.get(name) or _NAMES.get(name.rpartition(".")[2] if "." in name else "", "")


def coloured_lines(code: str, language: str) -> list[list[CodePiece]] | None:
    """The lines of a text, as many as it has, each in pieces; None where its language is not told apart."""
    known = _NAMES.get(language.lower())
    if known is None or len(code) > MAX_CHARACTERS or max(map(len, code.split("\n"))) > MAX_LINE_CHARACTERS:
        return None
    lines: list[list[CodePiece]] = [[]]
    for text, style in _pieces(code, known):
        first, *rest = text.split("\n")
        for number, part in enumerate((first, *rest)):
            if number:
                lines.append([])
            if part and lines[-1] and lines[-1][-1][1] == style:
                lines[-1][-1] = (lines[-1][-1][0] + part, style)
            elif part:
                lines[-1].append((part, style))
    wanted = code.count("\n") + 1
    return [*lines, *([] for _ in range(wanted - len(lines)))][:wanted]


def _pieces(code: str, language: str) -> Iterator[CodePiece]:
    lexers: Any = import_module("pygments.lexers")  # tens of milliseconds, for those who see code
    style_of = _styles()
    for _, kind, text in lexers.get_lexer_by_name(language).get_tokens_unprocessed(code):
        known = kind
        while known not in style_of:
            known = known.parent
        yield text, style_of[known]


def _styles() -> dict[Any, TokenStyle | None]:
    from pygments.token import Token

    return {
        Token: None,
        Token.Keyword: "keyword",
        Token.Operator.Word: "keyword",
        Token.Literal.String: "string",
        Token.Literal.Number: "number",
        Token.Comment: "comment",
        Token.Name.Function: "name",
        Token.Name.Class: "name",
        Token.Name.Decorator: "name",
        Token.Name.Tag: "name",
        Token.Name.Attribute: "name",
    }


AnswerStyle: TypeAlias = Style | TokenStyle | Literal["rule"]


class AnswerPiece(NamedTuple):
    """Text of one look that may be sent to a terminal as it is. `address` is what a click on it opens, mostly nothing.

    A row that is broken in this piece goes on below its `margin`.
    """

    text: str
    style: AnswerStyle
    margin: str = ""
    address: str = ""
