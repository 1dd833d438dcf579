"""Compose git calls that only read, and run no program that a repository configures.

A repository decides what git runs: hooks, fsmonitor, pagers, external diffs, converters, signature checks, a command
for the alternates, a program that fetches missing objects. `compose` builds a call in which all of that is off, from
a short list of subcommands and of options that neither execute nor write. Settings given with `-c` win over every
file, so it does not matter which file of a repository says what.

`first_commit` and `fetch_calls` are what writes, in a folder that nobody else has written to; the second is all that
reaches anywhere, over the one protocol it is told, and checks nothing out. `worktree_call` writes working trees that
are ours, and what belongs to them in somebody's repository.

Two things stay, and are dealt with in `git_repository`: filters, which only their name could switch off, and a
`core.worktree` that points somewhere else.

GitRefused   a call that is not on the list; a mistake of the caller, never of the repository
"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_SETTINGS = (
    # Programs
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.editor=false",
    "core.askPass=false",
    "core.sshCommand=false",
    "core.gitProxy=false",
    "core.alternateRefsCommand=false",
    "credential.helper=",
    "diff.external=",
    "gpg.program=false",
    "gpg.openpgp.program=false",
    "gpg.x509.program=false",
    "gpg.ssh.program=false",
    "log.showSignature=false",
    "protocol.allow=never",
    # Other repositories inside this one, each with settings of its own
    "diff.ignoreSubmodules=dirty",
    "diff.submodule=short",
    "fetch.recurseSubmodules=false",
    "safe.bareRepository=explicit",
    "status.submoduleSummary=false",
    "submodule.recurse=false",
    # Writing, and everything that would change what is read back
    "color.ui=false",
    "core.quotePath=false",
    "core.untrackedCache=false",
    "diff.autoRefreshIndex=false",
    "diff.suppressBlankEmpty=false",
    "gc.auto=0",
    "log.diffMerges=separate",
    "maintenance.auto=false",
)

VARIABLES: Mapping[str, str] = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_ASKPASS": "false",
    "GIT_EDITOR": "false",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_SSH_COMMAND": "false",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
    "PAGER": "cat",
    "SSH_ASKPASS_REQUIRE": "never",
}
"""What every call is told in its environment, over `clean_environment`."""

_DIFF = (
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--no-relative",
    "--ignore-submodules=dirty",
    "--submodule=short",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)
_DIFF_OPTIONS = (
    r"--(cached|patch|no-patch|stat|numstat|binary|full-index|name-only|name-status|no-renames)"
    r"|--unified=\d{1,3}|-z"
)
_LOG_OPTIONS = (
    rf"{_DIFF_OPTIONS}|--max-count=\d{{1,6}}|--(first-parent|no-merges)"
    r"|--format=(oneline|short|medium|full|fuller|raw|tformat:.*)"
)
_CHECKS_SIGNATURES = re.compile(r"%[-+ ]?[G(]")


class Subcommand(NamedTuple):
    """What is always said to a subcommand, which options may follow, and how many names after them.

    `content`: it looks into files of the working tree, so filters could run. `literal`: it can be told that paths are
    no patterns; where it cannot, none may look like one.
    """

    always: tuple[str, ...] = ()
    options: str = ""
    most_names: int = 1_000
    paths: bool = True
    content: bool = False
    literal: bool = True


SUBCOMMANDS: Mapping[str, Subcommand] = {
    "branch": Subcommand(("--show-current",), most_names=0, paths=False),
    "check-ignore": Subcommand((), r"--quiet", literal=False),
    "config": Subcommand(("--null", "--includes", "--get-regexp"), most_names=1, paths=False),
    "diff": Subcommand(_DIFF, _DIFF_OPTIONS, most_names=2, content=True),
    "log": Subcommand(
        (*_DIFF, "--no-show-signature", "--no-diff-merges", "--no-decorate", "--format=medium"), _LOG_OPTIONS
    ),
    "ls-files": Subcommand((), r"-z|--(cached|others|stage|exclude-standard|full-name|deduplicate)"),
    "merge-base": Subcommand((), r"--(all|is-ancestor)", paths=False),
    "rev-parse": Subcommand(
        (),
        r"--(verify|quiet|short|abbrev-ref|symbolic-full-name|show-toplevel|show-prefix|show-object-format"
        r"|absolute-git-dir|git-common-dir|is-inside-work-tree)",
        paths=False,
    ),
    "show": Subcommand(
        (*_DIFF, "--no-show-signature", "--no-diff-merges", "--no-decorate", "--format=medium"), _LOG_OPTIONS
    ),
    "status": Subcommand(
        ("--porcelain=v2", "-z", "--branch", "--ignore-submodules=dirty"),
        r"--(untracked-files=(no|normal|all)|no-renames|no-ahead-behind)",
        most_names=0,
        content=True,
    ),
    "worktree": Subcommand(("list", "--porcelain", "-z"), most_names=0, paths=False),
}


class GitRefused(ValueError):
    """This is not a call Bridle makes."""


class GitCall(NamedTuple):
    """A call ready to start: with exactly `variables` laid over `clean_environment` of the caller's."""

    argv: tuple[str, ...]
    variables: Mapping[str, str]
    content: bool


def compose(
    subcommand: str,
    *,
    options: Sequence[str] = (),
    names: Sequence[str] = (),
    paths: Sequence[str] = (),
    filtered_by: str | None = None,
    program: str = "git",
) -> GitCall:
    """The call for `subcommand`, its options, then revisions or other `names`, then `paths`, taken literally.

    `filtered_by` asks `ls-files` for the files that the attributes give to this filter. Raises `GitRefused`.
    """
    known = SUBCOMMANDS.get(subcommand)
    if known is None:
        raise GitRefused(f"git {subcommand} is not a call of ours")
    for option in options:
        if not re.fullmatch(known.options, option) or _CHECKS_SIGNATURES.search(option):
            raise GitRefused(f"git {subcommand} with {option} is not a call of ours")
    for name in names:
        if not name or name.startswith("-") or "\0" in name:
            raise GitRefused(f"{name!r} is not a name for git {subcommand}")
    if len(names) > known.most_names or any(not path or "\0" in path for path in paths):
        raise GitRefused(f"these are too many names, or no paths, for git {subcommand}")
    if (paths or filtered_by) and not known.paths:
        raise GitRefused(f"git {subcommand} takes no paths here")
    if filtered_by is not None and (subcommand != "ls-files" or not is_plain_filter_name(filtered_by)):
        raise GitRefused(f"{filtered_by!r} is not a filter to ask for")
    if not known.literal and any(path.startswith(":") for path in paths):
        raise GitRefused(f"git {subcommand} would take a path for a pattern")
    literal = ("--literal-pathspecs",) if known.literal and not filtered_by else ()
    where = (f":(top,attr:filter={filtered_by})",) if filtered_by else tuple(paths)
    behind = ("--", *where) if known.paths else ()
    head = (program, "--no-pager", "--no-optional-locks", *literal, *_settings())
    return GitCall(
        (*head, subcommand, *known.always, *options, *names, *behind), dict(VARIABLES), known.content
    )


_AUTHOR = ("-c", "user.name=Bridle", "-c", "user.email=bridle@localhost", "-c", "commit.gpgSign=false")


def first_commit(message: str) -> tuple[GitCall, ...]:
    """The calls that make a folder of our own a repository with one commit. No template, hook or signature of the
    person's takes part."""
    return tuple(
        GitCall(("git", *_settings(), *_AUTHOR, *words), dict(VARIABLES), content=True)
        for words in (
            ("init", "--quiet", "--template="),
            ("add", "."),
            ("commit", "--quiet", "--no-verify", "-m", message),
        )
    )


def quiet_variables(env: Mapping[str, str], *, filters: Sequence[str] = ()) -> dict[str, str]:
    """What has a git that a person runs start no program of the repository's: added to the settings that their
    environment `env` may hold for git already."""
    parts = (one.partition("=") for one in _SETTINGS)
    more = [*((name, value) for name, _, value in parts), *_without_filters(filters)]
    given = env.get("GIT_CONFIG_COUNT", "")
    return _as_variables(more, int(given) if given.isascii() and given.isdigit() else 0)


def worktree_call(*words: str, filters: Sequence[str] = (), program: str = "git") -> GitCall:
    """A call that makes, commits or removes a working tree of ours, as Bridle: no hook, no signature, and none of the
    `filters`, which are all that are configured. A name may hold any character, so they are no words of the call."""
    if words[0] not in ("worktree", "reset", "add", "update-index", "commit", "branch"):
        raise GitRefused(f"git {words[0]} is not a call of ours")
    variables = {**VARIABLES, **_as_variables(_without_filters(filters), 0)}
    return GitCall((program, *_settings(), *_AUTHOR, *words), variables, content=True)


def _without_filters(filters: Sequence[str]) -> list[tuple[str, str]]:
    return [
        (f"filter.{name}.{what}", "false" if what == "required" else "")
        for name in filters
        for what in ("clean", "smudge", "process", "required")
    ]


def _as_variables(settings: Sequence[tuple[str, str]], begin: int) -> dict[str, str]:
    """Settings as git takes them from its environment, behind so many that are there."""
    keys = {f"GIT_CONFIG_KEY_{begin + at}": key for at, (key, _) in enumerate(settings)}
    values = {f"GIT_CONFIG_VALUE_{begin + at}": value for at, (_, value) in enumerate(settings)}
    return {"GIT_CONFIG_COUNT": str(begin + len(settings)), **keys, **values}


class RemotePlace(NamedTuple):
    """Where a repository is fetched from, and the one protocol that may be used for it."""

    url: str
    protocol: str


_SCP_LIKE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[^\s:][^\s]*")
_URL = re.compile(r"(https|ssh|file)://([^/\s]*)(/\S*)")


def remote_place(text: str) -> RemotePlace | None:
    """A repository by https, ssh or file; None for anything else, also where a password stands in it."""
    if _SCP_LIKE.fullmatch(text):
        return RemotePlace(text, "ssh")
    found = _URL.fullmatch(text)
    if found is None:
        return None
    protocol, host, _ = found.groups()
    user, at, name = host.rpartition("@")
    if at and (protocol != "ssh" or ":" in user):
        return None
    if name.startswith("-") or (protocol == "file") != (not host):
        return None
    return RemotePlace(text, protocol)


def fetch_calls(place: RemotePlace, ref: str, *, program: str = "git") -> tuple[GitCall, ...]:
    """The calls that make an empty folder of our own a repository with what `place` has as `ref`, as FETCH_HEAD.

    Only the last commit comes, nothing is checked out, and nobody's settings of git take part. Raises `GitRefused`.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_./-]{0,199}", ref) or ".." in ref:
        raise GitRefused(f"{ref!r} is no name of a version")
    without = ("protocol.allow=", "core.sshCommand=")
    kept = [one for one in _SETTINGS if not one.startswith(without)]
    more = ["transfer.fsckObjects=true", "core.symlinks=false"]
    settings = [word for setting in (*kept, *more) for word in ("-c", setting)]
    variables = {
        **VARIABLES,
        "GIT_ALLOW_PROTOCOL": place.protocol,
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes" if place.protocol == "ssh" else "false",
        **_NOBODYS_SETTINGS,
    }
    fetch = (
        "fetch",
        "--quiet",
        "--depth=1",
        "--no-tags",
        "--no-recurse-submodules",
        "--no-write-commit-graph",
    )
    return tuple(
        GitCall((program, *settings, *words), variables, content=False)
        for words in (("init", "--quiet", "--template="), (*fetch, "--end-of-options", place.url, ref))
    )


def fetched_call(*words: str, program: str = "git") -> GitCall:
    """A look at what was fetched: its commit, its files, their content as it is stored."""
    if words[0] not in ("rev-parse", "ls-tree", "cat-file"):
        raise GitRefused(f"git {words[0]} is not a look at what was fetched")
    return GitCall((program, *_settings(), *words), {**VARIABLES, **_NOBODYS_SETTINGS}, content=False)


_NOBODYS_SETTINGS = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
}


def _settings() -> list[str]:
    return [word for setting in _SETTINGS for word in ("-c", setting)]


def is_plain_filter_name(name: str) -> bool:
    """Whether `compose` can ask for the files of this filter."""
    return re.fullmatch(r"[A-Za-z0-9_-]+", name) is not None


def clean_environment(env: Mapping[str, str]) -> dict[str, str]:
    """`env` without anything that is addressed to git: another repository, settings, traces, programs."""
    return {name: value for name, value in env.items() if not name.upper().startswith("GIT_")}


_OF_ANOTHER_REPOSITORY = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_CEILING_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_DIR",
        "GIT_GRAFT_FILE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_NAMESPACE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_QUARANTINE_PATH",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    }
)


def own_environment(env: Mapping[str, str]) -> dict[str, str]:
    """`env` for a git that a person runs themselves: all of theirs, but nothing that names another repository than the
    one they were shown. It asks nobody: there is no terminal for an answer."""
    kept = {name: value for name, value in env.items() if name not in _OF_ANOTHER_REPOSITORY}
    return {**kept, "GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat", "GIT_EDITOR": "false"}


_NOT_IN_BRANCHES = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")


def branch_name_problem(name: str) -> str:
    """Why this cannot name a branch, as a clause; empty where it can. Stricter than git where a name could be taken for
    an option, or does not look like what it is."""
    if not name:
        return "it is empty"
    if name.startswith("-"):
        return "it begins with a dash"
    if not name.isprintable() or not _is_utf8(name):
        return "it holds characters that do not show"
    if _NOT_IN_BRANCHES.search(name) or name == "@":
        return "git allows no blank, ~ ^ : ? * [ \\ .. @{ or // in it"
    parts = name.split("/")
    if any(not part or part.startswith(".") or part.endswith((".", ".lock")) for part in parts):
        return "no part of it may be empty, begin or end with a dot, or end with .lock"
    if name == "HEAD" or len(name) > _LONGEST_BRANCH:
        return f"it is too long (at most {_LONGEST_BRANCH} characters)" if name != "HEAD" else "HEAD is taken"
    return ""


_LONGEST_BRANCH = 200


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def program_on(path: str, name: str, *, outside: str) -> str | None:
    """The program that `path`, a PATH, finds first: never one in a relative folder or below the folder `outside`."""
    shunned = os.path.realpath(outside)
    for folder in path.split(os.pathsep):
        if not os.path.isabs(folder):
            continue
        found = os.path.join(folder, name)
        inside = os.path.commonpath((shunned, os.path.realpath(found))) == shunned
        if not inside and os.path.isfile(found) and os.access(found, os.X_OK):
            return found
    return None
