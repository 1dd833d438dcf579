"""Splitting the words of a command into options and arguments, by the table of its program."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import msgspec

from bridle.shell.programs import Program
from bridle.shell.shell_words import Word

_TOKEN = re.compile(r"(--?[^\s:?<>!@^%+~]+)([!@^%+]?)(::|:<|[:?<>~]?)")
_NUMBER = re.compile(r"-[0-9]+")


class ProgramOption(msgspec.Struct, frozen=True):
    """One option of a program: what using it means (`! @ ^ % +` or nothing), and what follows it."""

    effect: str = ""
    value: str = ""


class UsedOption(msgspec.Struct, frozen=True):
    name: str
    option: ProgramOption
    values: tuple[Word, ...] = ()


class SplitWords(msgspec.Struct):
    """Options and arguments. `problem` says why they are not proven to be all there is."""

    used: list[UsedOption] = []
    arguments: list[Word] = []
    rest: list[Word] = []
    problem: str | None = None

    def has(self, *names: str) -> bool:
        return any(used.name in names for used in self.used)


@functools.lru_cache(maxsize=1024)
def options_of(spec: str, *, single_dash: bool = False) -> dict[str, ProgramOption]:
    """A table's text as options by name."""
    found: dict[str, ProgramOption] = {}
    for token in spec.split():
        match = _TOKEN.fullmatch(token)
        if match is None:
            if token in ("*", "-#"):
                found[token] = ProgramOption()
                continue
            raise ValueError(f"not an option: {token}")
        name, effect, value = match.groups()
        option = ProgramOption(effect, value)
        if name.startswith("--") or len(name) == 2 or single_dash:
            found[name] = option
        else:
            found.update({f"-{letter}": option for letter in name[1:]})
    return found


def split_words(
    program: Program, words: Sequence[Word], *, leading: bool = False, single_dash: bool = False
) -> SplitWords:
    """The words after the program's name. With `leading`, options end at the first argument and the rest is `rest`."""
    return _Splitting(program, words, leading=leading, single_dash=single_dash).split()


class _Splitting:
    def __init__(self, program: Program, words: Sequence[Word], *, leading: bool, single_dash: bool) -> None:
        self.program, self.words, self.leading, self.single_dash = program, words, leading, single_dash
        self.options = options_of(program.options, single_dash=single_dash)
        self.result = SplitWords()
        self.at = 0

    def split(self) -> SplitWords:
        result = self.result
        while self.at < len(self.words):
            word = self.words[self.at]
            if self._is_argument(word):
                if self.leading:
                    result.rest = list(self.words[self.at :])
                    return result
                result.arguments.append(word)
                self.at += 1
                continue
            self.at += 1
            text = word.known
            if text == "--":
                rest = list(self.words[self.at :])
                if self.leading:
                    result.rest = rest
                else:
                    result.arguments.extend(rest)
                return result
            if text.startswith("--") or self.single_dash:
                self._long(word, text)
            else:
                self._letters(word, text)
        return result

    def _is_argument(self, word: Word) -> bool:
        """Whether this can only be an argument; notes a problem where nobody can say."""
        if "*" in self.options:
            return True
        text = word.text
        if text is None:
            sure = bool(word.starts) and not word.starts.startswith("-") and not word.split
            if not sure and not self.program.harmless:
                self._problem("a word that is not known could be an option")
            return True
        if word.glob and text[:1] in ("*", "?", "[") and not self.program.harmless:
            self._problem("a file name could be taken for an option")
        return not text.startswith("-") or text == "-"

    def _problem(self, problem: str) -> None:
        self.result.problem = self.result.problem or problem

    def _long(self, word: Word, text: str) -> None:
        name, equals, attached = text.partition("=")
        option = self.options.get(name)
        if option is None and self.single_dash and name.startswith("--"):
            option = self.options.get(name[1:])
        if option is None:
            self._unlisted(name)
            option = self._abbreviated(name)
        if option is None:
            return
        if equals:
            if not option.value:
                self._problem(f"{name} takes no value")
            self._use(name, option, msgspec.structs.replace(word, text=attached, starts=attached))
        else:
            self._use(name, option, None)

    def _letters(self, word: Word, text: str) -> None:
        if "-#" in self.options and _NUMBER.fullmatch(text):
            return
        for index, letter in enumerate(text[1:], 1):
            name = f"-{letter}"
            option = self.options.get(name)
            if option is None:
                self._unlisted(name if letter.isprintable() else "an option")
                return
            attached = text[index + 1 :]
            if option.value and attached:
                self._use(name, option, msgspec.structs.replace(word, text=attached, starts=attached))
                return
            self._use(name, option, None)

    def _abbreviated(self, name: str) -> ProgramOption | None:
        """The worst option a shortened name may stand for; only those that do harm matter."""
        meant = [
            option for full, option in self.options.items() if full.startswith("--") and full.startswith(name)
        ]
        return next((option for option in meant if option.effect), None)

    def _unlisted(self, name: str) -> None:
        if not self.program.lenient:
            self._problem(f"{name[:20]} is not a known option")

    def _use(self, name: str, option: ProgramOption, attached: Word | None) -> None:
        wanted = {"": 0, "?": 0, ":": 1, "<": 1, ">": 1, "::": 2, ":<": 2, "~": 1}[option.value]
        if option.value == "~" and self.at >= len(self.words):
            wanted = 0
        values = [] if attached is None else [attached]
        while len(values) < wanted:
            if self.at >= len(self.words):
                self._problem(f"{name} has no value")
                break
            value = self.words[self.at]
            starts_wild = value.glob and value.starts[:1] in ("", "*", "?", "[")
            if (value.split or starts_wild) and not self.program.harmless:
                self._problem(f"the value of {name} is not known")
            values.append(value)
            self.at += 1
        self.result.used.append(UsedOption(name, option, tuple(values)))
