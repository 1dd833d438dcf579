"""Whether looking at a git repository runs nothing but git.

A repository's own settings can name programs for `git status` to start: file system monitors, converters, pagers,
helpers. Only settings known to name none are accepted; the person's own settings are theirs and not looked at.
"""

from __future__ import annotations

import os
import re
import stat

MAX_CONFIG_BYTES = 256 * 1024
MAX_INDEX_BYTES = 64 * 1024 * 1024
MAX_SUBMODULE_DEPTH = 4

_SECTION = re.compile(r"\[\s*([A-Za-z0-9.-]+)(?:\s+\"((?:[^\"\\]|\\.)*)\")?\s*\]")
_KEY = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*(?:=|$)")
_GITLINK = b"\x00\x00\xe0\x00"

# fmt: off
_HARMLESS = frozenset({
    *(f"core.{key}" for key in (
        "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks autocrlf eol safecrlf "
        "quotepath abbrev sparsecheckout sparsecheckoutcone longpaths protecthfs protectntfs preloadindex untrackedcache "
        "commitgraph multipackindex bigfilethreshold compression looseCompression checkstat trustctime whitespace "
        "sharedrepository splitindex_no fscache hidedotfiles").lower().split()),
    *(f"user.{key}" for key in ["name", "email", "useconfigonly", "signingkey"]),
    *(f"extensions.{key}" for key in ["worktreeconfig", "objectformat", "partialclone", "refstorage", "preciousobjects", "relativeworktrees", "compatobjectformat", "noop"]),
    *(f"remote.*.{key}" for key in ["url", "fetch", "push", "pushurl", "mirror", "tagopt", "prune", "prunetags", "promisor", "partialclonefilter", "gh-resolved", "skipdefaultupdate"]),
    *(f"branch.*.{key}" for key in ["remote", "merge", "rebase", "pushremote", "description", "gh-merge-base", "github-pr-owner-number", "vscode-merge-base", "mergeoptions"]),
    *(f"submodule.*.{key}" for key in ["url", "active", "branch", "ignore", "fetchrecursesubmodules", "shallow"]), "submodule.active", "submodule.recurse",
    "pull.rebase", "pull.ff", "push.default", "push.autosetupremote", "push.followtags", "fetch.prune", "fetch.prunetags", "fetch.parallel", "merge.ff", "merge.conflictstyle", "rebase.autosquash",
    "rebase.autostash", "rebase.updaterefs", "commit.gpgsign", "tag.gpgsign", "tag.sort", "branch.autosetupmerge", "branch.autosetuprebase", "branch.sort", "init.defaultbranch", "color.ui", "color.status", "color.diff", "color.branch",
    "status.short", "status.branch", "status.showuntrackedfiles", "status.submodulesummary", "diff.renames", "diff.algorithm", "diff.colormoved", "diff.mnemonicprefix", "diff.noprefix", "diff.submodule", "diff.renamelimit", "diff.context",
    "log.date", "log.decorate", "log.abbrevcommit", "log.follow", "log.showsignature_no", "index.version", "index.threads", "feature.manyfiles", "gc.auto", "gc.pruneexpire", "rerere.enabled", "advice.detachedhead", "advice.statushints", "blame.ignorerevsfile",
    "lfs.repositoryformatversion", "lfs.*.access", "lfs.url", "receive.denycurrentbranch", "maintenance.auto", "maintenance.strategy", "pack.threads", "pack.windowmemory", "http.postbuffer", "credential.usehttppath", "gui.wmstate", "gui.geometry",
})
# fmt: on


def is_plain(cwd: str) -> bool:
    """Whether git, looking at the repository `cwd` is in, starts no program that repository names.

    True outside any repository. Anything unusual is not plain: what cannot be read, what is too large, a folder
    that is itself laid out like a repository.
    """
    try:
        return _is_plain_from(cwd, 0)
    except (OSError, ValueError):
        return False


def _is_plain_from(cwd: str, depth: int) -> bool:
    folder = os.path.realpath(cwd)
    while True:
        if _looks_bare(folder):
            return False
        entry = os.path.join(folder, ".git")
        if os.path.lexists(entry):
            return _is_plain_tree(folder, entry, depth)
        parent = os.path.dirname(folder)
        if parent == folder:
            return True
        folder = parent


def _looks_bare(folder: str) -> bool:
    return all(os.path.lexists(os.path.join(folder, name)) for name in ("HEAD", "objects", "refs"))


def _is_plain_tree(worktree: str, entry: str, depth: int) -> bool:
    git_folder = _git_folder(worktree, entry)
    if git_folder is None or depth > MAX_SUBMODULE_DEPTH:
        return False
    common = _common_folder(git_folder)
    configs = [os.path.join(common, "config"), os.path.join(common, "config.worktree")]
    configs.append(os.path.join(git_folder, "config.worktree"))
    if not all(_is_harmless_config(path) for path in configs):
        return False
    if os.path.lexists(os.path.join(common, "hooks", "post-index-change")):
        return False
    return _are_submodules_plain(worktree, git_folder, depth)


def _git_folder(worktree: str, entry: str) -> str | None:
    """Where `.git` leads: a folder, or a file that names one."""
    if os.path.isdir(entry):
        return entry
    text = _read_text(entry)
    if text is None or not text.startswith("gitdir: "):
        return None
    folder = os.path.join(worktree, text.removeprefix("gitdir: ").rstrip("\n"))
    return folder if os.path.isdir(folder) else None


def _common_folder(git_folder: str) -> str:
    named = os.path.join(git_folder, "commondir")
    if not os.path.lexists(named):
        return git_folder
    text = _read_text(named)
    if text is None:
        raise ValueError("commondir cannot be read")
    return os.path.join(git_folder, text.rstrip("\n"))


def _read_text(path: str) -> str | None:
    """A small plain file, or None for anything else."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_CONFIG_BYTES:
            return None
        data = file.read(MAX_CONFIG_BYTES + 1)
    return data.decode("utf-8", "surrogateescape") if len(data) <= MAX_CONFIG_BYTES else None


def _is_harmless_config(path: str) -> bool:
    if not os.path.lexists(path):
        return True
    text = _read_text(path)
    return text is not None and all(key in _HARMLESS for key in _keys(text))


def _keys(text: str) -> list[str]:
    """Every setting in a config text, as `section.key` or `section.*.key`; what is not understood is a key too."""
    found: list[str] = []
    section = ""
    lines = iter(text.removeprefix("\ufeff").split("\n"))
    for line in lines:
        line = line.strip(" \t\r\f\v")
        while line.startswith("["):
            match = _SECTION.match(line)
            if match is None:
                return [*found, "?"]
            section = match[1].lower() + (".*" if match[2] is not None else "")
            if match[2] is None and "." in match[1]:
                section = match[1].lower().partition(".")[0] + ".*"
            line = line[match.end() :].lstrip()
        if not line or line[0] in "#;":
            continue
        key = _KEY.match(line)
        if key is None or (
            "\\" in line.removesuffix("\\")
            and not section.startswith(("remote", "branch", "user", "submodule"))
        ):
            return [*found, "?"]
        found.append(f"{section}.{key[1].lower()}")
        if line.endswith("\\"):  # a value that goes on: the next line may hide anything
            return [*found, "?"]
    return found


def _are_submodules_plain(worktree: str, git_folder: str, depth: int) -> bool:
    """Git looks into submodules with their own settings in force, so they count too."""
    if any(name.startswith("sharedindex.") for name in os.listdir(git_folder)):
        return False
    index = os.path.join(git_folder, "index")
    if not os.path.lexists(index):
        return True
    if not stat.S_ISREG(os.stat(index).st_mode) or os.stat(index).st_size > MAX_INDEX_BYTES:
        return False
    with open(index, "rb") as file:
        data = file.read(MAX_INDEX_BYTES)
    if _GITLINK not in data:
        return True
    paths = _gitlinks(data)
    if paths is None:
        return False
    return all(_is_plain_submodule(os.path.join(worktree, path), depth) for path in paths)


def _is_plain_submodule(folder: str, depth: int) -> bool:
    entry = os.path.join(folder, ".git")
    return not os.path.lexists(entry) or _is_plain_tree(folder, entry, depth + 1)


def _gitlinks(data: bytes) -> list[str] | None:
    """The paths of submodules in an index of version 2 or 3; None for one that is laid out otherwise."""
    version, count = int.from_bytes(data[4:8], "big"), int.from_bytes(data[8:12], "big")
    if data[:4] != b"DIRC" or version not in (2, 3):
        return None
    found: list[str] = []
    at = 12
    for _ in range(count):
        flags = int.from_bytes(data[at + 60 : at + 62], "big")
        start = at + (64 if flags & 0x4000 else 62)
        end = data.find(b"\x00", start)
        if end < 0:
            return None
        if data[at + 24 : at + 28] == _GITLINK:
            found.append(os.fsdecode(data[start:end]))
        at += (end - at) // 8 * 8 + 8
    return found
