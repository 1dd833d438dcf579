"""Asking a program for its version or its help: when does that run nothing of the workspace?"""

from __future__ import annotations

from bridle.safety.shell.programs import programs
from bridle.safety.shell.words import names

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


_STEERED = {
    "cargo rustc rustup": ("rust-toolchain", "rust-toolchain.toml"),
    "go": ("go.mod", "go.work"),
}


def steering_files(program: str) -> tuple[str, ...]:
    """Files that name which version of the program answers, to be fetched if need be."""
    return next((files for steered, files in _STEERED.items() if program in steered.split()), ())


def tells_version(program: str, word: str) -> bool:
    """Whether `program word`, alone, only prints what the program is."""
    if word in _EVERY:
        return program in _TELL_VERSION or _only_reads(program)
    return program in _MORE_WORDS.get(word, "").split()


def _only_reads(program: str) -> bool:
    entry = programs().get(program)
    return entry is not None and entry.base == "read_only"
