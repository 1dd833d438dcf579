"""What is never run, whatever anybody says: wiping a system or a home, fork bombs, running what was just fetched.

Every refusal has a stable rule and the end of a sentence for people (`it deletes your home folder`).
"""

from __future__ import annotations

import functools
import os
import pwd
import re
from collections.abc import Iterable, Sequence
from posixpath import normpath

import msgspec

from bridle.shell.classification import Classification
from bridle.shell.programs import CREDENTIAL_TOOLS, FETCHERS, INTERPRETERS, POWERSHELLS, SHELLS
from bridle.shell.shell_words import UNKNOWN, Word, names
from bridle.shell.table_credentials import STORED, discloses, is_known, refused_credentials


class ScriptRefusal(msgspec.Struct, frozen=True):
    """Why a script must never run. `why` is the end of a sentence."""

    rule: str
    why: str


_SYSTEM_FOLDERS = names(
    "/bin /boot /dev /etc /home /lib /lib32 /lib64 /libx32 /opt /proc /root /run /sbin /srv /sys /usr "
    "/var /usr/bin /usr/lib /usr/local /usr/sbin /usr/share /var/lib /var/log /System /Library "
    "/Applications /Users /private /private/etc /private/var /Volumes /mnt /media"
)
_DEVICE = re.compile(
    r"/dev/(?:r?disk[0-9]|[hsv]d[a-z]|xvd[a-z]|nvme[0-9]|mmcblk[0-9]|md[0-9]|dm-[0-9]|mapper/|loop[0-9]|sr[0-9]|mem$|kmem$|port$)"
)
_EVERYTHING_IN = re.compile(r"/(?:\*|\.\*|\.\[!\.\]\*|\*\*|\{\*,\.\*\})/*$")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_MAX_GUESSES = 32
_SOMEBODYS_HOME = re.compile(r"~[A-Za-z0-9._-]*/*(?:\.?\*)?")
_FORK_BOMB = ScriptRefusal("fork_bomb", "it starts itself again and again until the machine stops")
_FETCH_AND_RUN = ScriptRefusal("fetch_and_run", "it runs whatever it fetches from the network")
_DEVICE_WRITE = ScriptRefusal("device", "it overwrites a disk")
_CREDENTIALS = ScriptRefusal("credential_tool", STORED)
_OWN_AUTHORITY = ScriptRefusal("own_authority", "it changes what Bridle may do, which only you can")
_OWN_CHANGES = {
    "login": None, "logout": None, "creds": None,
    "trust": {"ack", "revoke"}, "permissions": {"promote", "revoke"}, "policy": {"promote", "revoke"},
    "config": {"set", "unset", "edit"}, "sandbox": {"give-back"},
    "token": None, "mcp": {"allow", "forget"}, "plugins": {"add", "update", "remove"}, "profiles": {"new"},
}  # fmt: skip
"""Verbs of Bridle that change authority, with the actions that do; None: every one."""


def refused_command(judgement: Classification, text: str) -> ScriptRefusal | None:
    """Whether one simple command, wrappers taken off, is never run. `text` is how it was written."""
    name = judgement.name.rpartition("/")[2]
    if name in CREDENTIAL_TOOLS:
        return _CREDENTIALS
    if is_known(name) and (why := refused_credentials(name, [word.known for word in judgement.words[1:]])):
        return ScriptRefusal(_CREDENTIALS.rule, why)
    if _changes_own_authority(name, judgement.words):
        return _OWN_AUTHORITY
    if any(
        use.access == "write" and use.path is not None and _DEVICE.match(normpath(use.path))
        for use in judgement.uses
    ):
        return _DEVICE_WRITE
    if name.startswith("mkfs") or name in ("wipefs", "shred", "blkdiscard", "mke2fs"):
        return _formats(name, judgement.words)
    if name in ("rm", "chmod", "chown", "chgrp", "mv", "find", "unlink"):
        return _hits_protected(name, judgement)
    if name.lower() in _REMOVERS or name.lower() in POWERSHELLS:
        return refused_powershell(text)
    return None


def prints_secret(judgement: Classification) -> bool:
    """Whether one simple command, wrappers taken off, prints a secret that it takes a person to agree to."""
    name = judgement.name.rpartition("/")[2]
    return is_known(name) and discloses(name, [word.known for word in judgement.words[1:]])


def _changes_own_authority(name: str, words: Sequence[Word]) -> bool:
    given = [word.known for word in words[1:]]
    if _is_interpreter(name) and given[:2] == ["-m", "bridle"]:
        name, given = "bridle", given[2:]
    verb, action = (*(word for word in given if not word.startswith("-")), "", "")[:2]
    if name != "bridle" or verb not in _OWN_CHANGES:
        return False
    actions = _OWN_CHANGES[verb]
    return actions is None or action in actions


def _formats(name: str, words: Sequence[Word]) -> ScriptRefusal | None:
    erases = name != "wipefs" or any(
        word.known in ("-a", "--all", "-af", "-fa") or word.known.startswith("-o") for word in words
    )
    on_device = any(
        word.known.startswith("/dev/") and word.known not in ("/dev/null", "/dev/urandom") for word in words
    )
    return _DEVICE_WRITE if erases and on_device else None


def _hits_protected(name: str, judgement: Classification) -> ScriptRefusal | None:
    words = judgement.words[1:]
    if any(word.text == "--no-preserve-root" for word in words):
        return ScriptRefusal("delete_root", "it switches off the protection of the whole file system")
    if name == "find":
        return _find_deletes(judgement)
    recursive = name in ("mv", "unlink") or any(_is_recursive(word.known) for word in words)
    if not recursive:
        return None
    given = [Word(text, text, starts=text) for text in judgement.spoken] if UNKNOWN in words else []
    for word in [*(words[:-1] if name == "mv" else words), *given]:
        refusal = _protected(
            word, judgement, "deletes" if name in ("rm", "mv", "unlink") else "changes the rights on"
        )
        if refusal is not None:
            return refusal
    return None


def _is_recursive(option: str) -> bool:
    if option.startswith("--"):
        return len(option) > 3 and "--recursive".startswith(option)
    return option.startswith("-") and ("r" in option or "R" in option)


def _find_deletes(judgement: Classification) -> ScriptRefusal | None:
    words = [word.known for word in judgement.words[1:]]
    selects = any(
        word.startswith(
            (
                "-name",
                "-iname",
                "-path",
                "-regex",
                "-iregex",
                "-newer",
                "-mtime",
                "-size",
                "-user",
                "-empty",
                "-mmin",
                "-atime",
                "-ctime",
                "-perm",
            )
        )
        for word in words
    )
    deletes = "-delete" in words or any(word.rpartition("/")[2] == "rm" for word in words)
    if not deletes or selects:
        return None
    for word in judgement.words[1:]:
        if word.known.startswith("-"):
            break
        refusal = _protected(word, judgement, "deletes")
        if refusal is not None:
            return refusal
    return None


@functools.cache
def account_home() -> str:
    """The home folder of whoever runs this, by the account: what `~` means to a shell that has no HOME."""
    try:
        return normpath(pwd.getpwuid(os.getuid()).pw_dir) or "/"
    except KeyError:  # an account without an entry has no home; whatever `~` is then, nobody may delete it
        return "/"


def _protected(word: Word, judgement: Classification, verb: str) -> ScriptRefusal | None:
    kind = "delete" if verb == "deletes" else "rights"
    homes = {judgement.home, account_home()}
    if _SOMEBODYS_HOME.fullmatch(word.source):
        return ScriptRefusal(f"{kind}_home", f"it {verb} a home folder")
    for place in _places(word, judgement):
        everything = _EVERYTHING_IN.search(place) if word.glob or word.text is not None else None
        path = normpath(place[: everything.start()] or "/") if everything else normpath(place)
        path = "/" + path.lstrip("/")
        if path == "/":
            return ScriptRefusal(f"{kind}_root", f"it {verb} the whole file system")
        if any(home == path or home.startswith(path + "/") for home in homes):
            return ScriptRefusal(f"{kind}_home", f"it {verb} your home folder")
        if path in _SYSTEM_FOLDERS:
            return ScriptRefusal(f"{kind}_system", f"it {verb} a folder of the system")
    return None


def _places(word: Word, judgement: Classification) -> list[str]:
    """Every path a word may mean, guesses included."""
    if word.text is not None:
        return judgement.places(word)
    guesses = [Word(text, text, starts=text) for text in _guesses(word.source, judgement)]
    return [place for guess in guesses for place in judgement.places(guess)]


def _guesses(source: str, judgement: Classification) -> list[str]:
    """What an unknown word may become: its variables by what the script puts in them, its braces spelled out."""
    texts = [source]
    for name, values in [("HOME", [judgement.home]), *judgement.assigned.items()]:
        variable = re.compile(rf"\$(?:{re.escape(name)}(?![A-Za-z0-9_])|\{{{re.escape(name)}[^}}]*\}})")
        texts = [
            variable.sub(lambda _, value=value: value, text) if variable.search(text) else text
            for text in texts
            for value in values[:_MAX_GUESSES]
        ][:_MAX_GUESSES]
    texts = [spelled for text in texts for spelled in _spelled(text)][:_MAX_GUESSES]
    plain = (re.sub(r"['\"\\]", "", text) for text in texts)
    return [
        judgement.home + text[1:] if re.match(r"~(?:/|$)", text) else text
        for text in plain
        if "$" not in text
    ]


def _spelled(text: str) -> list[str]:
    match = _BRACES.search(text)
    if match is None:
        return [text]
    return [text[: match.start()] + choice + text[match.end() :] for choice in match[1].split(",")]


# what was fetched is run


class FinalProgram(msgspec.Struct, frozen=True):
    """One program a command ends in, wrappers taken off. `reads_code` when it runs what comes on its input."""

    name: str
    words: tuple[Word, ...]
    reads_code: bool = False


def reads_code(name: str, words: Sequence[Word]) -> bool:
    """Whether a shell or an interpreter takes its program from its input."""
    if name in ("source", "."):
        return any(word.text in ("/dev/stdin", "/proc/self/fd/0", "/dev/fd/0") for word in words[1:])
    if name not in SHELLS and not _is_interpreter(name) and name.lower() not in POWERSHELLS:
        return False
    for index, word in enumerate(words[1:], 1):
        text = word.text
        if text is None:
            return False
        if text in ("-", "/dev/stdin", "/proc/self/fd/0", "/dev/fd/0") or (text == "-s" and name in SHELLS):
            return True
        if _gives_code(name, text):
            return False
        if text.startswith(("-", "+")):
            continue
        takes_value = words[index - 1].text in (
            "-o",
            "+o",
            "-O",
            "-W",
            "-X",
            "-r",
            "-I",
            "--rcfile",
            "--init-file",
        )
        if not takes_value:
            return False
    return True


def _gives_code(name: str, option: str) -> bool:
    if option in ("--version", "--help", "-V", "-h", "--eval", "--print", "-Command", "-File"):
        return True
    letters = option[1:] if option.startswith("-") and not option.startswith("--") else ""
    codes = {"python": "cm", "perl": "eE", "ruby": "e", "node": "ep", "php": "rf", "lua": "e"}
    wanted = next(
        (value for key, value in codes.items() if name.startswith(key)), "c" if name in SHELLS else "ec"
    )
    return any(letter in letters for letter in wanted)


@functools.lru_cache(maxsize=256)
def _is_interpreter(name: str) -> bool:
    return name in INTERPRETERS or re.fullmatch(r"(?:python|perl|ruby|php|lua)[0-9.]+", name) is not None


def is_code_runner(name: str) -> bool:
    return (
        name in SHELLS
        or _is_interpreter(name)
        or name in ("eval", "source", ".")
        or name.lower() in POWERSHELLS
    )


def refused_feed(
    leaves: Iterable[FinalProgram], upstream: Iterable[FinalProgram], *, by_argument: bool
) -> ScriptRefusal | None:
    """What comes through a pipe: fetched on one side, run on the other, from input or as an argument."""
    runs = by_argument or any(leaf.reads_code for leaf in leaves)
    return _FETCH_AND_RUN if runs and any(is_fetch(leaf) for leaf in upstream) else None


def refused_inner(inner: Iterable[FinalProgram], *, run: bool) -> ScriptRefusal | None:
    """What a substitution gives: fetched inside, run outside."""
    return _FETCH_AND_RUN if run and any(is_fetch(leaf) for leaf in inner) else None


def is_fetch(leaf: FinalProgram) -> bool:
    return leaf.name in FETCHERS


def code_words(name: str, words: Sequence[Word]) -> list[Word]:
    """The words an interpreter runs rather than hands on: what follows `-c`, or else its first argument."""
    if name in ("eval", "source", "."):
        return list(words[1:])
    for index, word in enumerate(words[1:], 1):
        if word.text is not None and word.text.startswith("-") and _gives_code(name, word.text):
            return [word, *words[index + 1 : index + 2]]
        if word.text is None or not word.text.startswith("-"):
            return [word]
    return []


def refused_functions(*, multiplies: bool) -> ScriptRefusal | None:
    return _FORK_BOMB if multiplies else None


# PowerShell and cmd

_REMOVERS = frozenset({"remove-item", "ri", "rd", "del", "erase", "rmdir"})
_STATEMENT = re.compile(r"[;|&{}()\n]|&&|\|\|")
_PS_RUNS = re.compile(r"(?<![\w-])(?:iex|invoke-expression)(?![\w-])", re.IGNORECASE)
_PS_FETCHES = re.compile(
    r"(?<![\w-])(?:iwr|irm|curl|wget|invoke-webrequest|invoke-restmethod|start-bitstransfer)(?![\w-])|downloadstring|downloadfile|webclient",
    re.IGNORECASE,
)
_PS_TOKEN = re.compile(r"\"[^\"]*\"|'[^']*'|[^\s,]+")
_PS_SYSTEM = re.compile(
    r"(?:[a-z]:|\\\\[?.]\\[a-z]:|\$(?:env:|\{env:)?(?:systemdrive|homedrive)\}?|%systemdrive%)[\\/]*(?:\*(?:\.\*)?)?"
    r"|(?:[a-z]:|\$(?:env:)?systemdrive|%systemdrive%)?[\\/]+"
    r"(?:windows|users|program ?files(?: \(x86\))?|programdata|system32|progra~[12])(?:[\\/].*)?"
    r"|(?:\$env:|\$\{env:|%)(?:systemroot|windir|userprofile|programfiles(?:\(x86\))?|programdata|homepath|appdata|home)[}%]?(?:[\\/].*)?"
    r"|(?:~|\$home|\$\{home\})(?:[\\/]*\*?)?|[\\/]+\*?"
    r"|/(?:bin|boot|etc|home|lib|lib64|opt|root|sbin|srv|usr|var|library|system|applications)(?:/\*?)?",
    re.IGNORECASE,
)


def refused_powershell(text: str) -> ScriptRefusal | None:
    """A recursive delete of a system path in a PowerShell or cmd text, whatever its quotes, aliases and order.

    Also running what was fetched.
    """
    if _PS_RUNS.search(text) and _PS_FETCHES.search(text):
        return _FETCH_AND_RUN
    for statement in _STATEMENT.split(text.replace("`", "").replace("^", "")):
        tokens = [token.strip("\"'") for token in _PS_TOKEN.findall(statement)]
        for index, token in enumerate(tokens):
            inner = token.strip("\"'")
            if " " in inner and inner != statement.strip() and refused_powershell(inner):
                return refused_powershell(inner)
            if token.lower() in _REMOVERS | {"rm"} and _removes_system(tokens[index + 1 :]):
                return ScriptRefusal(
                    "delete_system", "it deletes a folder of the system with all that is in it"
                )
    return None


def _removes_system(tokens: Sequence[str]) -> bool:
    lowered = [token.lower() for token in tokens]
    recursive = any(
        token in ("/s", "-rf", "-fr") or (len(token) > 1 and "-recurse".startswith(token.partition(":")[0]))
        for token in lowered
    )
    return recursive and any(
        _PS_SYSTEM.fullmatch(token.rstrip("\\/") or token) or _PS_SYSTEM.fullmatch(token) for token in tokens
    )


# texts nobody could read

_CRUDE_TOKEN = re.compile(r"[;&|()\n]+|[^\s;&|()]+")
_CRUDE_TARGET = re.compile(
    r"(?:/|~|\$HOME|\$\{HOME[^}]*\}|/(?:bin|boot|etc|home|lib|lib64|opt|root|sbin|srv|sys|usr|var|Users|System|Library))/?\*?"
)
_CRUDE_DEVICE = re.compile(r"(?:of=|>{1,2})?/dev/(?:[hsv]d[a-z]|nvme|mmcblk|disk|xvd)")


def refused_text(text: str, home: str) -> ScriptRefusal | None:
    """A coarse look at a text that could not be read, so that being unreadable is no way around a refusal."""
    bare = re.sub(r"['\"\\]", "", re.sub(r"\\\n|[^\x20-\x7e\n\t]", " ", text))
    if re.search(r":\s*\(\s*\)\s*\{", bare):
        return _FORK_BOMB
    return _crude(_CRUDE_TOKEN.findall(bare), home) or refused_powershell(text)


def _crude(tokens: Sequence[str], home: str) -> ScriptRefusal | None:
    fetched, words = False, list[str]()
    for token in [*tokens, ";"]:
        if token[0] not in ";&|()\n":
            words.append(token)
            continue
        names = {word.rpartition("/")[2] for word in words}
        refusal = _crude_command(names, words, home)
        if refusal is not None:
            return refusal
        if fetched and names & SHELLS:
            return _FETCH_AND_RUN
        fetched = (fetched or bool(names & {"curl", "wget"})) and token[0] in "|()"
        words = []
    return None


def _crude_command(names: set[str], words: Sequence[str], home: str) -> ScriptRefusal | None:
    if (
        names & CREDENTIAL_TOOLS
        and words
        and words[0].rpartition("/")[2] in CREDENTIAL_TOOLS | {"sudo", "env"}
    ):
        return _CREDENTIALS
    given = words[1:] if words[:1] in (["sudo"], ["env"]) else words
    name = given[0].rpartition("/")[2] if given else ""
    if refused_credentials(name, given[1:]) or discloses(name, given[1:]):
        return _CREDENTIALS
    if "--no-preserve-root" in words:
        return ScriptRefusal("delete_root", "it switches off the protection of the whole file system")
    writes = (
        names & {"dd", "tee", "cp"} or any(name.startswith("mkfs") for name in names) or ">" in "".join(words)
    )
    if writes and any(_CRUDE_DEVICE.match(word) for word in words):
        return _DEVICE_WRITE
    deletes = "rm" in names and any(_is_recursive(word) for word in words)
    if deletes and any(_CRUDE_TARGET.fullmatch(word) or word.rstrip("/*") == home for word in words):
        return ScriptRefusal(
            "delete_root", "it deletes the whole file system, a folder of the system or your home folder"
        )
    return None
