"""Every option of talking and of a run, one line each: `bridle help options`, and a part of the manual page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bridle._version import __version__

OPTIONS = (
    ("-m, --model P:M", "the model, as provider:model"),
    ("-c, --continue", "go on with the newest session of this folder"),
    ("-r, --resume ID", "go on with that session; at a terminal without ID: pick one"),
    ("--session KEY", "go on with the session of that name, or begin it"),
    ("--fork", "with -c or -r: go on with a copy"),
    ("-n, --name TITLE", "a title"),
    ("-C, --cwd DIR", "work there"),
    ("--add-dir DIR", "also allow this folder; repeat it for more"),
    ("-y, --yes, --auto-approve", "yes to questions; never lifts a deny, a hook or trust"),
    ("--mode MODE", "strict default safe auto yolo plan; also --plan, --yolo"),
    ("--agent NAME", "who you talk with: bridle agents list"),
    ("--agent-mode MODE", "single multi: whether it may send others; also --single-agent, --multi-agent"),
    (
        "--main-max-context-tokens N",
        "how much of a conversation is sent; --main-compact-at SHARE: from where on in short",
    ),
    ("--sub-max-context-tokens N", "the same for agents that are sent; --sub-compact-at SHARE"),
    ("--strict-permissions", "the same as --mode strict"),
    ("--allow RULE, --deny RULE", "rules of this run, such as 'bash(npm test*)'; repeat them"),
    ("--allow-policy-changes", "also change policy files, such as AGENTS.md"),
    ("--allow-unsandboxed", "also let commands leave the sandbox"),
    ("--memory", "notes of earlier sessions, in a run too; --no-memory: none"),
    ("--persistent-grants", "use a yes of other sessions, and keep yours; --no-persistent-grants: neither"),
    ("-s, --sandbox MODE", "auto off read-only workspace-write"),
    ("--network MODE", "inherit filtered deny; with filtered: --allow-host HOST"),
    ("--max-steps N, --max-turns N", "model calls in one turn"),
    ("--max-cost USD", "a request that could cost more than is left is not sent"),
    ("--effort LEVEL", "off low medium high max: how much the model thinks"),
    ("--append-system-prompt TEXT", "your own words for the system text, or @FILE"),
    ("--dry-run", "nothing is changed: the model hears what would have happened"),
    ("--no-transcript", "no transcript file of this session"),
    ("--env-file FILE", "NAME=value lines for the environment"),
    ("--lockfile FILE", "what is trusted here, for a place where nobody can be asked"),
    ("--require-trust", "refuse to begin while something of the project waits for trust"),
    ("--allow-project-hooks", "hooks of the project count, once you trust their files"),
    ("--on-orphan WHAT", "after a crash: ask, fail or mark-unknown"),
    ("--config FILE, --profile NAME", "a settings file on top of the others; a profile"),
    ("--set KEY=VALUE", "one setting; repeat it for more"),
    ("--verbose", "every step in the operational log; also --log-level LEVELS, --log-to-stderr"),
    ("--no-attach", "run in this process, also where an engine listens (bridle help attach)"),
    ("--plain, --no-color", "text that only grows, raw Markdown; without colours"),
    ("-h, --help", "the page of the command"),
)
RUN_OPTIONS = (
    ("--prompt-file FILE", "the prompt; words beside it come behind it"),
    ("-i, --image FILE", "an image; repeat it for more"),
    ("-o, --output FILE", "write the answer to a file too"),
    ("--output-schema FILE", "the answer is JSON that fits this schema; if not, it is asked for once more"),
    ("--goal", "work on until --check COMMAND ends with 0, or the answer fits --output-schema"),
    ("--check COMMAND", "with --goal: your command that tells whether it is reached"),
    (
        "--check-agent NAME",
        "with --goal and agent_mode = multi: an agent that only reads, and says whether it is",
    ),
    ("--rounds N", "with --goal: how often the check may fail, 10 unless goal.rounds says otherwise"),
    ("--json", "one object at the end"),
    ("--stream-json", "one line per event, run.result last"),
    ("--output-format FORM", "text json stream-json hub"),
    ("--stream", "print what is said as it comes, as at a terminal; --no-stream: the answer at its end"),
    ("-q, --quiet", "only the answer, or why there is none"),
    ("--timeout S", "end with exit code 124 after so many seconds"),
    ("--on-ask WHAT", "ask nobody here: deny, fail, or wait for one who attaches"),
)
"""What only a run takes."""


def option_page() -> str:
    """All of them as text."""
    lines = ["Options of bridle and bridle run", "", *_lines(OPTIONS), "", "Only of bridle run", ""]
    return "\n".join([*lines, *_lines(RUN_OPTIONS)]) + "\n"


def _lines(options: tuple[tuple[str, str], ...]) -> list[str]:
    return [f"  {spelling:<29} {does}" for spelling, does in options]


def man_page(pages: Mapping[str, str]) -> str:
    """A page for `man`, from the help pages by name; the overview has the empty name."""
    overview, *rest = pages[""].splitlines()
    name, _, does = overview.partition(" — ")
    lines = [
        f'.TH BRIDLE 1 "" "Bridle {__version__}" ""',
        ".SH NAME",
        f"{_escaped(name)} \\- {_escaped(does)}",
        ".SH SYNOPSIS",
        *_as_it_stands(rest),
        ".SH OPTIONS",
        *_listed(OPTIONS),
        ".SH OPTIONS OF A RUN",
        *_listed(RUN_OPTIONS),
    ]
    seen = {pages[""]}
    for topic, text in pages.items():
        if text not in seen:
            seen.add(text)
            lines += [f".SH {_escaped(topic.upper())}", *_as_it_stands(text.splitlines())]
    return "\n".join(lines) + "\n"


def _listed(options: tuple[tuple[str, str], ...]) -> Iterator[str]:
    for spelling, does in options:
        yield from (".TP", f"\\fB{_escaped(spelling)}\\fR", _escaped(does))


def _as_it_stands(lines: list[str]) -> Iterator[str]:
    yield ".nf"
    yield from map(_escaped, lines)
    yield ".fi"


def _escaped(line: str) -> str:
    """Text that troff prints as it is: no command, no escape, no typographic dash."""
    text = line.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    text = text.replace("^", "\\(ha").replace("~", "\\(ti")
    return f"\\&{text}" if text.startswith(".") else text
