"""Find the code that a command line names: its program, script files and package.

Nothing is run and nothing is asked over a network. What a program loads besides (modules, images, cached packages) is
not predicted: `LaunchedCode.unpinned` says so.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

_PACKAGE_LAUNCHERS: Final = (
    "npx", "bunx", "pnpx", "npm exec", "npm x", "pnpm dlx", "pnpm exec", "yarn dlx", "bun x", "uvx", "uv tool run",
    "pipx run",
)  # fmt: skip
_PACKAGE_OPTIONS: Final = frozenset({"--package", "--from", "--spec"})
_VALUED_OPTIONS: Final = frozenset(
    {"-p", "--python", "--with", "-w", "--registry", "--cache", "-i", "--index-url"}
)
"""Options of package launchers that take the next word. `-p` names a package except with `uvx` and its kin."""
_PACKAGE: Final = re.compile(
    r"(?P<name>(?:@[^/@:\s]+/)?[^./@:=<>~!\[\s][^/@:=<>~!\[\s]*)(?:\[[^\]]*\])?(?:(?:@|===?)(?P<version>[^\s/]*))?"
)
_EXACT: Final = re.compile(r"v?\d+(\.\d+)*([-+.a-zA-Z0-9]*)")
_ONE_VERSION: Final = re.compile(r"v?\d+\.\d+\.\d+([-+].*)?")
"""To npm and go, `1.2` and `1.x` are any version that begins so."""
_PYTHON_LAUNCHERS: Final = ("uvx", "uv tool run", "pipx run")
_INTERPRETERS: Final = re.compile(
    r"(python|pypy)[0-9.]*[a-z]?|node|nodejs|bun|deno|tsx|ts-node|ruby|perl|php|(ba|da|z|a|k|fi)?sh|uv"
)
_INLINE_CODE: Final = re.compile(r"-[bBdEiIlOPqsSuvx]*[mce]|--eval|--print")
"""Options of interpreters that run a module or the next word in place of a script."""
_PLAIN_ENV_OPTIONS: Final = frozenset({"-", "-i", "--ignore-environment", "--"})
"""Options of `env` behind which the program follows. Others take a word, or are a command line of their own."""
_CONTAINERS: Final = frozenset({"docker", "podman", "nerdctl"})
_FOLDER_LAUNCHERS: Final = frozenset({
    "npm", "pnpm", "yarn", "bun", "deno", "make", "gmake", "just", "task", "cargo", "go", "poetry", "pdm", "hatch",
    "pipenv", "bundle", "rake", "composer", "gradle", "mvn", "dotnet", "swift", "mix", "uv",
})  # fmt: skip
"""Programs that run the code of the folder they start in, unless a word names a script."""
_FOLDER_OPTIONS: Final = frozenset({"-C", "--directory", "--prefix", "--cwd", "--dir"})
_CONFIGURATION: Final[Mapping[str, tuple[str, ...]]] = {
    "npx": (".npmrc",),
    "npm": (".npmrc",),
    "pnpx": (".npmrc", ".pnpmfile.cjs", "pnpm-workspace.yaml"),
    "pnpm": (".npmrc", ".pnpmfile.cjs", "pnpm-workspace.yaml"),
    "yarn": (".yarnrc.yml", ".yarnrc", ".npmrc"),
    "bunx": ("bunfig.toml", ".npmrc"),
    "bun": ("bunfig.toml",),
    "deno": ("deno.json", "deno.jsonc"),
    "uv": ("uv.toml", "pyproject.toml"),
}
"""Files that tell a launcher what to load or where packages come from, in the folder it starts in or above."""
_CODE_ENDS: Final = (
    ".py", ".pyc", ".pyz", ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".tsx", ".rb", ".pl", ".php", ".sh", ".jar",
    ".dll", ".lua", ".exs",
)  # fmt: skip
_ENTRIES: Final = ("", ".js", "/__main__.py", "/index.js", "/package.json")
"""What an interpreter may make of the word that names its script."""
_SYSTEM_FOLDERS: Final = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/")


class LaunchedPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that a command line names. A `script` has its resolved path as `name`, its digest as `integrity` (none
    in a system folder) and its folder as `place`. A `package` has the version that is written, and as `place` the
    folder of a local copy.

    Pins of earlier versions also have the kind `module`, and facts of installed packages.
    """

    kind: str
    name: str
    version: str = ""
    integrity: str = ""
    place: str = ""


class LaunchedCode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The code that a command line names. `program` is the path of its first word, `target` that path without links;
    both are empty if there is no such program. `unpinned` is a sentence about what can be other code the next time.
    `folder_run` is the folder whose code runs without a word that names it."""

    program: str = ""
    target: str = ""
    parts: tuple[LaunchedPart, ...] = ()
    unpinned: str = ""
    folder_run: str = ""


def find_program(word: str, *, cwd: str, search_path: str) -> str:
    """Return the file that starting `word` in `cwd` would run, or an empty text.

    A search path can name folders relative to `cwd`: the system looks there too.
    """
    if "/" in word:
        candidates = [os.path.join(cwd, word)]
    else:
        candidates = [os.path.join(cwd, folder, word) for folder in search_path.split(os.pathsep)]
    return next((path for path in candidates if os.path.isfile(path) and os.access(path, os.X_OK)), "")


def is_system_file(path: str, lstat: Callable[[str], os.stat_result] = os.lstat) -> bool:
    """Return whether only root can change a file of a system folder: its owner is root, like that of every folder
    above it, and no other user may write there."""
    if not path.startswith(_SYSTEM_FOLDERS):
        return False
    try:
        states = [lstat(path), *map(lstat, _folders_above(path))]
    except OSError:
        return False
    return all(
        state.st_uid == 0 and (stat.S_ISLNK(state.st_mode) or not state.st_mode & 0o022) for state in states
    )


def launched_code(argv: Sequence[str], *, cwd: str, env: Mapping[str, str], search_path: str) -> LaunchedCode:
    """Return the code that `argv` names when it is started in `cwd` with the variables `env`."""
    program = find_program(argv[0], cwd=cwd, search_path=search_path)
    words = list(argv)
    parts: list[LaunchedPart] = []
    unpinned = ""
    if os.path.basename(words[0]) == "env":
        rest = words[1:]
        while rest and (rest[0].startswith("-") or "=" in rest[0]):
            if rest[0].startswith("-") and rest[0] not in _PLAIN_ENV_OPTIONS:
                unpinned = "unpinned: only the command line of env is pinned"
            rest = rest[1:]
        words = rest or words
        parts += _script(find_program(words[0], cwd=cwd, search_path=search_path))
    named = _named_code(words, cwd=cwd, env=env)
    return msgspec.structs.replace(
        named,
        program=program,
        target=os.path.realpath(program) if program else "",
        parts=tuple(dict.fromkeys((*parts, *named.parts))),
        unpinned=named.unpinned or unpinned,
    )


def file_sha256(path: str) -> str:
    """Return the digest of a regular file's content, links followed; an empty text if it cannot be read."""
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            return hashlib.file_digest(file, "sha256").hexdigest() if os.path.isfile(file.fileno()) else ""
    except (OSError, ValueError):
        return ""


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for a writer, as a pipe would."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _named_code(words: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> LaunchedCode:
    name = os.path.basename(words[0])
    folder = _started_in(words, cwd) if name in _FOLDER_LAUNCHERS else cwd
    configured = tuple(_configuration(name, folder, env.get("HOME", "")))
    for launcher in _PACKAGE_LAUNCHERS:
        own = launcher.split(" ")
        if [name, *words[1 : len(own)]] == own:
            packages = _packages(launcher, words[len(own) :], cwd)
            exact = _EXACT if launcher in _PYTHON_LAUNCHERS else _ONE_VERSION
            is_exact = bool(packages) and all(exact.fullmatch(one.version) for one in packages)
            unpinned = "" if is_exact else f"unpinned: {launcher} may run other code tomorrow"
            return LaunchedCode(parts=(*packages, *configured), unpinned=unpinned)
    if [name, *words[1:2]] == ["go", "run"] and (found := [word for word in words[2:] if "@" in word]):
        module, _, version = found[0].partition("@")
        is_exact = _ONE_VERSION.fullmatch(version) is not None
        unpinned = "" if is_exact else "unpinned: go run may run other code tomorrow"
        version = version if _EXACT.fullmatch(version) else ""
        return LaunchedCode(
            parts=(LaunchedPart(kind="package", name=module, version=version),), unpinned=unpinned
        )
    scripts = tuple(_scripts(name, words[1:], folder))
    parts = (*scripts, *configured)
    if name in _FOLDER_LAUNCHERS and not scripts:
        sentence = "runs code of the folder it starts in; nothing of it is pinned"
        return LaunchedCode(parts=parts, unpinned=sentence, folder_run=os.path.realpath(folder))
    is_image = name in _CONTAINERS and not any("@sha256:" in word for word in words)
    if is_image or (_INTERPRETERS.fullmatch(name) and len(words) > 1 and not scripts):
        unpinned = f"unpinned: only the command line of {name} is pinned"
        runs = os.path.realpath(cwd) if _imports_from_folder(name, words, cwd, env) else ""
        return LaunchedCode(parts=parts, unpinned=unpinned, folder_run=runs)
    return LaunchedCode(parts=parts)


def _packages(launcher: str, words: Sequence[str], cwd: str) -> tuple[LaunchedPart, ...]:
    """Return the packages that a launcher is told to run, each with its version if that is exact."""
    is_npm = launcher not in _PYTHON_LAUNCHERS
    named: list[str] = []
    first: list[str] = []
    at = 0
    while at < len(words) and not first:
        word, at = words[at], at + 1
        option, has_value, value = word.partition("=")
        if not word.startswith("-"):
            first.append(word)
            continue
        is_package = option in _PACKAGE_OPTIONS or (is_npm and option == "-p")
        if not has_value and (is_package or option in _VALUED_OPTIONS) and at < len(words):
            value, at = words[at], at + 1
        if is_package:
            named.append(value)
    return tuple(_package(spec, cwd if is_npm else "") for spec in named or first)


def _package(spec: str, cwd: str) -> LaunchedPart:
    """Return the package that `spec` means. npm runs a copy in `node_modules` of the folder before any other."""
    read = _PACKAGE.fullmatch(spec)
    if read is None:  # a folder, an address, a repository
        return LaunchedPart(kind="package", name=spec)
    version = read["version"] or ""
    copies = (os.path.join(folder, "node_modules", read["name"]) for folder in _upward(cwd))
    place = next(filter(os.path.isdir, copies), "") if cwd else ""
    return LaunchedPart(
        kind="package",
        name=read["name"],
        version=version if _EXACT.fullmatch(version) else "",
        place=os.path.realpath(place) if place else "",
    )


def _scripts(name: str, words: Sequence[str], folder: str) -> Iterator[LaunchedPart]:
    """Yield the words that are existing files with code, and the script of an interpreter even if its name does not
    tell that it is one."""
    takes_script = _INTERPRETERS.fullmatch(name) is not None
    for word in words:
        if takes_script and _INLINE_CODE.match(word):
            takes_script = False
        value = word.partition("=")[2] if word.startswith("-") else word
        if not value or "\0" in value:
            continue
        path = os.path.join(folder, value)
        if takes_script and not word.startswith("-"):
            path = next((path + end for end in _ENTRIES if os.path.isfile(path + end)), path)
        if os.path.isfile(path) and (takes_script or _is_code(path)):
            takes_script = takes_script and word.startswith("-")
            yield from _script(path)


def _script(path: str) -> Iterator[LaunchedPart]:
    if path:
        real = os.path.realpath(path)
        sha256 = "" if is_system_file(real) else file_sha256(real)
        integrity = f"sha256:{sha256}" if sha256 else ""
        yield LaunchedPart(kind="script", name=real, integrity=integrity, place=os.path.dirname(real))


def _is_code(path: str) -> bool:
    if path.endswith(_CODE_ENDS):
        return True
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def _started_in(words: Sequence[str], cwd: str) -> str:
    """Return the folder that an option sends a launcher to, or `cwd`."""
    for at, word in enumerate(words):
        option, has_value, value = word.partition("=")
        if option in _FOLDER_OPTIONS:
            value = value if has_value else "".join(words[at + 1 : at + 2])
        elif word.startswith("-C"):
            value = word[2:]
        else:
            continue
        if os.path.isdir(folder := os.path.join(cwd, value)):
            return folder
    return cwd


def _configuration(name: str, folder: str, home: str) -> Iterator[LaunchedPart]:
    """Yield the files that configure this launcher, up to the user's home: those there are the user's own."""
    names = _CONFIGURATION.get(name, ())
    for above in _upward(folder) if names else ():
        if home and os.path.realpath(above) == os.path.realpath(home):
            return
        for path in (os.path.join(above, one) for one in names):
            if os.path.isfile(path):
                yield from _script(path)


def _imports_from_folder(name: str, words: Sequence[str], cwd: str, env: Mapping[str, str]) -> bool:
    """Return whether python would import modules of the folder it starts in before its own."""
    if not name.startswith(("python", "pypy")) or env.get("PYTHONSAFEPATH"):
        return False
    if any(re.match(r"-[a-zA-Z]*[IP]", word) for word in words[1:2]):
        return False
    try:
        with os.scandir(cwd) as entries:
            return any(
                one.name.endswith((".py", ".pyc", ".so")) or os.path.isfile(f"{one.path}/__init__.py")
                for one in entries
            )
    except OSError:
        return False


def _upward(folder: str) -> Iterator[str]:
    yield folder
    yield from _folders_above(folder)


def _folders_above(path: str) -> Iterator[str]:
    while (above := os.path.dirname(path)) != path:
        yield above
        path = above
