"""What a program's table says about the options and arguments it was given."""

from __future__ import annotations

from bridle.base.command_class import CommandClass
from bridle.shell.classification import Classification
from bridle.shell.options import SplitWords
from bridle.shell.programs import Program
from bridle.shell.shell_words import UNKNOWN, Word

_EFFECTS: dict[str, CommandClass] = {"!": "executes", "@": "network", "^": "writes", "%": "destructive"}
_PATTERN_OPTIONS = ("-e", "-f", "--regexp", "--file", "--files", "--type-list", "--from-file")


def apply_table(judgement: Classification, split: SplitWords, program: Program) -> None:
    apply_options(judgement, split, program)
    arguments = split.arguments[program.before :]
    if len(split.arguments) > program.at_most or (program.arguments == "none" and split.arguments):
        judgement.unproven("its arguments change what it does")
    match program.arguments:
        case "read" | "write" | "delete" | "run":
            for word in arguments:
                judgement.use(word, program.arguments)
        case "pattern":
            _pattern(judgement, split, arguments)
        case "copy":
            _copy(judgement, split, arguments)
        case "url":
            _addresses(judgement, split, arguments)
        case "text" | "none" | "command":
            for word in arguments:
                if word.glob and (word.text is not None or not word.composed):
                    judgement.use(word, "read")


def apply_options(judgement: Classification, split: SplitWords, program: Program) -> None:
    if split.problem and not program.lenient:
        judgement.unproven(split.problem)
    for used in split.used:
        if used.option.effect == "+":
            judgement.use(UNKNOWN, "read")
        elif used.option.effect:
            judgement.at_least(_EFFECTS[used.option.effect])
            if used.option.effect == "!":
                judgement.unproven(f"{used.name} runs something")
        if used.values and used.option.value in ("<", ":<"):
            judgement.use(used.values[-1], "read")
        if used.values and used.option.value == ">":
            before = len(judgement.uses)
            judgement.use(used.values[-1], "write")
            if len(judgement.uses) > before:
                judgement.at_least("writes", "writes {}")


def _pattern(judgement: Classification, split: SplitWords, arguments: list[Word]) -> None:
    unsure = any(word.text is None and not word.starts for word in arguments[:1]) and arguments[0].split
    files = arguments if split.has(*_PATTERN_OPTIONS) or unsure else arguments[1:]
    for word in files:
        judgement.use(word, "read")


def _copy(judgement: Classification, split: SplitWords, arguments: list[Word]) -> None:
    into = split.has("-t", "--target-directory")
    for word in arguments if into else arguments[:-1]:
        judgement.use(word, "read")
    for word in [] if into else arguments[-1:]:
        judgement.use(word, "write")


def _addresses(judgement: Classification, split: SplitWords, arguments: list[Word]) -> None:
    given = [used.values[0] for used in split.used if used.name == "--url" and used.values]
    for word in [*given, *arguments]:
        if word.text is not None and not word.text.startswith("+"):
            judgement.urls.append(word.text)
        if (word.text or word.starts).startswith("file:"):
            judgement.use(UNKNOWN, "read")
