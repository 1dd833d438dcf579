"""From simple commands to parts: wrappers off, each program judged by its table, scripts inside scripts read again."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import msgspec

from bridle.base.command_class import CommandClass
from bridle.shell.checks import CHECKS, OWN_WORDS, InnerCommand, is_harmless_variable
from bridle.shell.classification import Classification, host_of, shown_name, worse
from bridle.shell.command_facts import ParsedScript, Part, SimpleCommand
from bridle.shell.git_checks import judge_git
from bridle.shell.grant_keys import (
    EVALUATES,
    MAY_HIDE,
    MOVES,
    READS,
    UNKNOWN_TEXT,
    UNNAMED,
    hides_by_builtin,
    hides_by_shell,
    hides_by_variable,
    key_of,
    sets_search_path,
)
from bridle.shell.options import SplitWords, split_words
from bridle.shell.programs import (
    BUILTINS,
    KEYED_BY_SUBCOMMAND,
    POWERSHELLS,
    SHELLS,
    Program,
    have_subcommands,
    programs,
    wrappers,
)
from bridle.shell.refusals import (
    FinalProgram,
    ScriptRefusal,
    code_words,
    is_code_runner,
    prints_secret,
    reads_code,
    refused_command,
    refused_feed,
    refused_functions,
    refused_inner,
    refused_text,
)
from bridle.shell.script_reader import read_script
from bridle.shell.searches import found_by
from bridle.shell.shell_words import FoundFiles, UnreadableScript, Word
from bridle.shell.table_lookup import apply_options, apply_table
from bridle.shell.values import is_ordinary
from bridle.shell.versions import shows_help, steering_files, tells_version
from bridle.shell.wrappers import wrapped

MAX_NESTING = 6

_SYSTEM_FOLDERS = ("/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/opt/homebrew/bin")
_NO_PROGRAM = Program(base="executes")
_NO_BODY = ("<<", "<<<")


class ScriptPlace(msgspec.Struct, frozen=True):
    """Where a script runs and what is known about the programs there."""

    start: str
    home: str
    trusted_path: bool


class Findings(msgspec.Struct):
    """What was found out about a script and the scripts inside it. The first refusal stays."""

    parts: list[Part] = []
    refusal: ScriptRefusal | None = None
    problem: str | None = None
    discloses: bool = False
    hidden: str = ""

    def hide(self, why: str) -> None:
        self.hidden = self.hidden or why

    def refuse(self, refusal: ScriptRefusal | None) -> None:
        self.refusal = self.refusal or refusal


def judge(script: ParsedScript, place: ScriptPlace, *, nesting: int = 0) -> Findings:
    """Every part of a script, in the order written."""
    return _Judge(script, place, nesting).findings


class _Judge:
    def __init__(self, script: ParsedScript, place: ScriptPlace, nesting: int) -> None:
        self.script, self.place, self.nesting = script, place, nesting
        self.findings = Findings()
        self.leaves: dict[int, list[FinalProgram]] = {}
        for command in script.commands:
            self.leaves[id(command)] = []
            self._command(command)
        for command in script.commands:
            self._flows(command)
        if any("PATH" in command.text and sets_search_path(command) for command in script.commands) and any(
            use.access == "write" for part in self.findings.parts for use in part.uses
        ):
            self.findings.hide(MOVES)
        self.findings.refuse(refused_functions(multiplies=script.multiplies))

    def _command(self, command: SimpleCommand) -> None:
        judgement = self._judgement(command, command.words)
        self._assignments(command, judgement)
        self._redirections(command, judgement)
        if command.evaluates or any(word.assigns for word in command.words):
            judgement.at_least("executes", "evaluates an expression")
            self.findings.hide(EVALUATES)
        if command.assignments or "=" in command.text:
            self.findings.hide(hides_by_variable(command))
        for word in command.expands:
            judgement.use(word, "read")
        if command.words:
            self._words(command, judgement, depth=0)
        elif judgement.uses or judgement.command_class != "read_only":
            self._add(
                command, judgement, Program(does="reads {}" if judgement.command_class == "read_only" else "")
            )

    def _judgement(self, command: SimpleCommand, words: Sequence[Word]) -> Classification:
        judgement = Classification(
            words[0].known if words else "", words, command.folders, self.place.start, self.place.home
        )
        judgement.assigned = self.script.assigned
        judgement.spoken = _spoken_to(command)
        return judgement

    def _assignments(self, command: SimpleCommand, judgement: Classification) -> None:
        for assignment in command.assignments:
            value = assignment.value
            own = not command.words and is_ordinary(assignment.name)
            if value is None or not (own or is_harmless_variable(assignment.name, value.text)):
                judgement.at_least("executes", f"sets {shown_name(assignment.name)}")
            elif value.assigns:
                judgement.at_least("executes", "evaluates an expression")
            if value.assigns if value is not None else "[" in command.text:
                self.findings.hide(EVALUATES)

    def _redirections(self, command: SimpleCommand, judgement: Classification) -> None:
        for redirection in command.redirections:
            target = redirection.target
            if target is None:
                continue
            if target.starts.startswith(("/dev/tcp/", "/dev/udp/")):
                judgement.at_least("network", "connects to another machine")
                judgement.urls.append(target.starts.split("/")[3])
            elif redirection.operator == "<":
                judgement.use(target, "read")
            else:
                before = len(judgement.uses)
                judgement.use(target, "write")
                if len(judgement.uses) > before:
                    judgement.at_least("writes", "writes {}")

    # one command, wrappers off

    def _words(self, command: SimpleCommand, judgement: Classification, depth: int) -> None:
        """Judges a command by its program; `judgement` already knows what stands around it."""
        name_word = judgement.words[0]
        if depth > MAX_NESTING:
            judgement.at_least("unparseable", "is nested too deeply")
            self._add(command, judgement, _NO_PROGRAM)
            return
        if name_word.text is None or name_word.glob or not name_word.text:
            judgement.at_least("executes", "runs a program whose name is not known yet")
            self.findings.hide(UNNAMED)
            self._leaf(command, FinalProgram("", tuple(judgement.words)))
            self._add(command, judgement, _NO_PROGRAM)
            return
        if name_word.text in self.script.defined:
            judgement.at_least("executes", "runs a function of this script")
            self._add(command, judgement, _NO_PROGRAM)
            return
        name = self._program_name(judgement, name_word)
        if name is None:
            self._leaf(command, FinalProgram(name_word.text.rpartition("/")[2], tuple(judgement.words)))
            self._finish(command, judgement, _NO_PROGRAM)
            return
        judgement.name = name
        if name in SHELLS and self._shell(command, judgement, depth):
            return
        wrapper = wrappers().get(name) or (programs()["env"] if name == "env" else None)
        if wrapper is not None and wrapper.arguments == "command":
            self._wrapper(command, judgement, wrapper, depth)
            return
        self._program(command, judgement, depth)

    def _program_name(self, judgement: Classification, word: Word) -> str | None:
        """The program's name, or None for a file that is run by its path."""
        text = word.known
        if "/" not in text:
            return text
        folder, _, name = text.rpartition("/")
        if folder in _SYSTEM_FOLDERS:
            return name
        judgement.at_least("executes", "runs {}")
        judgement.use(word, "run")
        return None

    def _wrapper(
        self, command: SimpleCommand, judgement: Classification, wrapper: Program, depth: int
    ) -> None:
        split = split_words(wrapper, judgement.words[1:], leading=True)
        if split.problem:
            judgement.unproven(split.problem)
            self.findings.hide(UNNAMED)
        if judgement.name == "parallel" and (not split.rest or split.rest[0].known.startswith(":::")):
            self.findings.hide(READS)
        apply_options(judgement, SplitWords(used=split.used), wrapper)
        judgement.at_least(wrapper.base, wrapper.does if wrapper.base != "read_only" else "")
        inner = wrapped(judgement, wrapper, split, self._fed(command, judgement, depth))
        if inner is None or not inner.words:
            program = programs().get(judgement.name, wrapper)
            self._leaf(command, FinalProgram(judgement.name, tuple(judgement.words)))
            self._finish(command, judgement, program)
            return
        self._trust_path(judgement)
        self._inner(command, judgement, inner, depth)

    def _fed(self, command: SimpleCommand, judgement: Classification, depth: int) -> FoundFiles | None:
        """The files whose names a command reads, where it is the one at the end of the pipe."""
        own_input = any(redirection.operator.startswith("<") for redirection in command.redirections)
        return found_by(command.fed_by) if judgement.name == "xargs" and not own_input else None

    def _inner(
        self, command: SimpleCommand, judgement: Classification, inner: InnerCommand, depth: int
    ) -> None:
        """Goes on with the command inside; what was found so far stays with it."""
        if inner.script:
            self._leaf(command, FinalProgram(judgement.name, tuple(judgement.words)))
            self._script(command, judgement, inner.words)
            return
        inside = _about(judgement, inner.words)
        self._words(command, inside, depth + 1)

    def _shell(self, command: SimpleCommand, judgement: Classification, depth: int) -> bool:
        """`bash -c text`: the text is what runs. False for a shell that only tells its version."""
        words = judgement.words
        if len(words) == 2 and tells_version(judgement.name, words[1].known):
            return False
        runs_input = reads_code(judgement.name, words)
        self._leaf(command, FinalProgram(judgement.name, tuple(words), runs_input))
        for index, word in enumerate(words[1:], 1):
            text = word.text
            if text is None or not text.startswith(("-", "+")):
                break
            if text.startswith("-") and not text.startswith("--") and "c" in text[1:]:
                code = words[index + 1 : index + 2]
                if not all(letter in "celxuin" for letter in text[1:]) or not code:
                    judgement.at_least("executes", f"runs {judgement.name}")
                self._trust_path(judgement)
                self._script(command, judgement, tuple(code))
                return True
            if text.startswith("--") and text not in ("--norc", "--noprofile", "--posix"):
                judgement.at_least("executes", f"runs {judgement.name}")
        body = next((r.body for r in command.redirections if r.operator in _NO_BODY), None)
        if runs_input and body is not None:
            self._nested(command, body)
        elif runs_input:
            self.findings.hide(READS)
        else:
            self.findings.hide(hides_by_shell(words))
        judgement.at_least("executes", "runs what it reads" if runs_input else "runs {}")
        if not runs_input:
            for word in code_words(judgement.name, words)[:1]:
                judgement.use(word, "run")
                if word.text is None or word.glob:
                    self.findings.hide(UNKNOWN_TEXT)
        self._finish(command, judgement, Program(base="executes"))
        return True

    def _script(self, command: SimpleCommand, judgement: Classification, words: Sequence[Word]) -> None:
        """A text that is run as a script: its parts are the parts, if it can be read."""
        texts = [word.text for word in words if not word.glob]
        if None in texts or len(texts) != len(words):
            judgement.at_least("unparseable", "runs a text that is not known yet")
            self.findings.hide(UNKNOWN_TEXT)
            self._finish(command, judgement, _NO_PROGRAM)
            return
        found = self._nested(command, " ".join(text for text in texts if text is not None))
        if found is None:
            judgement.at_least("unparseable", "runs a text that is not understood")
            self._finish(command, judgement, _NO_PROGRAM)
        elif judgement.uses or judgement.command_class != "read_only" or not found.parts:
            self._finish(command, judgement, Program(does="reads {}"))

    def _nested(self, command: SimpleCommand, text: str) -> Findings | None:
        try:
            if self.nesting >= MAX_NESTING:
                raise UnreadableScript("it is nested too deeply")
            script = read_script(text, home=self.place.home, folders=command.folders)
        except UnreadableScript as problem:
            self.findings.problem = self.findings.problem or str(problem)
            self.findings.hide(UNKNOWN_TEXT)
            self.findings.refuse(refused_text(text, self.place.home))
            return None
        script.defined |= self.script.defined
        self.script.composed |= script.composed
        self.script.shape = "compound"
        inside = _Judge(script, self.place, self.nesting + 1)
        self.findings.parts.extend(inside.findings.parts)
        self.findings.refuse(inside.findings.refusal)
        self.findings.discloses |= inside.findings.discloses
        self.findings.problem = self.findings.problem or inside.findings.problem
        self.findings.hide(inside.findings.hidden)
        for leaves in inside.leaves.values():
            self.leaves[id(command)].extend(leaves)
        return inside.findings

    # one program

    def _program(self, command: SimpleCommand, judgement: Classification, depth: int) -> None:
        name, words = judgement.name, judgement.words
        self._leaf(command, FinalProgram(name, tuple(words), reads_code(name, words)))
        if name in ("source", ".") and (reads_code(name, words) or any(w.text is None for w in words[1:2])):
            self.findings.hide(READS)
        asks_version = len(words) == 2 and tells_version(name, words[1].known)
        if asks_version or (len(words) == 3 and shows_help(name, words[1].known, words[2].known)):
            judgement.does = judgement.does or "shows its version or its help"
            self._steer(judgement)
            self._finish(command, judgement, Program(arguments="text"))
            return
        if name == "git":
            program = judge_git(judgement, apply_table)
            if program is None and judgement.command_class == "read_only":
                judgement.does = "shows help"
            self._finish(command, judgement, program or Program())
            return
        if name in POWERSHELLS:
            self._powershell(judgement)
        if is_code_runner(name) and name not in programs():
            self._interpreter(judgement)
            self._finish(command, judgement, _NO_PROGRAM)
            return
        program, rest = self._entry(judgement)
        if program is None:
            judgement.at_least("executes")
            self._finish(command, judgement, _NO_PROGRAM)
            return
        self._known(command, judgement, program, rest, depth)

    def _steer(self, judgement: Classification) -> None:
        """Notes which files of the workspace would name another program to answer."""
        for name in steering_files(judgement.name):
            if None in judgement.folders:
                judgement.unproven("which program that is depends on where it runs")
            judgement.steered_by.extend(f"{folder}/{name}" for folder in judgement.folders if folder)

    def _known(
        self,
        command: SimpleCommand,
        judgement: Classification,
        program: Program,
        rest: Sequence[Word],
        depth: int,
    ) -> None:
        split = (
            SplitWords()
            if program.check in OWN_WORDS
            else split_words(program, rest, single_dash=program.single_dash)
        )
        inner: Sequence[InnerCommand] = ()
        if program.check == "fd" and any(
            word.text in ("-x", "-X", "--exec", "--exec-batch") for word in rest
        ):
            inner = CHECKS["fd"](judgement, split, program)
        elif program.check == "fd":
            split = split_words(program, rest)
            apply_table(judgement, split, program)
        else:
            judgement.at_least(program.base)
            apply_table(judgement, split, program)
            if program.check:
                inner = CHECKS[program.check](judgement, split, program)
        self._finish(command, judgement, program)
        for one in inner:
            if one.words:
                inside = self._judgement(command, one.words)
                self._words(command, inside, depth + 1)

    def _entry(self, judgement: Classification) -> tuple[Program | None, Sequence[Word]]:
        """The table entry that fits, the longest name first, and the words it is about."""
        name, words = judgement.name, list(judgement.words[1:])
        program = programs().get(name) or wrappers().get(name)
        if name not in KEYED_BY_SUBCOMMAND and name not in have_subcommands():
            return program, words
        skipped = split_words(program, words, leading=True) if program else SplitWords(rest=words)
        rest = skipped.rest
        if rest and rest[0].text is not None and not rest[0].glob:
            judgement.subcommand = rest[0].text
        for length in (2, 1):
            texts = [word.text or "" for word in rest[:length]]
            entry = programs().get(" ".join([name, *texts]))
            if len(texts) == length and entry is not None:
                if skipped.problem and entry.base == "read_only":
                    judgement.unproven(skipped.problem)
                apply_options(judgement, SplitWords(used=skipped.used), program or entry)
                return entry, rest[length:]
        return program, words

    def _powershell(self, judgement: Classification) -> None:
        for word in judgement.words[1:]:
            text = word.known.lower()
            if (
                len(text) > 1 and text.startswith("-e") and "-encodedcommand".startswith(text)
            ) or text == "-ec":
                judgement.at_least("unparseable", "runs a text nobody can read")

    def _interpreter(self, judgement: Classification) -> None:
        judgement.at_least("executes", "runs code")
        if judgement.name in POWERSHELLS:
            return
        for word in judgement.words[1:]:
            if word.text is None or word.text.startswith("-"):
                if word.text in ("-m", "-c", "-e", "--eval", "-p", "-r"):
                    judgement.does = "runs code"
                    return
                continue
            judgement.does = "runs {}"
            judgement.use(word, "run")
            return

    # putting parts together

    def _trust_path(self, judgement: Classification) -> None:
        by_path = bool(judgement.words) and judgement.words[0].known.startswith("/")
        if not self.place.trusted_path and not by_path and judgement.name not in BUILTINS:
            judgement.unproven("which program that is depends on the workspace")

    def _finish(self, command: SimpleCommand, judgement: Classification, program: Program) -> None:
        if judgement.name in MAY_HIDE:
            self.findings.hide(hides_by_builtin(judgement))
        self._trust_path(judgement)
        self._add(command, judgement, program)

    def _leaf(self, command: SimpleCommand, leaf: FinalProgram) -> None:
        self.leaves[id(command)].append(leaf)

    def _add(self, command: SimpleCommand, judgement: Classification, program: Program) -> None:
        self.findings.refuse(refused_command(judgement, command.text))
        discloses = judgement.command_class != "read_only" and prints_secret(judgement)
        self.findings.discloses |= discloses
        text = command.text
        self.findings.parts.append(
            Part(
                text=text,
                words=tuple(word.text for word in judgement.words),
                command_class=judgement.command_class,
                does=_phrase(judgement, program),
                key=self._key(command, judgement, program),
                uses=tuple(judgement.uses),
                urls=tuple(judgement.urls),
                repository=judgement.repository,
                steered_by=tuple(judgement.steered_by),
                discloses=discloses,
            )
        )

    def _key(self, command: SimpleCommand, judgement: Classification, program: Program) -> str | None:
        plain = self.script.shape == "simple" and not self.nesting and judgement.words is command.words
        return key_of(command, judgement, program) if plain else None

    def _flows(self, command: SimpleCommand) -> None:
        """What one command gives and another runs."""
        mine = self.leaves[id(command)]
        runners = [leaf for leaf in mine if is_code_runner(leaf.name)]
        unknown_code = any(
            word.text is None for leaf in runners for word in code_words(leaf.name, leaf.words)
        )
        if command.fed_by:
            by_argument = (
                unknown_code and command.words[:1] != [] and command.words[0].text in ("xargs", "parallel")
            )
            fed = [leaf for up in command.fed_by for leaf in self.leaves[id(up)]]
            self.findings.refuse(refused_feed(mine, fed, by_argument=by_argument))
            if any(leaf.reads_code and leaf.name in SHELLS for leaf in mine):
                self._spoken(command)
        if command.inner:
            inner = [leaf for within in command.inner for leaf in self.leaves[id(within)]]
            names_program = bool(command.words) and command.words[0].text is None
            as_code = unknown_code or any(leaf.reads_code for leaf in mine)
            self.findings.refuse(refused_inner(inner, run=names_program or as_code))

    def _spoken(self, command: SimpleCommand) -> None:
        """`echo text | sh` runs the text."""
        for up in command.fed_by:
            texts = [word.text for word in up.words]
            if texts[:1] in (["echo"], ["printf"]) and None not in texts:
                self._nested(command, " ".join(text for text in texts[1:] if text))


def _spoken_to(command: SimpleCommand) -> list[str]:
    """Words that certainly come in through its pipe or its here-document."""
    texts = [redirection.body for redirection in command.redirections if redirection.body is not None]
    for up in command.fed_by:
        if up.words and up.words[0].text in ("echo", "printf"):
            texts.extend(word.text for word in up.words[1:] if word.text is not None)
    return " ".join(texts).split()


def _about(judgement: Classification, words: Sequence[Word]) -> Classification:
    """The same findings, about the command inside."""
    inside = copy(judgement)
    inside.name, inside.words = words[0].known, words
    return inside


def _phrase(judgement: Classification, program: Program) -> str:
    if judgement.urls and judgement.command_class == "network" and not judgement.does:
        return f"connects to {host_of(judgement.urls[0])}"
    return judgement.phrase(program)


def combined(parts: Sequence[Part]) -> CommandClass:
    """A script is as bad as its worst part."""
    result: CommandClass = "read_only"
    for part in parts:
        result = worse(result, part.command_class)
    return result
