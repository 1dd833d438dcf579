"""Scripts made at random from `grammar.toml`: programs, options, quoting, substitutions, redirections, nested."""

import tomllib

import msgspec
from hypothesis import strategies as st

from safety.corpus.loading import HERE

PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=/."


class Grammar(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What scripts are made of; the file says what each list is."""

    markers: tuple[str, ...]
    files: tuple[str, ...]
    prefixes: tuple[str, ...]
    suffixes: tuple[str, ...]
    arguments: tuple[str, ...]
    joins: tuple[str, ...]
    shapes: tuple[str, ...]
    git: tuple[str, ...]
    programs: dict[str, tuple[str, ...]]


GRAMMAR = msgspec.convert(tomllib.loads((HERE / "grammar.toml").read_text(encoding="utf-8")), Grammar)


@st.composite
def _spelled(draw: st.DrawFn, word: str) -> str:
    """A plain word in one of its many spellings; anything else as it is."""
    if not word or word.strip(PLAIN) or draw(st.integers(0, 2)):
        return word
    cut = draw(st.integers(0, len(word)))
    head, tail = word[:cut], word[cut:]
    in_hex = "".join(f"\\x{ord(letter):02x}" for letter in word)
    forms = (
        *(f'{head}""{tail}', f"'{word}'", f'"{word}"', f"\\{word}", f"$'{word}'", f"$'{in_hex}'"),
        *(f"{head}\\\n{tail}", f"{head}$(){tail}", f"{head}$x{tail}", f"{{{word},}}"),
    )
    return draw(st.sampled_from(forms))


@st.composite
def _seldom(draw: st.DrawFn, among: tuple[str, ...], before: str = "") -> str:
    return before + draw(st.sampled_from(among)) if draw(st.integers(0, 4)) == 0 else ""


@st.composite
def _command(draw: st.DrawFn) -> str:
    """One program with options, operands, perhaps a computed argument and a redirection."""
    choice = draw(st.integers(0, 11))
    if choice == 0:
        words = draw(st.sampled_from(GRAMMAR.markers))
    elif choice <= 3:
        words = f"git {draw(st.sampled_from(GRAMMAR.git))}"
    else:
        program = draw(st.sampled_from(sorted(GRAMMAR.programs)))
        options = draw(st.lists(st.sampled_from(GRAMMAR.programs[program]), min_size=1, max_size=2))
        files = draw(st.lists(st.sampled_from(GRAMMAR.files), max_size=1))
        spelled = [draw(_spelled(word)) for word in (program, *options)]
        words = " ".join((*spelled, *files))
    argument = draw(_seldom(GRAMMAR.arguments, " "))
    return draw(_seldom(GRAMMAR.prefixes)) + words + argument + draw(_seldom(GRAMMAR.suffixes))


@st.composite
def _shaped(draw: st.DrawFn) -> str:
    """Two commands and an argument in one of the shapes a script can have."""
    shape = draw(st.sampled_from(GRAMMAR.shapes))
    return shape.format(draw(_command()), draw(_command()), draw(st.sampled_from(GRAMMAR.arguments)))


@st.composite
def scripts(draw: st.DrawFn) -> str:
    """One or two pieces, plain or shaped, joined. `@PORT@` is left for whoever has one that listens."""
    script = draw(st.one_of(_command(), _command(), _shaped()))
    if draw(st.integers(0, 2)) == 0:
        script += draw(st.sampled_from(GRAMMAR.joins)) + draw(_command())
    return script.replace("MARK", draw(st.sampled_from(GRAMMAR.markers)))


WORDS = ("aa", "bb", "cc", "'dd'", '"ee"', "f\\f", "$x", "*", "~", "{aa,bb}", "2", "é", "-", "=")
GLUE = (
    *(
        " ",
        " ",
        " ",
        " ",
        "\t",
        "\n",
        "\n",
        ";",
        " ; ",
        "&&",
        "||",
        "|",
        " | ",
        "&",
        "\\\n",
        "\\\n",
        " \\\n ",
        "#",
        " # ",
    ),
    *("", "", "=", "+=", "[0]=", ">", "<", " >", "2>&1", "<<<", "!", " ! "),
)
AROUND = (
    *(
        "{}",
        "{}",
        "{}",
        "$({})",
        '"$({})"',
        "`{}`",
        "({})",
        "{{ {}; }}",
        '"{}"',
        "'{}'",
        "$'{}'",
        "${{x:-{}}}",
    ),
    *(
        "aa <<EOF\n{}\nEOF\n",
        "aa <<EOF\n{}\nEOF\nbb",
        "aa <<'EOF'\n{}\nEOF\nbb",
        "aa <<-EOF\n\t{}\n\tEOF\nbb",
    ),
    *(
        "aa <<EOF\nEO\\\nF\n{}\nEOF",
        "aa <<EOF\nx\\\nEOF\n{}\nEOF",
        "if aa; then {}; fi",
        "case aa in bb) {};; esac",
    ),
    *(
        "[[ -n {} ]]",
        "aa # {}\n",
        "a=({})",
        "for i in {}; do bb; done",
        "aa <({})",
        '"${{x:-{}}}"',
        "a[0]={}",
        "é={}",
    ),
)


@st.composite
def soups(draw: st.DrawFn) -> str:
    """Words no program has, glued together in odd ways: what matters is where each command begins and ends."""
    text = ""
    for _ in range(draw(st.integers(1, 4))):
        pieces = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4))
        glued = "".join(piece + draw(st.sampled_from(GLUE)) for piece in pieces)
        text += draw(st.sampled_from(AROUND)).format(glued) + draw(st.sampled_from(GLUE))
    return text


ASSIGNING = (
    *(
        "x=1",
        "x=aa",
        "x='a b'",
        "x=",
        "x+=c",
        "y=$x",
        'y="$x z"',
        "y=x",
        "x=$(printf bb)",
        "x=*",
        "x='*'",
        "x=~",
        "x=bb cc",
    ),
    *(
        "export x=dd",
        "export x",
        "unset x",
        "read x <<< ee",
        "readonly y",
        "declare x=2",
        "declare -n x=y",
        "x=(p q)",
    ),
    *(
        "x[0]=z",
        "IFS=a",
        "printf -v x kk",
        "let x=3",
        "(( x=4 ))",
        ": ${x:=5}",
        "[[ x=6 -eq 6 ]]",
        "f() { x=9; }",
        "f",
    ),
    *(
        "eval x=7",
        "command read x <<< q",
        "read $y <<< r",
        "trap 'x=T' DEBUG",
        "set -- m n",
        "mapfile x <<< l",
    ),
    *(
        ": $((x=3))",
        "getopts a x -a",
        "shopt -s lastpipe",
        "true",
        "false",
        "x=${y:-d}",
        "x=a; x=b",
        "set -f",
        "x='a\\b'",
    ),
)
USING = (
    *(
        "aa $x",
        'aa "$x"',
        "$x b",
        'aa "$x$y"',
        "aa ${x} ${y:-d}",
        "aa -$x.",
        "aa ${x-q}",
        "aa $x $y",
        "aa '$x' \\$x",
    ),
    *(
        "aa $x$y",
        'aa "${x:-}" $y',
        "for x in $x; do aa $x; done",
        'for y in "$x"; do aa $y; done',
        "x=$x$x; aa $x",
    ),
)
FLOWS = (
    *(
        "{0}; {1}",
        "{0}; {1}; {2}",
        "{0} && {1}",
        "{0} || {1}; {2}",
        "({0}); {1}",
        "{{ {0}; }}; {1}",
        "{0} | {1}; {2}",
    ),
    *(
        "{0} & {1}",
        "if {0}; then {1}; else {2}; fi",
        "if {0}; then {1}; fi; {2}",
        "for x in p q; do {0}; {1}; done; {2}",
    ),
    *(
        "while {0}; do {1}; break; {2}; done; {1}",
        "case a in a) {0};; b) {1};; esac; {2}",
        "z=$({0}; {1}); {2}",
    ),
    *(
        "for i in 1 2; do {0}; if true; then {1}; continue; fi; {2}; done",
        "{{ {0}; }} > /no/where/x; {1}; {2}",
    ),
    *(
        "for i in 1 2; do for x in a $i; do {0}; {1}; done; {2}; done",
        "f() {{ {0}; }}; {1}; f; {2}",
        "! {0}; {1}",
    ),
    *(
        "for i in 1 2; do {1}; {0}; done",
        "until {0}; do {1}; break; done; {2}",
        "{0} <<E\nx\nE\n{1}",
        "{0} & {1} & {2}",
    ),
)


@st.composite
def assignments(draw: st.DrawFn, depth: int = 2) -> str:
    """Variables set and used in every order a script can have; no program in it exists."""

    def piece() -> str:
        choice = draw(st.integers(0, 5))
        if depth and choice == 0:
            return draw(assignments(depth - 1))
        return draw(st.sampled_from(USING if choice > 3 else ASSIGNING))

    return draw(st.sampled_from(FLOWS)).format(piece(), piece(), draw(st.sampled_from(USING)))
