"""Asking a program for its version or its help: when does that run nothing of the workspace?"""

from __future__ import annotations

import os
import re

from bridle.shell.programs import programs
from bridle.shell.shell_words import names

_EVERY = frozenset({"--version", "--help"})
_TELL_VERSION = names(
    "gcc g++ cc clang clang++ ld as rustc cargo rustup go javac kotlinc node nodejs npm npx deno bun "
    "python python2 python3 pypy3 pip pip3 pipx uv uvx conda ruby gem perl php lua luajit R Rscript ghc ocaml "
    "opam elixir swiftc zig nim make gmake cmake ctest ninja meson docker podman docker-compose kubectl helm "
    "terraform gh glab svn hg curl wget tar gzip zip unzip bash sh zsh fish ksh tmux vim nvim emacs code "
    "openssl gpg sqlite3 psql mysql redis-cli mongosh ruff mypy black isort pyright tsc eslint prettier fzf "
    "ffmpeg pandoc gdb lldb strace valgrind brew apt apt-get dpkg rpm snap flatpak rsync protoc buf sed awk "
    "gawk find aws gcloud az java "
)
_MORE_WORDS = {
    "-V": "python python2 python3 pip pip3 ssh cargo rustc uv ruff mypy deno sqlite3 psql mysql curl wget tmux openssl",
    "-v": "node nodejs npm ruby perl php docker make lua bun rustup gem tsc eslint",
    "-version": "java javac kotlinc ffmpeg",
    "version": "go docker podman helm terraform cargo buf gh zig openssl git",
    "help": "go docker kubectl cargo helm",
    "-h": "python python3 node npm pip pip3 cargo docker kubectl gh uv ruff make gcc",
}
"""Asking these for their version or their help runs nothing of the workspace.

Not here: yarn, mvn, gradle, bundle, dotnet, sbt, bazel, tox, pytest, flake8, pylint and poetry, which first read a file
of the workspace that may name code to run."""


_SUBCOMMANDS = {
    "cargo": "add bench build check clean clippy doc fetch fix fmt init install metadata new publish run search test "
    "tree update vendor",
    "npm": "audit ci exec init install link list ls outdated publish run test uninstall update view",
    "pip pip3": "check config download freeze index install list show uninstall wheel",
    "go": "build clean doc env fix fmt generate get install list mod run test vet work",
    "docker": "build exec images logs ps pull push rm rmi run stop",
    "kubectl": "apply create delete describe exec get logs",
    "gh": "api browse issue pr release repo run workflow",
    "uv": "add init lock pip remove run sync tool tree venv",
    "ruff": "check format rule",
    "rustup": "component default show target toolchain update",
}
"""Subcommands that are part of the program itself: asked for help with one, it prints a text and does nothing else."""

GO_FILES = ("go.mod", "go.work")
_STEERED = {"cargo rustc rustup": ("rust-toolchain", "rust-toolchain.toml"), "go": GO_FILES}
_GO_WANTS = re.compile(
    r"^[ \t]*(?:go[ \t]+|toolchain[ \t]+go)([0-9]+)\.([0-9]+)(?:\.([0-9]+))?[ \t]*$", re.MULTILINE
)
_GO_SAYS = re.compile(r"^[ \t]*(?:go|toolchain)[ \t]", re.MULTILINE)
_GO_IS = re.compile(r"go([0-9]+)\.([0-9]+)(?:\.([0-9]+))?\s")
_FIRST_THAT_SWITCHES = (1, 21, 0)
_MAX_GO_FILE = 100_000


def keeps_go(path: str, search_path: str) -> bool:
    """Whether the `go` that is installed is new enough for a module, so that it fetches no other to run instead."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_MAX_GO_FILE)
    except (OSError, UnicodeError):
        return False
    wanted = [_version(match) for match in _GO_WANTS.finditer(text)]
    if len(wanted) != len(_GO_SAYS.findall(text)) or len(text) == _MAX_GO_FILE:
        return False
    return max(wanted, default=_FIRST_THAT_SWITCHES) <= (_installed_go(search_path) or _FIRST_THAT_SWITCHES)


def _installed_go(search_path: str) -> tuple[int, int, int] | None:
    """The version that stands beside the first `go` of the search path; None where there is none, or it says none."""
    for folder in search_path.split(":"):
        program = os.path.join(folder, "go")
        if not os.path.lexists(program):
            continue
        try:
            root = os.path.dirname(os.path.dirname(os.path.realpath(program)))
            with open(os.path.join(root, "VERSION"), encoding="utf-8") as file:
                match = _GO_IS.match(file.read(200))
        except (OSError, UnicodeError):
            return None
        return None if match is None else _version(match)
    return None


def _version(match: re.Match[str]) -> tuple[int, int, int]:
    return int(match[1]), int(match[2]), int(match[3] or 0)


def steering_files(program: str) -> tuple[str, ...]:
    """Files that name which version of the program answers, to be fetched if need be."""
    return next((files for steered, files in _STEERED.items() if program in steered.split()), ())


def tells_version(program: str, word: str) -> bool:
    """Whether `program word`, alone, only prints what the program is."""
    if word in _EVERY:
        return program in _TELL_VERSION or _only_reads(program)
    return program in _MORE_WORDS.get(word, "").split()


def shows_help(program: str, subcommand: str, word: str) -> bool:
    """Whether `program subcommand --help` only prints how the subcommand is used."""
    if word not in ("--help", "-h"):
        return False
    known = next((listed for named, listed in _SUBCOMMANDS.items() if program in named.split()), "")
    return subcommand in known.split()


def _only_reads(program: str) -> bool:
    entry = programs().get(program)
    return entry is not None and entry.base == "read_only"
