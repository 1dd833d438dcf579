"""Reading a script: every simple command in it, wherever it hides, and what joins them.

The grammar is tree-sitter's. It is a good grammar, not the shell's own, so nothing it says about where a word begins
and ends is taken on trust: words are read again from the text, and together with the operators between them they
must account for every character. Where the two readings differ, the script is not understood.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from posixpath import join, normpath
from typing import TYPE_CHECKING

import msgspec

from bridle.shell.accounting import Claim, account, is_operator
from bridle.shell.command_facts import (
    Assignment,
    ParsedScript,
    PossibleFolders,
    Redirection,
    ScriptShape,
    SimpleCommand,
)
from bridle.shell.searches import found_by
from bridle.shell.shell_words import (
    ExpansionSpan,
    KnownVariables,
    UnreadableScript,
    Value,
    Word,
    names,
    read_word,
)
from bridle.shell.values import HeldValues, Values, evaluates_operands, fields, in_both, is_ordinary, turns

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_CHARACTERS = 64 * 1024
MAX_COMMANDS = 400
MAX_DEPTH = 60
MAX_LOOPS = 2
"""Loops within loops deeper than this are read without knowing any variable."""
MAX_FOLLOWED = 64
MAX_FOLLOWED_TEXT = 2_000
"""A loop whose turns hold more commands than this together, or that is longer than this, is read once."""

_TOO_DEEP = "it is nested too deeply"
_HIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f"
    r"\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    r"\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=)")
_ASSIGNMENT_LIKE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[.*\])?\+?=", re.DOTALL)
_PLAIN_ARITHMETIC = re.compile(r"[0-9 \t\n+*/%<>=!&|^~?:()-]*")
_RESERVED = names(
    "if then elif else fi do done case esac while until for select in function { } [[ ]] ! coproc"
)
_CONTINUED = re.compile(r"(?<!\\)(?:\\\\)*\\\n")
_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")


def read_script(text: str, *, home: str, folders: PossibleFolders) -> ParsedScript:
    """The script `text` is, or `UnreadableScript`. `folders` is where it may start."""
    if len(text) > MAX_CHARACTERS:
        raise UnreadableScript("it is too long")
    if _HIDDEN.search(text):
        raise UnreadableScript("it holds characters that cannot be seen")
    data = text.encode()
    if len(data) > MAX_CHARACTERS:
        raise UnreadableScript("it is too long")
    tree = _parser().parse(data)
    if tree.root_node.has_error:
        raise UnreadableScript("it is not a complete script")
    return _Reader(data.decode("latin-1"), _bytes_as_text(home), folders).read(tree.root_node)


@functools.cache
def _parser() -> Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def _bytes_as_text(text: str) -> str:
    """One character per byte, so that the parser's offsets are ours."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("latin-1")


def _as_written(text: str) -> str:
    return text if text.isascii() else text.encode("latin-1").decode("utf-8", "replace")


def _text_as_bytes(word: Word) -> str | None:
    return None if word.text is None else _bytes_as_text(word.text)


def _word_as_written(word: Word) -> Word:
    if word.source.isascii() and word.starts.isascii():
        return word
    return msgspec.structs.replace(
        word,
        text=None if word.text is None else _as_written(word.text),
        source=_as_written(word.source),
        starts=_as_written(word.starts),
    )


class _Outcome(msgspec.Struct, frozen=True):
    """Where the shell may be after a statement that succeeded, and after one that failed."""

    done: PossibleFolders
    failed: PossibleFolders

    @property
    def either(self) -> PossibleFolders:
        return self.done | self.failed


def _stays(folders: PossibleFolders) -> _Outcome:
    return _Outcome(folders, folders)


class _Reader:
    def __init__(self, source: str, home: str, start: PossibleFolders) -> None:
        self.source, self.home, self.start = source, home, start
        self.script = ParsedScript()
        self.claims: list[Claim] = []
        self.depth = 0
        self.loops = 0
        self.substitutions = 0
        self.values = Values()
        self.places_assigned = False
        self.readers = {
            "command": self._command,
            "redirected_statement": self._redirected,
            "pipeline": self._pipeline,
            "list": self._list,
            "comment": self._comment,
            "negated_command": self._negated,
            "subshell": self._subshell,
            "compound_statement": self._braces,
            "do_group": self._block,
            "if_statement": self._branches,
            "elif_clause": self._branches,
            "else_clause": self._branches,
            "while_statement": self._while,
            "for_statement": self._for,
            "c_style_for_statement": self._c_style_for,
            "case_statement": self._case,
            "function_definition": self._function,
            "test_command": self._test,
            "declaration_command": self._declaration,
            "unset_command": self._declaration,
            "variable_assignment": self._assignments,
            "variable_assignments": self._assignments,
        }

    def read(self, root: Node) -> ParsedScript:
        self._statements(root.children, self.start)
        account(self.source, 0, len(self.source), self.claims)
        self.script.shape = self._shape(root)
        return self.script

    def _shape(self, root: Node) -> ScriptShape:
        statements = [child for child in root.children if child.type != "comment"]
        if len(statements) != 1 or self.substitutions or self.script.defined:
            return "compound"
        node = statements[0]
        if node.type == "redirected_statement":
            inside = [
                child for child in node.children if child.type not in ("file_redirect", "herestring_redirect")
            ]
            if len(inside) != 1:
                return "compound"
            node = inside[0]
        if node.type in _SIMPLE:
            return "simple"
        if node.type == "pipeline" and all(_is_pipeline_element(child) for child in node.children):
            return "pipeline"
        return "compound"

    # every character is accounted for

    def _claim(self, node: Node, kind: str, owner: int = 0) -> None:
        self.claims.append(Claim(node.start_byte, node.end_byte, kind, owner))

    # statements

    def _statements(self, nodes: Iterable[Node], folders: PossibleFolders) -> _Outcome:
        """One after the other, whatever becomes of each."""
        last = _stays(folders)
        for node in nodes:
            if node.is_named:
                last = self._statement(node, last.either)
            elif node.type in (";", "&", "\n"):
                self._claim_token(node)
            else:
                raise UnreadableScript(f"{node.type!r} stands where a command is expected")
        return last

    def _claim_token(self, node: Node) -> None:
        if node.type == "\n":
            return
        self._claim(node, "operator" if is_operator(node.type) else "word")

    def _statement(self, node: Node, folders: PossibleFolders) -> _Outcome:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise UnreadableScript(_TOO_DEEP)
        try:
            read = self.readers.get(node.type)
            if read is None:
                raise UnreadableScript(f"{node.type.replace('_', ' ')} is not understood")
            held = self.values.held
            outcome = read(node, folders)
            if self.values.held is not held and _is_in_background(node):
                self.values.held = held
            return outcome
        finally:
            self.depth -= 1

    def _comment(self, node: Node, folders: PossibleFolders) -> _Outcome:
        self._claim(node, "comment")
        return _stays(folders)

    def _list(self, node: Node, folders: PossibleFolders) -> _Outcome:
        left, operator, right = _three(node)
        first = self._statement(left, folders)
        self._claim_token(operator)
        held = self.values.held
        if operator.type == "&&":
            second = self._statement(right, first.done)
            outcome = _Outcome(second.done, first.failed | second.failed)
        elif operator.type == "||":
            second = self._statement(right, first.failed)
            outcome = _Outcome(first.done | second.done, second.failed)
        else:
            return self._statement(right, first.either)
        self.values.held = in_both(held, self.values.held)
        return outcome

    def _pipeline(self, node: Node, folders: PossibleFolders) -> _Outcome:
        upstream: list[SimpleCommand] = []
        for child in node.children:
            if not child.is_named:
                self._claim_token(child)
                continue
            if child.type == "comment":
                self._claim(child, "comment")
                continue
            before, held = len(self.script.commands), self.values.held
            self._statement(child, folders)
            self.values.held = held
            here = self.script.commands[before:]
            for command in here:
                command.fed_by.extend(upstream)
            upstream.extend(here)
        return _stays(folders)

    def _negated(self, node: Node, folders: PossibleFolders) -> _Outcome:
        outcome = self._block(node, folders)
        return _Outcome(outcome.failed, outcome.done)

    def _block(self, node: Node, folders: PossibleFolders) -> _Outcome:
        """Keywords, then statements one after the other."""
        last = _stays(folders)
        for child in node.children:
            if child.is_named:
                last = self._statement(child, last.either)
            elif child.type not in ("((", "))", ";;"):
                self._claim_token(child)
            else:
                raise UnreadableScript(f"{child.type!r} is not understood")
        return last

    def _subshell(self, node: Node, folders: PossibleFolders) -> _Outcome:
        held = self.values.held
        self._block(node, folders)
        self.values.held = held
        return _stays(folders)

    def _braces(self, node: Node, folders: PossibleFolders) -> _Outcome:
        if node.children and node.children[0].type == "((":
            text = self.source[node.start_byte + 2 : node.end_byte - 2]
            command = self._new(node, folders)
            command.evaluates = _PLAIN_ARITHMETIC.fullmatch(text) is None
            if command.evaluates:
                self.values.lose()
            self._claim(node, "word", len(self.script.commands))
            self._inside(node, command, folders)
            return _stays(folders)
        return self._block(node, folders)

    def _branches(self, node: Node, folders: PossibleFolders) -> _Outcome:
        """What may or may not run: afterwards the shell is where it was or anywhere inside."""
        places, skipped = folders, self.values.held
        for child in node.children:
            if child.type in ("elif_clause", "else_clause"):
                self.values.held = skipped = in_both(skipped, self.values.held)
            if child.is_named:
                places = places | self._statement(child, places).either
            else:
                self._claim_token(child)
            if child.type == "then":
                skipped = self.values.held
        whole = node.type == "else_clause"
        self.values.held = self.values.held if whole else in_both(skipped, self.values.held)
        return _stays(places)

    def _while(self, node: Node, folders: PossibleFolders) -> _Outcome:
        for child in node.children:
            if not child.is_named:
                self._claim_token(child)
        return self._repeated([child for child in node.children if child.is_named], folders)

    def _for(self, node: Node, folders: PossibleFolders) -> _Outcome:
        command = self._new(node, folders)
        variable = node.child_by_field_name("variable")
        name = "" if variable is None else self.source[variable.start_byte : variable.end_byte]
        command.evaluates = not is_ordinary(name) or node.children[0].type != "for"
        command.text = _as_written(
            self.source[node.start_byte : node.end_byte].partition("\n")[0].partition(";")[0]
        )
        owner = len(self.script.commands)
        body: list[Node] = []
        words: list[Word] = []
        for index, child in enumerate(node.children):
            if node.field_name_for_child(index) == "value":
                words.extend(self._words(child, command, folders, owner))
            elif child.type == "variable_name":
                self._claim(child, "word")
            elif child.is_named:
                body.append(child)
            else:
                self._claim_token(child)
        for word in words:
            command.evaluates = command.evaluates or word.assigns
            self.script.note(name, word)
        command.expands = [word for word in words if word.glob and "/" in word.known]
        followed = turns(words, [_text_as_bytes(word) for word in words])
        if len(words) == 1 and words[0].found is not None:
            followed = [Value("", found=words[0].found)]
        return self._repeated(body, folders, name, [None] if command.evaluates else followed)

    def _repeated(
        self,
        nodes: Sequence[Node],
        folders: PossibleFolders,
        name: str = "",
        turns: Sequence[Value | None] = (None,),
    ) -> _Outcome:
        """What runs any number of times: nothing is known there of a variable that it changes itself.

        Where a loop's variable has one value after the other, it is read with each of them.
        """
        self.loops += 1
        outer, self.values.touched = self.values.touched, set()
        self.values.forget(name)
        start: HeldValues = self.values.held if self.loops <= MAX_LOOPS else None
        body = "".join(self.source[node.start_byte : node.end_byte] for node in nodes)
        if start is None or len(body) > MAX_FOLLOWED_TEXT or not re.search(rf"\b{name}\b", body):
            turns = (None,)
        again = False
        while True:
            commands, claims = len(self.script.commands), len(self.claims)
            places, whole = self._turns(nodes, folders, start, name, turns)
            if not whole:
                turns = (None,)
            elif start is None or (kept := self.values.kept(start)) is start:
                break
            else:
                start, again = (None if again else kept), True
            del self.script.commands[commands:], self.claims[claims:]
        self.values.held = start
        self.values.touched |= outer
        self.loops -= 1
        return _stays(places)

    def _turns(
        self,
        nodes: Sequence[Node],
        folders: PossibleFolders,
        start: HeldValues,
        name: str,
        turns: Sequence[Value | None],
    ) -> tuple[PossibleFolders, bool]:
        """Reads a loop's body with each value in turn; False where that would be too much."""
        places, before = folders, len(self.script.commands)
        lost = False
        for turn, value in enumerate(turns):
            if turn and len(self.script.commands) - before > MAX_FOLLOWED:
                return places, False
            claims = self.claims
            self.claims = claims if not turn else []
            self.values.held = start
            if name and value is not None and start is not None:
                self.values.held = {**start, name: value}
            for node in nodes:
                places = places | self._statement(node, places).either
            self.claims = claims
            lost = lost or self.values.held is None
        if lost:
            self.values.lose()
        return places, True

    def _c_style_for(self, node: Node, folders: PossibleFolders) -> _Outcome:
        """Its head is arithmetic with variables: it may run things, so what it is exactly does not matter."""
        command = self._new(node, folders)
        command.evaluates = True
        self.values.lose()
        close = next((child for child in node.children if child.type == "))"), None)
        if close is None:
            raise UnreadableScript("a loop is not understood")
        self.claims.append(Claim(node.start_byte, close.end_byte, "word"))
        places = folders
        for child in node.children:
            if child.end_byte <= close.end_byte:
                self._inside(child, command, folders)
            elif child.is_named:
                places = places | self._statement(child, places).either
            else:
                self._claim_token(child)
        return _stays(places)

    def _case(self, node: Node, folders: PossibleFolders) -> _Outcome:
        command = self._new(node, folders)
        command.text = _as_written(self.source[node.start_byte : node.end_byte].partition("\n")[0])
        places = folders
        for index, child in enumerate(node.children):
            if child.type == "case_item":
                held = self.values.held
                places = places | self._case_item(child, command, folders).either
                self.values.held = in_both(held, self.values.held)
            elif node.field_name_for_child(index) == "value":
                command.evaluates |= self._word(child, command, folders, 0).assigns
            elif child.type == "comment":
                self._claim(child, "comment")
            else:
                self._claim_token(child)
        if command.evaluates:
            self.values.lose()
        return _stays(places)

    def _case_item(self, node: Node, command: SimpleCommand, folders: PossibleFolders) -> _Outcome:
        last = _stays(folders)
        for index, child in enumerate(node.children):
            if node.field_name_for_child(index) == "value":
                command.evaluates |= self._word(child, command, folders, 0).assigns
            elif child.is_named:
                last = self._statement(child, last.either)
            else:
                self._claim_token(child)
        return last

    def _function(self, node: Node, folders: PossibleFolders) -> _Outcome:
        named = node.child_by_field_name("name")
        body = node.child_by_field_name("body")
        if named is None or body is None:
            raise UnreadableScript("a function is not understood")
        name = _as_written(self.source[named.start_byte : named.end_byte])
        self.script.defined.add(name)
        for child in node.children:
            if not child.is_named:
                self._claim_token(child)
            elif child.type == "comment":
                self._claim(child, "comment")
            elif child == named:
                self._claim(child, "word")
        before, held = len(self.script.commands), self.values.held
        # It runs wherever and whenever it is called.
        self.values.lose()
        self._statement(body, frozenset({None}))
        self.values.held = held if not self.loops else None
        calls = [c for c in self.script.commands[before:] if any(w.text == name for w in c.words[:1])]
        text = self.source[body.start_byte : body.end_byte]
        self.script.multiplies |= bool(calls) and (
            "&" in text.replace("&&", "") or any(c.fed_by for c in calls)
        )
        return _stays(folders)

    # simple commands

    def _new(self, node: Node, folders: PossibleFolders) -> SimpleCommand:
        if len(self.script.commands) >= MAX_COMMANDS:
            raise UnreadableScript("it holds too many commands")
        command = SimpleCommand(_as_written(self.source[node.start_byte : node.end_byte]), folders)
        self.script.commands.append(command)
        return command

    def _command(self, node: Node, folders: PossibleFolders) -> _Outcome:
        command = self._new(node, folders)
        owner = len(self.script.commands)
        for child in node.children:
            self._command_child(child, command, folders, owner)
        self._after(command)
        return self._moved(command, folders)

    def _after(self, command: SimpleCommand) -> None:
        """What a command leaves behind in the variables. Assignments in front of a program are for that alone."""
        if command.evaluates:
            self.values.lose()
        for assignment in command.assignments:
            self.values.forget(assignment.name)
            if assignment.value is None or (assignment.name == "IFS" and not command.words):
                self.values.lose()
        if command.words:
            self.values.after(command.words, self.script.defined)

    def _command_child(
        self, child: Node, command: SimpleCommand, folders: PossibleFolders, owner: int
    ) -> None:
        match child.type:
            case "variable_assignment":
                self._assignment(child, command, folders, owner)
            case "file_redirect" | "herestring_redirect" | "heredoc_redirect":
                self._redirection(child, command, folders, owner)
            case "comment":
                self._claim(child, "comment")
            case _:
                words = self._words(child, command, folders, owner)
                if not command.words and words:
                    _check_command_name(words[0])
                command.words.extend(words)

    def _declaration(self, node: Node, folders: PossibleFolders) -> _Outcome:
        """`export`, `declare` and their like: assignments are arguments there."""
        command = self._new(node, folders)
        owner = len(self.script.commands)
        for child in node.children:
            if child.type == "variable_assignment" and "(" in self.source[child.start_byte : child.end_byte]:
                self._assignment(child, command, folders, owner)
            else:
                command.words.append(self._word(child, command, folders, owner))
        self._after(command)
        return _stays(folders)

    def _assignments(self, node: Node, folders: PossibleFolders) -> _Outcome:
        command = self._new(node, folders)
        owner = len(self.script.commands)
        for child in [node] if node.type == "variable_assignment" else node.children:
            self._command_child(child, command, folders, owner)
            if child.type == "variable_assignment" and command.assignments:
                self._hold(command.assignments[-1], self.source[child.start_byte : child.end_byte])
        return _stays(folders)

    def _hold(self, assignment: Assignment, text: str) -> None:
        """An assignment by itself: what the variable holds from here on."""
        word = assignment.value
        if word is None and any(character in text for character in "$[`"):
            self.values.lose()  # an index, or an element, may be computed
        if word is None:
            self.values.forget(text.partition("=")[0].rstrip("+"))
            return
        value = _text_as_bytes(word) if not (word.glob and word.composed) else None
        more = text.startswith("+=", len(assignment.name))
        self.values.assign(assignment.name, None if value is None else Value(value), more=more)

    def _assignment(self, node: Node, command: SimpleCommand, folders: PossibleFolders, owner: int) -> None:
        text = self.source[node.start_byte : node.end_byte]
        match = _ASSIGNMENT.match(text)
        if not _ASSIGNMENT_LIKE.match(text):
            raise UnreadableScript("the shell would not take that for an assignment")
        if match is None or text.startswith("(", match.end()):
            self._claim(node, "word", owner)
            self._inside(node, command, folders)
            command.assignments.append(Assignment(_as_written(text.partition("=")[0]), None))
            return
        whole = self._word(node, command, folders, owner)
        value = None if whole.text is None else whole.text[match.end() :]
        word = msgspec.structs.replace(whole, text=value, starts=whole.starts[match.end() :])
        self.places_assigned |= match[1] in ("HOME", "PWD")
        command.assignments.append(Assignment(match[1], word))
        self.script.note(match[1], word)

    def _words(self, node: Node, command: SimpleCommand, folders: PossibleFolders, owner: int) -> list[Word]:
        """What an argument is: one word, or the words a variable holds that is not quoted."""
        if self.values.held and (words := self._held(node)) is not None:
            self._claim(node, "word", owner)
            words = [_word_as_written(word) for word in words]
            self.script.composed.update(word.known for word in words)
            return words
        before = len(self.script.commands)
        word = self._word(node, command, folders, owner)
        if word.text is None and node.type == "command_substitution":
            found = found_by(self.script.commands[before:])
            if found is not None and not found.parted_by_nul:
                word = msgspec.structs.replace(word, found=msgspec.structs.replace(found, expanded=True))
        return [word]

    def _held(self, node: Node) -> list[Word] | None:
        """The words of a variable that stands alone, if what it holds is known."""
        variable = _VARIABLE.fullmatch(self.source, node.start_byte, node.end_byte)
        held = self.values.held
        value = held.get(variable[1] or variable[2]) if held and variable is not None else None
        return None if value is None else fields(value, self.source[node.start_byte : node.end_byte])

    def _word(self, node: Node, command: SimpleCommand, folders: PossibleFolders, owner: int) -> Word:
        """The word a node is, from its text; commands inside it are read too."""
        start, end = node.start_byte, node.end_byte
        self.claims.append(Claim(start, end, "word", owner))
        text = self.source[start:end]
        spans: dict[int, ExpansionSpan] = {}
        if "$" in text or "`" in text or "<(" in text or ">(" in text:
            self._find_spans(node, spans, command, folders)
        word = _word_as_written(read_word(self.source, start, end, spans, self._known(folders)))
        if word.assigns:
            self.values.lose()
        if word.composed and word.text is not None:
            self.script.composed.add(word.text)
        return word

    def _known(self, folders: PossibleFolders) -> KnownVariables:
        if self.places_assigned:
            return KnownVariables(None, None, self.values.held or {})
        pwd = next(iter(folders)) if len(folders) == 1 else None
        return KnownVariables(self.home, None if pwd is None else _bytes_as_text(pwd), self.values.held or {})

    def _inside(self, node: Node, command: SimpleCommand, folders: PossibleFolders) -> None:
        self._find_spans(node, {}, command, folders)

    def _find_spans(
        self, node: Node, spans: dict[int, ExpansionSpan], command: SimpleCommand, folders: PossibleFolders
    ) -> None:
        """Every substitution in a word is read as a script of its own."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise UnreadableScript(_TOO_DEEP)
        if node.type in ("command_substitution", "process_substitution"):
            spans[node.start_byte] = ExpansionSpan(node.end_byte, node.type)
            self._substitution(node, command, folders)
        else:
            if node.type in ("expansion", "arithmetic_expansion"):
                spans[node.start_byte] = ExpansionSpan(node.end_byte, node.type)
                self.substitutions += node.type == "arithmetic_expansion"
            for child in node.children:
                self._find_spans(child, spans, command, folders)
        self.depth -= 1

    def _substitution(self, node: Node, command: SimpleCommand, folders: PossibleFolders) -> None:
        self.substitutions += 1
        text = self.source[node.start_byte : node.end_byte]
        opening = 1 if text.startswith("`") else 2
        if opening == 1 and "\\" in text:
            raise UnreadableScript("backslashes inside backquotes can be read in two ways")
        if text.startswith("$(("):
            raise UnreadableScript("two brackets in a row can be read in two ways")
        outer, self.claims = self.claims, []
        before, held = len(self.script.commands), self.values.held
        inside = node.children[1:-1]
        if inside and all(child.type == "file_redirect" for child in inside):
            reading = self._new(node, folders)
            for child in inside:
                self._redirection(child, reading, folders, len(self.script.commands))
        else:
            self._statements(inside, folders)
        account(self.source, node.start_byte + opening, node.end_byte - 1, self.claims)
        self.claims, self.values.held = outer, held
        command.inner.extend(self.script.commands[before:])

    def _moved(self, command: SimpleCommand, folders: PossibleFolders) -> _Outcome:
        """Where the shell is after a `cd`."""
        if not command.words or command.words[0].text not in (
            "cd",
            "pushd",
            "popd",
            "builtin",
            "command",
            "eval",
            "time",
        ):
            return _stays(folders)
        words = command.words
        while words and words[0].text in ("builtin", "command", "time", "-p", "--"):
            words = words[1:]
        if not words or words[0].text not in ("cd", "pushd", "popd", "eval"):
            return _stays(folders)
        return _Outcome(self._arrived(words, folders), folders)

    def _arrived(self, words: list[Word], folders: PossibleFolders) -> PossibleFolders:
        arguments = [word for word in words[1:] if word.text not in ("--", "-L", "-P", "-e")]
        physical = any(word.text == "-P" for word in words)
        if words[0].text in ("popd", "eval") or physical or len(arguments) > 1:
            return frozenset({None}) if words[0].text != "eval" else folders | {None}
        if not arguments:
            return frozenset({_as_written(self.home)}) if words[0].text == "cd" else frozenset({None})
        target = arguments[0].text
        if target is None or arguments[0].glob or target.startswith(("-", "+")):
            return frozenset({None})
        if target.startswith("/"):
            return frozenset({normpath(target)})
        return frozenset(None if folder is None else normpath(join(folder, target)) for folder in folders)

    # redirections

    def _redirected(self, node: Node, folders: PossibleFolders) -> _Outcome:
        body = node.child_by_field_name("body")
        before, held = len(self.script.commands), self.values.held
        outcome = _stays(folders) if body is None else self._statement(body, folders)
        simple = body is None or body.type in (
            "command",
            "list",
            "pipeline",
            "declaration_command",
            "negated_command",
        )
        if body is None or not simple or len(self.script.commands) == before:
            command = self._new(node, folders)
            command.text = _as_written(
                " ".join(self.source[c.start_byte : c.end_byte] for c in node.children if c != body)
            )
        else:
            command = self._last_written(before)
            if body.type == "command":
                command.text = _as_written(self.source[node.start_byte : node.end_byte])
        owner = self.script.commands.index(command) + 1
        if command.words:
            folders = command.folders
        for child in node.children:
            if child == body:
                continue
            if child.type not in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
                raise UnreadableScript(f"{child.type.replace('_', ' ')} is not understood")
            self._redirection(child, command, folders, owner)
        self.values.held = None if command.evaluates else in_both(held, self.values.held)
        return outcome

    def _last_written(self, before: int) -> SimpleCommand:
        """The last command that is not inside a substitution of another one."""
        inner = {id(c) for command in self.script.commands[before:] for c in command.inner}
        return next(c for c in reversed(self.script.commands[before:]) if id(c) not in inner)

    def _redirection(self, node: Node, command: SimpleCommand, folders: PossibleFolders, owner: int) -> None:
        if node.type == "heredoc_redirect":
            self._heredoc(node, command, folders, owner)
            return
        operator, targets = "", list[Word]()
        for child in node.children:
            if child.type == "file_descriptor":
                self._claim(child, "descriptor")
                if self.source[child.start_byte] == "{":
                    self.values.lose()
            elif not child.is_named and not operator:
                operator = child.type
                self._claim(child, "operator")
            else:
                targets.append(self._word(child, command, folders, owner))
        target = targets[0] if targets else None
        if node.type == "herestring_redirect":
            command.redirections.append(Redirection("<<<", body=None if target is None else target.text))
        elif target is None or (operator in (">&", "<&") and re.fullmatch(r"[0-9]+-?|-", target.source)):
            command.redirections.append(Redirection(operator))
        else:
            command.redirections.append(Redirection(operator, target))
        command.evaluates |= target is not None and target.assigns
        for word in targets[1:]:  # what follows the file is an argument of the command
            if not command.words:
                _check_command_name(word)
            command.words.append(word)

    def _heredoc(self, node: Node, command: SimpleCommand, folders: PossibleFolders, owner: int) -> None:
        start, end, body = (_child(node, kind) for kind in ("heredoc_start", "heredoc_end", "heredoc_body"))
        operator = node.children[0]
        if start is None or end is None or operator.type not in ("<<", "<<-"):
            raise UnreadableScript("a here-document is not understood")
        first, last, after = self._heredoc_extent(start, operator.type)
        if (end.start_byte, end.end_byte) != (last, after):
            raise UnreadableScript("a here-document does not end where it seems to")
        self._claim(operator, "operator")
        self._claim(start, "word")
        self.claims.append(Claim(first, after, "body"))
        text = self.source[first:last]
        written = self.source[start.start_byte : start.end_byte]
        plain = any(character in written for character in "'\"\\")
        if not plain and _CONTINUED.search(text):
            raise UnreadableScript("a continued line in a here-document may be its end")
        known = plain or not any(character in text for character in "$`\\")
        command.redirections.append(Redirection("<<", body=_as_written(text) if known else None))
        if not known:
            self._heredoc_substitutions(body, command, folders, first, last)
        self._after_heredoc(node, command, folders, owner)

    def _heredoc_extent(self, start: Node, operator: str) -> tuple[int, int, int]:
        """Where the shell sees body and closing line, found again without the parser."""
        word = read_word(self.source, start.start_byte, start.end_byte, {}, KnownVariables(None, None))
        line_end = self.source.find("\n", start.end_byte)
        if word.text is None or not word.text or "\n" in word.text or line_end < 0:
            raise UnreadableScript("a here-document is not understood")
        if "<<" in self.source[start.end_byte : line_end]:
            raise UnreadableScript("two here-documents begin in one line")
        first = at = line_end + 1
        while at <= len(self.source):
            stop = self.source.find("\n", at)
            stop = len(self.source) if stop < 0 else stop
            line = self.source[at:stop]
            bare = line.lstrip("\t") if operator == "<<-" else line
            if bare == word.text:
                return first, stop - len(bare), stop
            at = stop + 1
        raise UnreadableScript("a here-document is not closed")

    def _heredoc_substitutions(
        self, body: Node | None, command: SimpleCommand, folders: PossibleFolders, first: int, last: int
    ) -> None:
        """Every `$` in it is a plain variable or something the parser has seen as well."""
        spans: dict[int, ExpansionSpan] = {}
        if body is not None:
            self._find_spans(body, spans, command, folders)
        text = self.source[first:last]
        if "`" in text:
            raise UnreadableScript("a here-document holds backquotes")
        at = first
        while at < last:
            character = self.source[at]
            if character == "\\":
                at += 2
            elif character == "$" and at in spans:
                command.evaluates |= spans[at].kind != "command_substitution"
                at = spans[at].end
            elif character == "$" and self.source[at + 1] in "({[":
                raise UnreadableScript("a here-document holds an expansion that is not understood")
            else:
                at += 1

    def _after_heredoc(
        self, node: Node, command: SimpleCommand, folders: PossibleFolders, owner: int
    ) -> None:
        """The rest of the line belongs to the same statement."""
        if any(child.type in ("&&", "||", ";", "&") for child in node.children[1:]):
            self.values.lose()
        for child in node.children[1:]:
            match child.type:
                case "heredoc_start" | "heredoc_body" | "heredoc_end":
                    pass
                case "file_redirect" | "herestring_redirect":
                    self._redirection(child, command, folders, owner)
                case "pipeline":
                    before = len(self.script.commands)
                    self._pipeline(child, folders)
                    for later in self.script.commands[before:]:
                        later.fed_by.append(command)
                case "&&" | "||" | ";" | "&" | "|" | "|&":
                    self._claim_token(child)
                case "word" | "string" | "raw_string" | "concatenation" | "number":
                    command.words.append(self._word(child, command, folders, owner))
                case _:
                    self._statement(child, frozenset({*folders, None}))

    # tests

    def _test(self, node: Node, folders: PossibleFolders) -> _Outcome:
        """`[ … ]` and `[[ … ]]` as words, split again from the text."""
        command = self._new(node, folders)
        self._claim(node, "word", len(self.script.commands))
        double = node.children[0].type == "[["
        if node.children[0].type not in ("[", "[["):
            command.evaluates = True
            self.values.lose()
            self._inside(node, command, folders)
            return _stays(folders)
        spans: dict[int, ExpansionSpan] = {}
        self._find_spans(node, spans, command, folders)
        try:
            command.words = self._test_words(node, spans, folders, double=double)
        except UnreadableScript:
            if not double:
                raise
            command.evaluates = True
        assigns = command.evaluates or any(word.assigns for word in command.words)
        if assigns or evaluates_operands(command.words, double=double):
            self.values.lose()
        return _stays(folders)

    def _test_words(
        self, node: Node, spans: dict[int, ExpansionSpan], folders: PossibleFolders, *, double: bool
    ) -> list[Word]:
        words: list[Word] = []
        at, end, known = node.start_byte, node.end_byte, self._known(folders)
        while at < end:
            if self.source[at] in " \t" or (double and self.source[at] == "\n"):
                at += 1
                continue
            if self.source.startswith("\\\n", at):
                at += 2
                continue
            token = _TEST_OPERATOR.match(self.source, at, end) if double else None
            if token is not None:
                words.append(Word(token[0], token[0], starts=token[0]))
                at = token.end()
                continue
            stop = self._word_end(at, end, spans)
            if stop == at:
                raise UnreadableScript("an operator stands inside a test")
            words.append(_word_as_written(read_word(self.source, at, stop, spans, known)))
            at = stop
        closing = "]]" if double else "]"
        if not words or words[-1].source != closing:
            raise UnreadableScript("a test is not closed")
        return words

    def _word_end(self, at: int, end: int, spans: dict[int, ExpansionSpan]) -> int:
        """The first blank or operator outside quotes."""
        quote = ""
        while at < end:
            character = self.source[at]
            if at in spans and quote != "'":
                at = spans[at].end
                continue
            if quote:
                if character == "\\" and quote == '"':
                    at += 1
                elif character == quote:
                    quote = ""
            elif character in "'\"":
                quote = character
            elif character == "\\":
                at += 1
            elif character in " \t\n;&|()<>":
                return at
            at += 1
        return end


_TEST_OPERATOR = re.compile(r"&&|\|\||[()<>]")
_SIMPLE = frozenset(
    {"command", "test_command", "declaration_command", "unset_command", "variable_assignment"}
)


def _is_pipeline_element(node: Node) -> bool:
    if node.type == "redirected_statement":
        body = node.child_by_field_name("body")
        redirections = [child.type for child in node.children if child != body]
        return body is not None and body.type in _SIMPLE and "heredoc_redirect" not in redirections
    return node.type in _SIMPLE or node.type in ("|", "|&")


def _check_command_name(word: Word) -> None:
    if word.bare and word.source in _RESERVED:
        raise UnreadableScript(f"{word.source!r} stands where a command is expected")
    if _ASSIGNMENT_LIKE.match(word.source):
        raise UnreadableScript("an assignment stands where a command is expected")


def _three(node: Node) -> tuple[Node, Node, Node]:
    parts = [child for child in node.children if child.type != "comment"]
    if len(parts) != 3 or len(parts) != len(node.children):
        raise UnreadableScript("a list is not understood")
    return parts[0], parts[1], parts[2]


def _is_in_background(node: Node) -> bool:
    """Whether the shell starts another one for it: what is assigned there is gone."""
    following = node.next_sibling
    return following is not None and following.type == "&"


def _child(node: Node, kind: str) -> Node | None:
    return next((child for child in node.children if child.type == kind), None)
