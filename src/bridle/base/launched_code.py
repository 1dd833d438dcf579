"""What a command line leads to, as far as files tell without running it: the program, and what that one runs in turn.

`npx pkg`, `uvx pkg`, `python -m mod`, `node server.js` start the same program whatever they run. So the words behind it
are read as that program reads them: a script or module is a file with a digest, a package has the version and the
integrity that the package manager wrote down for what is installed. Nothing is asked over a network.
"""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha512
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

import msgspec

from bridle.base.files import read_limited
from bridle.base.folder_launchers import FolderRun, folder_run, upward

PartKind: TypeAlias = Literal["script", "module", "package"]

Digest: TypeAlias = Callable[[str], str]
"""The digest of a file's content; empty where it cannot be read."""

_MOST_JSON: Final = 16 << 20
_EXACT: Final = re.compile(r"v?\d+(\.\d+)*([-+.a-zA-Z0-9]*)")
_NPM_NAME: Final = re.compile(r"(?P<name>(?:@[^/@\s]+/)?[^/@:\s]+)(?:@(?P<version>[^/]*))?")
_PYPI_NAME: Final = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?(?:\s*(?:===?|@)\s*(?P<version>[^\s/;,]*))?"
)
_NPM: Final = ("npx", "bunx", "pnpx", "npm exec", "npm x", "pnpm dlx", "pnpm exec", "yarn dlx", "bun x")
_PYPI: Final = ("uvx", "uv tool run", "pipx run")
_IMAGES: Final = ("docker", "podman", "nerdctl")
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh", "fish"})
_SCRIPTS: Final = frozenset({"node", "nodejs", "bun", "deno", "tsx", "ts-node", "ruby", "perl", "php"})
_PYTHON: Final = re.compile(r"(python|pypy)[0-9.]*[a-z]?")
_PYTHON_FLAGS: Final = re.compile(r"([^mcXW]*)(?:([mcXW])(.*))?", re.DOTALL)
"""Letters in one word, of which the last may take what follows it, or the next word."""
_VALUED: Final[Mapping[str, frozenset[str]]] = {
    "npm": frozenset({
        "-p", "--package", "-c", "--call", "--cache", "--registry", "--prefix", "-w", "--workspace", "--userconfig",
        "--loglevel", "--node-options",
    }),
    "pypi": frozenset({
        "--from", "--spec", "--with", "--with-editable", "--with-requirements", "-p", "--python", "--index-url", "-i",
        "--default-index", "--index", "--extra-index-url", "-f", "--find-links", "--cache-dir", "--directory",
        "--project", "--config-file", "--refresh-package", "-P", "--upgrade-package", "-c", "--constraints",
        "--overrides", "--env-file", "--pip-args", "--suffix", "--color", "--fetch-python",
    }),
    "python": frozenset({"--check-hash-based-pycs"}),
    "script": frozenset({
        "-r", "--require", "--import", "--loader", "--experimental-loader", "-C", "--conditions", "--preload", "-I",
        "--tsconfig", "--config", "--project", "--directory", "--python", "-p", "--with", "--env-file",
    }),
}  # fmt: skip
"""Options of launchers whose value is the next word."""
_UV: Final = frozenset({
    "--directory", "--project", "--with", "--with-editable", "--with-requirements", "--extra", "--group",
    "--only-group", "--package", "--env-file", "-p", "--python", "--index-url", "-i", "--default-index", "--index",
    "--extra-index-url", "-f", "--find-links", "--cache-dir", "--config-file", "-P", "--upgrade-package", "-m",
    "--module", "-s", "--script", "--color",
})  # fmt: skip
_CONFIGURED: Final[Mapping[str, tuple[str, ...]]] = {
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
"""Files of the folder a launcher starts in, or of one above it, that say what it runs: a shell, code to load first,
where packages come from."""
_HARMLESS: Final = frozenset({
    "audit", "auto-install-peers", "color", "engine-strict", "fund", "legacy-peer-deps", "link-workspace-packages",
    "loglevel", "package-lock", "prefer-offline", "progress", "save-exact", "save-prefix", "shamefully-hoist",
    "strict-peer-dependencies", "strict-peer-deps", "tag-version-prefix", "update-notifier",
})  # fmt: skip
"""What an `.npmrc` may say without anything else being run."""
_LOADED: Final = frozenset({"-r", "--require", "--import", "--loader", "--experimental-loader", "--preload"})
"""Those of node and its kin whose value is code."""
_SCRIPT_ENDS: Final = ("", ".js", ".mjs", ".cjs", "/package.json", "/index.js")


class LaunchedPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something a launcher runs. Of a file `name` is its resolved path and `integrity` its digest. Of a package it is
    its name, and `integrity` what the package manager noted of what is installed and the digest of its command.
    `version` and `integrity` are empty where nobody knows them here; `place` is the folder it was found in."""

    kind: PartKind
    name: str
    version: str = ""
    integrity: str = ""
    place: str = ""


class LaunchedCode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a command line leads to. `program` is the path its first word was found under, `target` that without links;
    both are empty where there is none. `unpinned` says what of it can be other code the next time, as a sentence;
    `folder_run` is the folder whose code runs without anything saying which."""

    program: str = ""
    target: str = ""
    parts: tuple[LaunchedPart, ...] = ()
    unpinned: str = ""
    folder_run: str = ""


class _Launched(NamedTuple):
    """What was read of a command line: the fields of `LaunchedCode`."""

    parts: list[LaunchedPart]
    unpinned: str = ""
    folder_run: str = ""


class _Installed(NamedTuple):
    version: str = ""
    integrity: str = ""
    place: str = ""
    entry: str = ""


def find_program(word: str, *, cwd: str, search_path: str) -> str:
    """The file that starting `word` in `cwd` would run, as the system looks for it; empty where there is none.

    A search path can name folders relative to `cwd`: the system looks there too.
    """
    if "/" in word:
        candidates = [os.path.join(cwd, word)]
    else:
        candidates = [os.path.join(cwd, folder, word) for folder in search_path.split(os.pathsep)]
    return next((path for path in candidates if os.path.isfile(path) and os.access(path, os.X_OK)), "")


def launched_code(
    argv: Sequence[str], *, cwd: str, env: Mapping[str, str], search_path: str, digest: Digest
) -> LaunchedCode:
    """What `argv` leads to when it is started in `cwd` with the variables `env`. Reads files and runs nothing."""
    program = find_program(argv[0], cwd=cwd, search_path=search_path)
    reader = _Reader(cwd=cwd, env=env, search_path=search_path, digest=digest, program=program)
    found = reader.read(tuple(argv))
    return LaunchedCode(
        program=program,
        target=os.path.realpath(program) if program else "",
        parts=tuple(dict.fromkeys(found.parts)),
        unpinned=found.unpinned,
        folder_run=found.folder_run,
    )


class _Reader(msgspec.Struct, frozen=True, kw_only=True):
    """Reads a command line as its first word would."""

    cwd: str
    env: Mapping[str, str]
    search_path: str
    digest: Digest
    program: str

    def read(self, argv: tuple[str, ...]) -> _Launched:
        name = os.path.basename(argv[0])
        if name == "env":
            return self._behind_env(argv[1:])
        if name == "uv" and argv[1:3] != ("tool", "run"):
            return self._uv(argv[1:])
        found = self._launched(name, argv)
        return found._replace(parts=[*found.parts, *self.configured(name)])

    def _launched(self, name: str, argv: tuple[str, ...]) -> _Launched:
        for launchers, read in ((_NPM, self._npm), (_PYPI, self._pypi)):
            for launcher in launchers:
                words = launcher.split(" ")
                if [name, *argv[1 : len(words)]] == words:
                    return read(launcher, argv[len(words) :])
        if name in _IMAGES:
            pinned = any("@sha256:" in word for word in argv[1:])
            return _Launched([], "" if pinned else _unpinned(name))
        if _PYTHON.fullmatch(name):
            return _Launched(self._python(argv[1:]))
        if name in _SHELLS:
            return self._shell(argv[1:])
        if name == "go" and len(argv) > 2 and "@" in argv[2]:
            return self._go(argv[1:])
        runs_file = name == "bun" and bool(self._scripts(argv[2:]))
        if not runs_file and (folder := folder_run(name, argv[1:], cwd=self.cwd)) is not None:
            parts = [part for path in folder.manifests for part in self._file(path)]
            return _Launched(parts, folder.unpinned, os.path.realpath(folder.path))
        if name in _SCRIPTS:
            words = argv[2:] if argv[1:2] == ("run",) and name in ("bun", "deno") else argv[1:]
            return _Launched(self._scripts(words))
        return _Launched([])

    def _go(self, plain: Sequence[str]) -> _Launched:
        """A program of elsewhere, by its version."""
        package, _, version = plain[1].partition("@")
        part = LaunchedPart(kind="package", name=package, version=version)
        return _Launched([part], "" if _EXACT.fullmatch(version) else _unpinned("go run"))

    def configured(self, name: str) -> Iterator[LaunchedPart]:
        """The files that tell this launcher what to run, where whoever wrote the folder could have written them."""
        home = self.env.get("HOME", "")
        names = _CONFIGURED.get(name, ())
        for folder in upward(self.cwd) if names else ():
            if home and os.path.realpath(folder) == os.path.realpath(home):
                return
            for one in names:
                path = os.path.join(folder, one)
                if os.path.isfile(path) and not (one == ".npmrc" and _is_harmless(path)):
                    yield from self._file(path)

    def _behind_env(self, words: tuple[str, ...]) -> _Launched:
        at = 0
        while at < len(words) and (words[at].startswith("-") or "=" in words[at]):
            at += 2 if words[at] in ("-u", "--unset", "-C", "--chdir") else 1
        if at >= len(words):
            return _Launched([])
        program = find_program(words[at], cwd=self.cwd, search_path=self.search_path)
        reader = msgspec.structs.replace(self, program=program)
        inner = reader.read(words[at:])
        return inner._replace(parts=[*self._file(program), *inner.parts])

    # Packages

    def _npm(self, launcher: str, words: tuple[str, ...]) -> _Launched:
        options, rest = _split(words, _VALUED["npm"])
        if any(name in ("-c", "--call") for name, _value in options):
            return _Launched([], _unpinned(launcher))
        specs = [value for name, value in options if name in ("-p", "--package")] or list(rest[:1])
        parts: list[LaunchedPart] = []
        exact = bool(specs)
        for spec in specs:
            read = _NPM_NAME.fullmatch(spec)
            if read is None:  # a folder, an address, a repository
                parts.append(LaunchedPart(kind="package", name=spec))
                exact = False
                continue
            found = self._npm_installed(read["name"], specs)
            exact &= _EXACT.fullmatch(read["version"] or "") is not None
            version = found.version or (read["version"] or "" if exact else "")
            entry = _labelled(self.digest(found.entry)) if found.entry else ""
            parts.append(
                LaunchedPart(
                    kind="package",
                    name=read["name"],
                    version=version,
                    integrity=" ".join(filter(None, (found.integrity, entry))),
                    place=found.place,
                )
            )
        return _Launched(parts, "" if exact else _unpinned(launcher))

    def _npm_installed(self, name: str, specs: Sequence[str]) -> _Installed:
        """What npm would run without asking anybody: of the folder, of the installation, or of its own cache."""
        cache = self.env.get("npm_config_cache") or os.path.join(self.env.get("HOME", ""), ".npm")
        digest = sha512("\n".join(sorted(specs)).encode("utf-8", "surrogateescape")).hexdigest()[:16]
        folders = [*upward(self.cwd)]
        if self.program:
            prefix = os.path.dirname(os.path.dirname(os.path.abspath(self.program)))
            folders.append(os.path.join(prefix, "lib"))
        folders.append(os.path.join(cache, "_npx", digest))
        for folder in folders:
            modules = os.path.join(folder, "node_modules")
            package = _json(os.path.join(modules, name, "package.json"))
            if not package:
                continue
            for lock in (
                os.path.join(modules, ".package-lock.json"),
                os.path.join(folder, "package-lock.json"),
            ):
                listed = _table(_table(_json(lock).get("packages")).get(f"node_modules/{name}"))
                if listed.get("version") == package.get("version"):
                    integrity = str(listed.get("integrity") or "")
                    break
            else:
                integrity = ""
            entry = _entry(package, name)
            return _Installed(
                str(package.get("version") or ""),
                integrity,
                os.path.realpath(os.path.join(modules, name)),
                os.path.join(modules, name, entry) if entry else "",
            )
        return _Installed()

    def _pypi(self, launcher: str, words: tuple[str, ...]) -> _Launched:
        options, rest = _split(words, _VALUED["pypi"])
        named = [value for name, value in options if name in ("--from", "--spec")] or list(rest[:1])
        spec = named[0] if named else ""
        read = _PYPI_NAME.fullmatch(spec)
        if read is None:  # a folder, an address, a repository
            named_part = [LaunchedPart(kind="package", name=spec)] if spec else []
            return _Launched(named_part, _unpinned(launcher))
        wanted = read["version"] or ""
        exact = _EXACT.fullmatch(wanted) is not None
        found = self._pypi_installed(read["name"], wanted if exact else "")
        part = LaunchedPart(
            kind="package",
            name=read["name"],
            version=found.version or (wanted if exact else ""),
            integrity=found.integrity,
            place=found.place,
        )
        return _Launched([part], "" if exact else _unpinned(launcher))

    def _pypi_installed(self, name: str, version: str) -> _Installed:
        """The one installation of it that uv or pipx would run; nothing where there are several."""
        home = self.env.get("HOME", "")
        data = self.env.get("XDG_DATA_HOME") or os.path.join(home, ".local/share")
        uv = self.env.get("UV_CACHE_DIR") or os.path.join(
            self.env.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"), "uv"
        )
        pipx = self.env.get("PIPX_HOME") or os.path.join(data, "pipx")
        normal = re.sub(r"[-_.]+", "[-_.]", glob.escape(name))
        info = f"{normal}-{glob.escape(version) if version else '*'}.dist-info"
        packages = "lib/python3*/site-packages"
        patterns = (
            f"{glob.escape(data)}/uv/tools/{glob.escape(name)}/{packages}/{info}",
            f"{glob.escape(uv)}/archive-v0/*/{packages}/{info}",
            f"{glob.escape(uv)}/archive-v0/*/{info}",
            f"{glob.escape(pipx)}/.cache/*/{packages}/{info}",
        )
        for pattern in patterns:
            found = {
                (os.path.basename(path)[:-10].rpartition("-")[2], record): path
                for path in sorted(glob.glob(pattern))
                if (record := self.digest(os.path.join(path, "RECORD")))
            }
            if len(found) == 1:
                ((installed, record), path) = next(iter(found.items()))
                return _Installed(installed, f"sha256:{record}", os.path.realpath(os.path.dirname(path)))
        return _Installed()

    def _uv(self, words: tuple[str, ...]) -> _Launched:
        """`uv run` of a script, a module or a command, with what stands before `run` and behind it."""
        before, rest = _split(words, _UV)
        if rest[:1] != ("run",):
            return _Launched([], _unpinned("uv") if rest else "")
        options, rest = _split(rest[1:], _UV)
        given = dict((*before, *options))
        if folder := given.pop("--directory", None):  # all the rest is read there
            inside = msgspec.structs.replace(self, cwd=os.path.join(self.cwd, folder))
            said = (f"{name}={value}" if value else name for name, value in given.items())
            return inside.read(("uv", "run", *said, *(("--", *rest) if rest else ())))
        project = msgspec.structs.replace(self, cwd=os.path.join(self.cwd, given.get("--project", "")))
        parts = [] if "--no-project" in given else [*project.configured("uv")]
        script = given.get("-s") or given.get("--script") or (rest[0] if rest else "")
        path = os.path.join(self.cwd, script)
        if module := given.get("-m") or given.get("--module"):
            return _Launched([*self._module(module), *parts], _unpinned("uv run"))
        if script and os.path.isfile(path):
            return _Launched([*self._file(path), *parts])
        if _PYTHON.fullmatch(os.path.basename(script)):
            return _Launched([*self._python(rest[1:]), *parts])
        return _Launched(
            parts,
            FolderRun(project.cwd, tuple(part.name for part in parts)).unpinned,
            os.path.realpath(project.cwd),
        )

    # Files

    def _python(self, words: tuple[str, ...]) -> list[LaunchedPart]:
        at, flags = 0, ""
        while at < len(words) and words[at].startswith("-") and words[at] != "-":
            word = words[at]
            at += 1
            if word.startswith("--"):
                at += word in _VALUED["python"]
                continue
            before, ends, value = _PYTHON_FLAGS.fullmatch(word[1:]).groups("")  # pyright: ignore[reportOptionalMemberAccess]
            flags += before
            if ends and not value:
                value = words[at] if at < len(words) else ""
                at += 1
            if ends in ("m", "c"):
                is_safe = bool(self.env.get("PYTHONSAFEPATH")) and "E" not in flags
                here = not is_safe and not {"I", "P"} & {*flags}
                return list(self._module(value, here=here) if ends == "m" else self._hiding(here))
        if at >= len(words):
            return []
        path = os.path.join(self.cwd, words[at])
        return list(self._file(os.path.join(path, "__main__.py") if os.path.isdir(path) else path))

    def _module(self, module: str, *, here: bool = True) -> Iterator[LaunchedPart]:
        """The module as python would find it: here, on its own path, among its packages; and what `here` would be
        taken for something else that it needs."""
        given = [
            os.path.join(self.cwd, one) for one in self.env.get("PYTHONPATH", "").split(os.pathsep) if one
        ]
        relative = module.replace(".", "/")
        yield from self._hiding(here, module.partition(".")[0])
        for folder in (*([self.cwd] if here else ()), *given, *self._packages()):
            for name in (f"{relative}/__main__.py", f"{relative}.py"):
                path = os.path.join(folder, name)
                if os.path.isfile(path):
                    for part in self._file(path):
                        yield msgspec.structs.replace(part, kind="module")
                    yield from self._distribution(module.partition(".")[0], folder)
                    return
        yield LaunchedPart(kind="module", name=module)

    def _packages(self) -> list[str]:
        """The folders with the packages of the python that is started."""
        prefix = os.path.dirname(os.path.dirname(os.path.abspath(self.program))) if self.program else ""
        return [
            path
            for pattern in ("site-packages", "dist-packages")
            for path in sorted(glob.glob(f"{glob.escape(prefix)}/lib/python3*/{pattern}"))
        ]

    def _hiding(self, here: bool, module: str = "") -> Iterator[LaunchedPart]:
        """What stands in the folder under the name of a module of python itself or of its packages, or of the package
        that is run: without `-P` it is imported in place of that."""
        if not here:
            return
        known: set[str] | None = None
        for name in sorted(_listed(self.cwd)):
            stem, _, end = name.partition(".")
            path = os.path.join(self.cwd, name)
            if not end and (inner := _package_file(path)):
                path = inner
            elif not end or not _is_importable(name):
                continue
            if known is None:
                installed = (one.partition(".")[0] for folder in self._packages() for one in _listed(folder))
                known = {module, *sys.stdlib_module_names, *installed}
            if stem in known:
                for part in self._file(path):
                    yield msgspec.structs.replace(part, kind="module")

    def _distribution(self, name: str, folder: str) -> Iterator[LaunchedPart]:
        normal = re.sub(r"[-_.]+", "[-_.]", glob.escape(name))
        for path in sorted(glob.glob(f"{glob.escape(folder)}/{normal}-*.dist-info")):
            if record := self.digest(os.path.join(path, "RECORD")):
                version = os.path.basename(path)[:-10].rpartition("-")[2]
                yield LaunchedPart(
                    kind="package",
                    name=name,
                    version=version,
                    integrity=f"sha256:{record}",
                    place=os.path.realpath(folder),
                )
                return

    def _shell(self, words: tuple[str, ...]) -> _Launched:
        for word in words:
            if word.startswith("-") and not word.startswith("--") and "c" in word:
                return _Launched([], "unpinned: what a line for the shell runs is not looked at")
            if not word.startswith(("-", "+")):
                return _Launched(list(self._file(os.path.join(self.cwd, word))))
        return _Launched([])

    def _scripts(self, words: tuple[str, ...]) -> list[LaunchedPart]:
        options, rest = _split(words, _VALUED["script"])
        loaded = [value for name, value in options if name in _LOADED]
        found: list[LaunchedPart] = []
        for word in (*loaded, *rest[:1]):
            bases = [os.path.join(self.cwd, word)]
            if word in loaded and not word.startswith((".", "/")):  # a package, as node looks for it
                bases += [os.path.join(folder, "node_modules", word) for folder in upward(self.cwd)]
            for path in (f"{base}{end}" for base in bases for end in _SCRIPT_ENDS):
                if os.path.isfile(path):
                    found += self._file(path)
                    break
        return found

    def _file(self, path: str) -> Iterator[LaunchedPart]:
        if path:
            real = os.path.realpath(path)
            yield LaunchedPart(
                kind="script", name=real, integrity=_labelled(self.digest(real)), place=os.path.dirname(real)
            )


def _split(words: Sequence[str], valued: frozenset[str]) -> tuple[list[tuple[str, str]], tuple[str, ...]]:
    """The options before the first word that is none, each with its value, and the words from there on."""
    options: list[tuple[str, str]] = []
    at = 0
    while at < len(words) and words[at].startswith("-"):
        word = words[at]
        at += 1
        if word == "--":
            break
        name, has_value, value = word.partition("=")
        if not has_value and name in valued and at < len(words):
            value = words[at]
            at += 1
        options.append((name, value))
    return options, tuple(words[at:])


def _unpinned(launcher: str) -> str:
    return f"unpinned: {launcher} may run other code tomorrow"


def _labelled(sha256: str) -> str:
    return f"sha256:{sha256}" if sha256 else ""


def _entry(package: Mapping[str, Any], name: str) -> str:
    """The file of a package that its command is, relative to it."""
    commands: object = package.get("bin")
    if isinstance(commands, str):
        return commands
    table = _table(commands)
    chosen = table.get(name.rpartition("/")[2]) or next(iter(table.values()), "")
    return chosen if isinstance(chosen, str) else ""


def _is_harmless(path: str) -> bool:
    """Whether an `.npmrc` says nothing but what changes no code that runs."""
    try:
        lines = read_limited(path, _MOST_JSON).data.decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return False
    said = (line.strip() for line in lines)
    return all(line.partition("=")[0].strip() in _HARMLESS for line in said if line and line[0] not in "#;")


def _package_file(folder: str) -> str:
    """What importing a folder runs; empty where it is none that hides another."""
    if not os.path.isdir(folder):
        return ""
    found = (
        name for name in sorted(_listed(folder)) if name.startswith("__init__.") and _is_importable(name)
    )
    return next((os.path.join(folder, name) for name in found), "")


def _is_importable(name: str) -> bool:
    """Whether a file of this name is code to python."""
    return name.endswith((".py", ".pyc", ".so", ".pyd"))


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _table(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _json(path: str) -> dict[str, Any]:
    """What a file of a package manager says; nothing where it cannot be read."""
    try:
        return _table(msgspec.json.decode(read_limited(path, _MOST_JSON).data))
    except (OSError, ValueError, msgspec.DecodeError, RecursionError):
        return {}
