"""A closer look at programs whose words need more than a table: `find`, `sed`, `tar`, `test` and their like.

A check raises the class of a judgement, notes paths, and gives back the commands the program would run.
"""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Callable, Sequence
from posixpath import normpath
from typing import TypeAlias

import msgspec

from bridle.shell import languages
from bridle.shell.classification import ENDLESS, Classification
from bridle.shell.options import SplitWords, split_words
from bridle.shell.programs import HARMLESS_VALUES, HARMLESS_VARIABLES, Program
from bridle.shell.searches import found_below
from bridle.shell.shell_words import UNKNOWN, FoundFiles, Word, names


class InnerCommand(msgspec.Struct, frozen=True):
    """A command another one runs: its words, or with `script` a text the shell reads again."""

    words: tuple[Word, ...]
    script: bool = False


ProgramCheck: TypeAlias = Callable[[Classification, SplitWords, Program], Sequence[InnerCommand]]

_NOTHING: tuple[InnerCommand, ...] = ()

_FIND_FLAGS = names(
    "-print -print0 -ls -prune -quit -empty -readable -writable -executable -nouser -nogroup -depth -d "
    "-daystart -follow -mount -xdev -noleaf -true -false -not -a -and -o -or -warn -nowarn "
    "-ignore_readdir_race ! ( ) ,"
)
_FIND_VALUES = names(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -lname -ilname -type -xtype -size "
    "-mtime -atime -ctime -mmin -amin -cmin -perm -user -group -uid -gid -links -inum -maxdepth -mindepth "
    "-regextype -fstype -used -printf -newermt -newerat -newerct"
)
_FIND_NAMES = names("-name -iname -path -ipath -wholename -iwholename -regex -iregex")
_FIND_FILES = names("-newer -anewer -cnewer -samefile -neweraa -neweram -newerma -newermm")
_FIND_WRITES = frozenset({"-fprint", "-fprint0", "-fls"})
_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_TEST_FILES = names("-a -b -c -d -e -f -g -h -k -p -r -s -u -w -x -G -L -N -O -S")
_TEST_TEXT = frozenset({"-n", "-z", "-t"})
_TEST_BINARY = names("= == != < > -eq -ne -lt -le -gt -ge -nt -ot -ef =~")
_TEST_NUMBERS = names("-eq -ne -lt -le -gt -ge")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_TAR = (
    "-txcruAdvzjJapPkmhOSwW -f: -C: -T: -X: -b: --list --extract --get --create --append --update "
    "--delete --diff --compare --verbose --gzip --gunzip --bzip2 --xz --zstd --auto-compress --file: "
    "--directory: --files-from: --exclude: --exclude-from: --strip-components: --wildcards --no-recursion "
    "--numeric-owner --to-stdout --keep-old-files --same-permissions --exclude-vcs --sort: --owner: "
    "--group: --mtime: --transform: --force-local --totals --one-file-system "
)


def _find(judgement: Classification, _split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    words = list(judgement.words[1:])
    while words and words[0].known in ("-H", "-L", "-P", "-O1", "-O2", "-O3"):
        if words.pop(0).text == "-L":
            judgement.use(UNKNOWN, "read")
    roots: list[Word] = []
    while words and not (words[0].known.startswith("-") or words[0].known in ("(", "!", ",")):
        root = words.pop(0)
        if (root.text is None and (not root.starts or root.split)) or (
            root.glob and root.known[:1] in ("*", "?", "[")
        ):
            judgement.unproven("where it searches is not known")
        roots.append(root)
        judgement.use(root, "read")
    return _find_expression(judgement, words, roots or [Word(".", ".", starts=".")])


def _find_expression(
    judgement: Classification, words: list[Word], roots: list[Word]
) -> Sequence[InnerCommand]:
    inner: list[InnerCommand] = []
    names: list[str] = []
    acts = any(word.text in _FIND_RUNS for word in words)
    found = found_below(roots, _acting(words)) if acts else None
    while words:
        name = words.pop(0).text
        if name in _FIND_FLAGS:
            if name == "-follow":
                judgement.use(UNKNOWN, "read")
            elif name in ("!", "-not"):
                names.append("*")
            continue
        if name in _FIND_RUNS:
            end = _action_end(words)
            filled = [piece for word in words[:end] for piece in _found(word, roots, names, found)]
            inner.append(InnerCommand(tuple(filled)))
            words = words[end + 1 :]
            continue
        if name == "-delete":
            judgement.at_least("destructive", "deletes what it finds in {}")
            for root in roots:
                judgement.use(root, "delete")
            continue
        value = words.pop(0) if words else None
        if value is None or value.split or name is None or (value.glob and _may_act(value.known)):
            judgement.unproven("its conditions are not known")
        elif name in _FIND_NAMES:
            names.append(value.known.replace("\\", "").rpartition("/")[2] or "*")
        elif name in _FIND_FILES:
            judgement.use(value, "read")
        elif name in _FIND_WRITES or name == "-fprintf":
            judgement.at_least("writes")
            judgement.use(value, "write")
            words = words[1:] if name == "-fprintf" else words
        elif name not in _FIND_VALUES:
            judgement.unproven(f"{name[:20]} is not a known condition")
    return inner


def _action_end(words: Sequence[Word]) -> int:
    """Where the command of an `-exec` ends: at `;`, or at a `+` right behind `{}`."""
    for at, word in enumerate(words):
        if word.text == ";" or (word.text == "+" and at and words[at - 1].text == "{}"):
            return at
    return len(words)


def _acting(words: Sequence[Word]) -> list[Word]:
    """The words of a `find` with `-print` in place of each command that it runs."""
    left, kept = list(words), list[Word]()
    while left:
        word = left.pop(0)
        if word.text in _FIND_RUNS:
            del left[: _action_end(left) + 1]
            word = Word("-print", "-print", starts="-print")
        kept.append(word)
    return kept


def _found(
    word: Word, roots: Sequence[Word], names: Sequence[str], found: FoundFiles | None
) -> Sequence[Word]:
    """A bare `{}` becomes something below one of the roots; inside a longer word it stays unknown.

    What it is looked for by comes beside it: whoever looks for `.env` reads secrets. A wildcard of `find` means hidden
    files too.
    """
    if word.text != "{}":
        return [_filled(word)]
    fits = dict.fromkeys(("*", *names, *(_hidden(name) for name in names or ["*"] if name[0] in "*?[")))
    below: list[Word] = []
    for root in roots:
        if root.text is None:
            below.append(Word(None, word.source, starts=root.starts or "./", glob=True))
            continue
        folder = root.text.rstrip("/")
        for name in fits:
            text = f"{folder}/{name}"
            below.append(Word(text, word.source, starts=text, glob=True, found=found))
            found = None  # said once
    return below


def _hidden(name: str) -> str:
    """The hidden files that `find` means by a name with a wildcard in front, as a shell would write them."""
    match name[0]:
        case "*":
            return f".{name}" if name.strip("*") else ".[!.]*"
        case "?":
            return f".{name[1:]}"
        case _:
            return f".{name.partition(']')[2]}"


def _may_act(pattern: str) -> bool:
    """Whether files that a wildcard matches could be named like an action: `-name *` becomes any number of words."""
    acts = (*_FIND_RUNS, *_FIND_WRITES, "-fprintf", "-delete")
    return any(fnmatch.fnmatchcase(act, pattern) for act in acts)


def _filled(word: Word) -> Word:
    """`{}` will be a path that was found."""
    if "{}" not in word.known:
        return word
    return msgspec.structs.replace(word, text=None, starts=word.known.partition("{}")[0] or "./")


def _fd(judgement: Classification, split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    for at, word in enumerate(judgement.words):
        if word.text in _FD_RUNS:
            before = split_words(_FD_BEFORE, judgement.words[1:at])
            if before.problem or any(later.text == ";" for later in judgement.words[at:]):
                judgement.unproven(before.problem or "it runs more than one command")
            for path in before.arguments[1:]:
                judgement.use(path, "read")
            words = tuple(_filled(inner) for inner in judgement.words[at + 1 :])
            placed = any(inner.text is None for inner in words)
            return [InnerCommand(words if placed else (*words, UNKNOWN))]
    return _NOTHING


_FD_RUNS = frozenset({"-x", "-X", "--exec", "--exec-batch"})


_FD_BEFORE = Program(
    options="-HIusigFaLpl0q1 -d: -t: -e: -E: -S: -j: --hidden --no-ignore --type: --extension: --exclude: "
    "--max-depth: --glob",
    arguments="pattern",
)


def _sed(judgement: Classification, _split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    program = Program(
        options="-nErsuz -e: -f! -i^? -l: --quiet --silent --regexp-extended --separate --unbuffered --null-data "
        "--posix --debug --sandbox --expression: --line-length: --in-place^? --file!:"
    )
    split = split_words(program, judgement.words[1:])
    if split.problem or split.has("-f", "--file"):
        judgement.unproven(split.problem or "its script is in a file")
        return _NOTHING
    scripts = [used.values[0] for used in split.used if used.name in ("-e", "--expression") and used.values]
    files = split.arguments
    if not scripts:
        scripts, files = files[:1], files[1:]
    if not scripts:
        judgement.unproven("it has no script")
    writes = split.has("-i", "--in-place")
    if not all(_sed_proven(script, split) for script in scripts):
        judgement.unproven("its script is not proven harmless")
    if writes:
        judgement.at_least("writes", "changes {}")
    for word in files:
        judgement.use(word, "write" if writes else "read")
    return _NOTHING


def _sed_proven(script: Word, split: SplitWords) -> bool:
    if script.text is None or script.glob:
        return False
    return split.has("--sandbox") or languages.sed_only_prints(script.text)


def _awk(judgement: Classification, _split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    split = split_words(
        Program(
            options="-F: -v: -b -S --field-separator: --assign: --sandbox --posix --traditional --csv -k"
        ),
        judgement.words[1:],
        leading=True,
    )
    words = split.rest
    if split.problem or not words:
        judgement.unproven(split.problem or "it has no program")
        return _NOTHING
    program = words[0]
    values = [value for used in split.used for value in used.values]
    if program.text is None or program.glob or any(value.text is None for value in values):
        judgement.unproven("its program is not known")
    elif not languages.awk_only_prints(program.text):
        judgement.unproven("its program may run or write something")
    for word in words[1:]:
        if word.text is None or not re.match(r"[A-Za-z_][A-Za-z0-9_]*=", word.text):
            judgement.use(word, "read")
    return _NOTHING


def _expression(
    proven: Callable[[str], bool], *, file_option: str
) -> Callable[[Classification, SplitWords, Program], Sequence[InnerCommand]]:
    """For programs whose first argument is an expression in a language of their own."""

    def check(judgement: Classification, split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
        if split.has(file_option, "--from-file"):
            judgement.unproven("its expression is in a file")
            return _NOTHING
        arguments = [word for word in split.arguments if word.text not in ("eval", "e", "eval-all", "ea")]
        for word in arguments[:1]:
            if word.text is None or not proven(word.text):
                judgement.unproven("its expression is not proven harmless")
        return _NOTHING

    return check


def _printf(judgement: Classification, _split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    words = [word for word in judgement.words[1:] if word.text != "--"]
    if words and (words[0].text is None or words[0].glob or not languages.printf_only_prints(words[0].text)):
        judgement.unproven("its format is not proven harmless")
    return _NOTHING


def _test(judgement: Classification, _split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    """Only an operator that is known to be one is harmless: `-v` evaluates its operand, `-eq` too in `[[`."""
    words = list(judgement.words[1:])
    double = judgement.name == "[["
    if judgement.name in ("[", "[["):
        words = words[:-1]
    start = 0
    for end in range(len(words) + 1):
        if end < len(words) and not (
            words[end].bare and words[end].text in ("&&", "||", "-a", "-o", "(", ")")
        ):
            continue
        if end < len(words) and words[end].text == "-a" and end == start:
            continue
        if not _test_proven(judgement, words[start:end], double=double):
            judgement.unproven("its condition is not proven harmless")
            return _NOTHING
        start = end + 1
    return _NOTHING


def _test_proven(judgement: Classification, words: list[Word], *, double: bool) -> bool:
    while words and words[0].text == "!" and len(words) != 2:
        words = words[1:]
    expanded = any(word.split or (word.glob and word.bare) for word in words)
    if (expanded and not double) or any(word.text in ("-v", "-R") for word in words):
        return False
    match words:
        case []:
            return True
        case [_]:
            return True
        case [operator, operand] if operator.text in _TEST_FILES:
            judgement.use(operand, "read")
            return True
        case [operator, _]:
            return operator.text in _TEST_TEXT or operator.text == "!"
        case [left, operator, right] if operator.text in _TEST_BINARY:
            numbers = operator.text in _TEST_NUMBERS and double
            return not numbers or all(
                _INTEGER.fullmatch(word.known) or word.source in ("$#", "$?") for word in (left, right)
            )
        case _:
            return False


def _tar(judgement: Classification, _split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    words = list(judgement.words[1:])
    if words and words[0].text and not words[0].text.startswith("-"):
        letters = words[0].text
        if any(letter in letters[:-1] for letter in "fCTXb"):
            judgement.unproven("its options are not understood")
        words[0] = msgspec.structs.replace(words[0], text=f"-{letters}")
    split = split_words(Program(options=_TAR), words)
    if split.problem:
        judgement.unproven(split.problem)
        return _NOTHING
    archives = [used.values[0] for used in split.used if used.name in ("-f", "--file") and used.values]
    if any(word.text is None or ":" in word.text for word in archives) and not split.has("--force-local"):
        judgement.unproven("its archive may be on another machine")
    for used in split.used:
        if used.name in ("-T", "--files-from", "-X", "--exclude-from") and used.values:
            judgement.use(used.values[0], "read")
    folders = [used.values[0] for used in split.used if used.name in ("-C", "--directory") and used.values]
    _tar_mode(judgement, split, archives, folders)
    return _NOTHING


def _tar_mode(
    judgement: Classification, split: SplitWords, archives: list[Word], folders: list[Word]
) -> None:
    if split.has("-t", "--list", "-d", "--diff", "--compare"):
        for word in archives:
            judgement.use(word, "read")
        judgement.does = "lists what is in {}"
    elif split.has("-x", "--extract", "--get"):
        for word in archives:
            judgement.use(word, "read")
        if not split.has("-O", "--to-stdout"):
            judgement.at_least("writes", "unpacks into {}")
            for word in folders or [Word(".", ".", starts=".")]:
                judgement.use(word, "write")
    elif split.has("-c", "--create", "-r", "--append", "-u", "--update", "-A", "--delete"):
        judgement.at_least("writes")
        for word in archives:
            judgement.use(word, "write")
        for word in split.arguments:
            judgement.use(word, "read")
    else:
        judgement.unproven("what it does is not known")


def _dd(judgement: Classification, _split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    for word in judgement.words[1:]:
        name, _, value = word.known.partition("=")
        if word.text is None or word.glob:
            written = word.starts.startswith("of=")
            judgement.unproven("its words are not known")
            if written:
                judgement.use(UNKNOWN, "write")
            continue
        operand = msgspec.structs.replace(word, text=value, starts=value)
        if name == "of":
            judgement.at_least("writes")
            judgement.use(operand, "write")
        elif name == "if":
            judgement.use(operand, "read")
    return _NOTHING


def _date(judgement: Classification, split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    if any(not word.starts.startswith("+") for word in split.arguments):
        judgement.unproven("it may set the clock")
    return _NOTHING


def _second_is_written(
    judgement: Classification, split: SplitWords, _program: Program
) -> Sequence[InnerCommand]:
    if any(word.split or word.glob for word in split.arguments):
        judgement.unproven("which file it writes is not known")
    for word in split.arguments[1:]:
        judgement.at_least("writes")
        judgement.use(word, "write")
    return _NOTHING


def _no_directives(judgement: Classification, split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    if any(word.starts[:1] in ("+", "@") for word in split.arguments):
        judgement.unproven("its arguments may be commands")
    return _NOTHING


def _compress(judgement: Classification, split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    if split.has("-c", "--stdout", "--to-stdout", "-l", "--list", "-t", "--test") or not split.arguments:
        return _NOTHING
    judgement.at_least("writes")
    for word in split.arguments:
        judgement.use(word, "write")
    return _NOTHING


def _unzip(judgement: Classification, split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    if not split.has("-l", "-p", "-c", "-t", "-Z", "-v"):
        judgement.at_least("writes", "unpacks {}")
        if not split.has("-d"):
            judgement.use(Word(".", ".", starts="."), "write")
    return _NOTHING


def _variables(judgement: Classification, split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    names = [word.text for word in split.arguments]
    if any(name is None or not _NAME.fullmatch(name) or name.endswith("_proxy") for name in names):
        judgement.unproven("it changes the shell's variables")
    return _NOTHING


def _harmless_assignments(
    judgement: Classification, split: SplitWords, _program: Program
) -> Sequence[InnerCommand]:
    for word in split.arguments:
        name, equals, value = word.known.partition("=")
        if word.text is None or word.glob or not equals or not is_harmless_variable(name, value):
            judgement.at_least("executes", "changes the shell's variables")
    return _NOTHING


def is_harmless_variable(name: str, value: str | None) -> bool:
    """Whether setting it changes how things look and not what runs."""
    return name in HARMLESS_VARIABLES or (value is not None and HARMLESS_VALUES.get(name) == value)


def _set(judgement: Classification, split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    options = [used.values[0].text for used in split.used if used.name == "-o" and used.values]
    if any(option not in ("pipefail", "errexit", "nounset") for option in options):
        judgement.at_least("executes", "changes how the shell works")
    return _NOTHING


def _top(judgement: Classification, split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    if not (split.has("-b") and split.has("-n")):
        judgement.unproven("it goes on until it is stopped")
    return _NOTHING


def _ip(judgement: Classification, split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    words = [word.text for word in split.arguments]
    known = {"addr", "address", "a", "route", "r", "link", "l", "neigh", "n", "rule", "maddress"}
    if words and (
        words[0] not in known or (len(words) > 1 and words[1] not in ("show", "list", "ls", "sh", "s", "get"))
    ):
        judgement.unproven("it may change the network")
    return _NOTHING


def _status_only(judgement: Classification, split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    if any(word.text not in ("status", "show") for word in split.arguments):
        judgement.unproven("it may change the machine")
    return _NOTHING


def _needs(*options: str) -> ProgramCheck:
    """Without one of these options the program does something else."""

    def check(judgement: Classification, split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
        if not split.has(*options):
            judgement.unproven("what it does is not known")
        return _NOTHING

    return check


def _move(judgement: Classification, split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    """What is moved is gone from where it was."""
    sources = split.arguments if split.has("-t", "--target-directory") else split.arguments[:-1]
    for word in sources:
        judgement.use(word, "write")
    return _NOTHING


def _links(judgement: Classification, split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    """Listing folder after folder through links leads anywhere."""
    if split.has("-R", "--recursive") and split.has("-L", "--dereference"):
        judgement.use(UNKNOWN, "read")
    return _NOTHING


def _web_addresses(judgement: Classification, split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    """Where a file is expected an address will do."""
    addresses = [word.starts for word in split.arguments if ":" in word.starts]
    if addresses:
        judgement.at_least("network")
        judgement.urls.extend(addresses)
    return _NOTHING


_PS_VALUES = frozenset("oOpPuUCtTGgNskq")


def _ps(judgement: Classification, _split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    """An `e` without a dash, or an `E`, shows the environment of processes, and with it their secrets."""
    value = False
    for word in judgement.words[1:]:
        text = word.text
        if text is None:
            judgement.unproven("its options are not known")
            return _NOTHING
        if value or text.startswith("--") or not text:
            value = False
            continue
        letters = text.removeprefix("-")
        dashless = letters == text and letters.isalpha()
        if "E" in letters or (dashless and "e" in letters):
            judgement.unproven("it shows the environment of processes")
        value = letters[-1:] in _PS_VALUES
    return _NOTHING


def _recursive(judgement: Classification, split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    judgement.whole_folders = split.has("-r", "-R", "--recursive")
    return _NOTHING


def _remote_paths(judgement: Classification, split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    if any(":" in word.starts.partition("/")[0] for word in split.arguments):
        judgement.at_least("network", "copies over the network")
    return _NOTHING


def _one_argument(judgement: Classification, split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    if len(split.arguments) != 1 or split.arguments[0].split:
        judgement.at_least("writes", "changes the repository")
    return _NOTHING


def _ssh(judgement: Classification, split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    for word in split.arguments[:1]:
        if word.text is not None:
            judgement.urls.append(word.text)
    return _NOTHING


_SYSTEM_PROGRAMS = (
    "/bin/",
    "/sbin/",
    "/lib/",
    "/lib64/",
    "/usr/bin/",
    "/usr/sbin/",
    "/usr/lib/",
    "/usr/lib64/",
)


def _ldd(judgement: Classification, split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    """It starts the loader that a file names, so it is no more than a look only where nobody but the system writes."""
    for word in split.arguments:
        if word.text is None or word.glob or not normpath(word.text).startswith(_SYSTEM_PROGRAMS):
            judgement.unproven("it may start what it looks at")
    return _NOTHING


def _rg(judgement: Classification, split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    if split.has("--files") and split.arguments:
        judgement.use(split.arguments[0], "read")
    return _NOTHING


MAX_BYTES = 1024 * 1024
MAX_NUMBERS = 100_000
"""What a command may be told to make up without a question: no flood, and more than anybody reads."""
_SIZE = re.compile(r"([0-9]{1,15})(?:(b)|([kKMGTPEZYRQ])(iB|B)?)?")
_UNITS = " KMGTPEZYRQ"
_BYTE_COUNTS = {
    "head": ("-c", "--bytes"), "od": ("-N", "--read-bytes"), "xxd": ("-l",),
    "hexdump": ("-n", "--length"), "hd": ("-n",),
}  # fmt: skip


def _bounded(judgement: Classification, split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    """So many bytes of something endless are as good as a file of that size."""
    options = _BYTE_COUNTS[judgement.name]
    counts = [used.values[0].known for used in split.used if used.name in options and used.values]
    if any(_size(count) > MAX_BYTES for count in counts if not count.startswith("-")):
        judgement.unproven("it is told to print more than 1 MB")
    elif counts and not any(count.startswith("-") for count in counts):  # `-c -5`: all but the last five
        judgement.uses = [use for use in judgement.uses if use.path not in ENDLESS]
    return _NOTHING


def _size(text: str) -> float:
    """A number of bytes as these programs read it; without end where nobody knows."""
    match = _SIZE.fullmatch(text)
    if match is None:
        return math.inf
    number, blocks, unit, decimal = match.groups()
    if blocks or not unit:
        return int(number) * (512 if blocks else 1)
    return int(number) * (1000 if decimal == "B" else 1024) ** _UNITS.index(unit.upper())


def _seq(judgement: Classification, split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    formats = [used.values[0].known for used in split.used if used.name in ("-f", "--format") and used.values]
    words = [word.known for word in judgement.words[1:]]
    numbers = [word for word in words if _NUMBER.fullmatch(word)]  # `-1` looks like an option
    known = all(word.text is not None for word in judgement.words)
    if not known or not all(map(languages.printf_only_prints, formats)):
        judgement.unproven("how much it prints is not known")
    elif len(numbers) < len(split.arguments) or _numbers_between(*map(float, numbers[-3:])) > MAX_NUMBERS:
        judgement.unproven("it prints very many numbers")
    return _NOTHING


def _numbers_between(first: float = 1, second: float | None = None, third: float | None = None) -> float:
    """How many numbers `seq` prints for its one, two or three arguments."""
    start, step, end = 1.0, 1.0, first
    if second is not None:
        start, end = first, second
    if second is not None and third is not None:
        step, end = second, third
    return abs(end - start) / abs(step) if step else math.inf


_FOLLOWING = {"tail": ("-f", "-F", "--retry"), "journalctl": ("-f",), "dmesg": ("-w",)}


def _follows(judgement: Classification, split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    if split.has(*_FOLLOWING[judgement.name], "--follow"):
        judgement.unproven("it waits for more")
    return _NOTHING


def _endless(judgement: Classification, _split: SplitWords, _program: Program) -> Sequence[InnerCommand]:
    judgement.unproven("it never ends")
    return _NOTHING


CHECKS: dict[str, ProgramCheck] = {
    "find": _find,
    "fd": _fd,
    "sed": _sed,
    "awk": _awk,
    "jq": _expression(languages.jq_only_computes, file_option="-f"),
    "yq": _expression(languages.yq_only_computes, file_option="--from-file"),
    "printf": _printf,
    "test": _test,
    "tar": _tar,
    "dd": _dd,
    "date": _date,
    "second_is_written": _second_is_written,
    "no_directives": _no_directives,
    "compress": _compress,
    "unzip": _unzip,
    "variables": _variables,
    "harmless_assignments": _harmless_assignments,
    "set": _set,
    "top": _top,
    "ip": _ip,
    "status_only": _status_only,
    "needs_option": _needs("-l", "-L", "-s", "-S", "-p", "-W", "--list", "--listfiles", "--status", "--search",
                           "--print-architecture", "--get-selections", "--version"),
    "rpm": _needs("-q", "-qa", "--query"),
    "crontab": _needs("-l"),
    "ssh_keygen": _needs("-l"),
    "move": _move,
    "links": _links,
    "addresses": _web_addresses,
    "ps": _ps,
    "recursive": _recursive,
    "remote_paths": _remote_paths,
    "one_argument": _one_argument,
    "ssh": _ssh,
    "rg": _rg,
    "bounded": _bounded,
    "seq": _seq,
    "follows": _follows,
    "endless": _endless,
    "ldd": _ldd,
}  # fmt: skip

OWN_WORDS = frozenset({"find", "fd", "sed", "awk", "printf", "test", "tar", "dd"})
"""Checks that read the words themselves instead of by the program's table."""
