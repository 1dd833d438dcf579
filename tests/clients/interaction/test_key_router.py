"""Who has the keyboard: typing never answers, a paste never answers, and a yes needs a question that was seen whole."""

from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.clients.interaction.composer.composer import Composer, Send, Wish, shown
from bridle.clients.interaction.composer.keys import Paste, Press
from bridle.clients.interaction.questions.permission_form import Setting, permission_question
from bridle.clients.interaction.questions.question_card import Decided, Hint, PermissionAnswer, Question, Show
from bridle.clients.interaction.session.key_router import GRACE_S, QUIET_S, KeyMeaning, KeyRouter
from bridle.clients.line.terminal_keys import KeyDecoder
from bridle.protocol.commands import PermissionChoice
from bridle.protocol.events import Offer, PermissionRequested
from effort import examples
from tables import table

SENTENCE = "y p t a n: please add jumps to the quick fox, y\r"


def command(text: str, call: str = "call_1") -> Question:
    answers: tuple[Literal["pattern", "tool", "always"], ...] = ("pattern", "tool", "always")
    request = PermissionRequested(
        call_id=call,
        tool="bash",
        input={"command": text},
        risk="shell",
        why="",
        digest="d",
        offers=tuple(Offer(answer=answer, tool="bash", pattern=text) for answer in answers),
    )
    return permission_question(request, Setting(folder="~/shop"))


class Bench:
    """A router, its time, and the effects of everything done at it."""

    def __init__(self, *, rows: int = 40, lines_only: bool = False) -> None:
        self.router = KeyRouter(Composer(), lines_only=lines_only)
        self.now_s = 100.0
        self.effects: list[KeyMeaning] = []
        self._rows = rows
        self._decoder = KeyDecoder()

    def ask(self, question: Question) -> None:
        self.router.ask(question, now_s=self.now_s, columns=44, rows=self._rows)

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.router.settle(self.now_s)

    def type(self, text: str) -> list[KeyMeaning]:
        """Types each character by itself."""
        before = len(self.effects)
        for character in text:
            keys = self._decoder.feed(character.encode()) or self._decoder.settle()
            self.effects += self.router.press(keys, now_s=self.now_s, columns=44)
        return self.effects[before:]

    def paste(self, text: str) -> list[KeyMeaning]:
        effects = self.router.press([Paste(text)], now_s=self.now_s, columns=44)
        self.effects += effects
        return effects

    @property
    def draft(self) -> str:
        return shown(self.router.composer.cells)

    @property
    def decided(self) -> list[Decided]:
        return [effect for effect in self.effects if isinstance(effect, Decided)]


@pytest.mark.requirement("G8.1", "D11.43")
@table(
    ("typed", "answer"),
    [
        ("y\r", "once"),
        ("p\r", "pattern"),
        ("a\r", "always"),
        ("n\r", "deny"),
        ("\r", "deny"),
        ("no\r", "deny"),
    ],
)
def test_a_deliberate_key_on_its_own_line_answers(typed: str, answer: PermissionChoice) -> None:
    bench = Bench()
    question = command("rm -rf build")
    bench.ask(question)
    bench.wait(GRACE_S)
    assert bench.type(typed) == [Decided(question=question, answer=PermissionAnswer(answer))]
    assert bench.router.card is None


def test_every_shell_command_takes_a_second_word() -> None:
    bench = Bench()
    question = command("ls")
    bench.ask(question)
    bench.wait(GRACE_S)
    assert bench.type("t\r") == []
    assert bench.router.card is not None
    assert bench.router.card.confirming is not None
    (hint,) = bench.type("y\r")
    assert isinstance(hint, Hint)
    bench.type("t\r")
    assert bench.type("all\r") == [Decided(question=question, answer=PermissionAnswer("tool"))]


def test_a_sentence_is_a_no_with_that_note() -> None:
    bench = Bench()
    question = command("rm -rf build")
    bench.ask(question)
    bench.wait(GRACE_S)
    assert bench.type("keep build/cache\r") == [
        Decided(question=question, answer=PermissionAnswer("deny", "keep build/cache"))
    ]


@table("typed", ["x\r", "yes\r", "Y\r", "ok\r", "7\r"])
def test_what_is_not_one_of_the_answers_answers_nothing(typed: str) -> None:
    bench = Bench()
    bench.ask(command("ls"))
    bench.wait(GRACE_S)
    assert [type(effect) for effect in bench.type(typed)] == [Hint]
    assert bench.router.card is not None


@table("at", range(len(SENTENCE)))
def test_while_a_person_types_a_question_gets_nothing_and_the_sentence_is_whole(at: int) -> None:
    bench = Bench()
    for character in SENTENCE[:at]:
        bench.type(character)
        bench.now_s += 0.2
    bench.ask(command("rm -rf /"))
    for character in SENTENCE[at:]:
        bench.type(character)
        bench.now_s += 0.2
    assert bench.decided == []
    sent = [effect.text for effect in bench.effects if isinstance(effect, Send)]
    assert sent == [SENTENCE.rstrip("\r")]


def test_keys_in_the_first_moment_belong_to_the_draft() -> None:
    bench = Bench()
    bench.ask(command("ls"))
    bench.wait(GRACE_S / 2)
    bench.type("y")
    assert bench.draft == "y"
    bench.wait(QUIET_S * 5)
    assert bench.type("\r") == [Send("y", "y", ("y",))]


def test_a_draft_keeps_the_keyboard_until_tab_and_survives_the_answer() -> None:
    bench = Bench()
    bench.type("half a sen")
    bench.wait(60)
    bench.ask(command("ls"))
    bench.wait(60)
    bench.type("tence")
    assert bench.draft == "half a sentence"
    bench.type("\ty\r")
    assert [decided.answer for decided in bench.decided] == [PermissionAnswer("once")]
    assert bench.draft == "half a sentence"


@pytest.mark.requirement("D13.31")
def test_an_empty_draft_and_a_quiet_second_give_a_waiting_question_the_keyboard() -> None:
    bench = Bench()
    bench.type("go on\r")
    bench.ask(command("ls"))
    assert bench.router.settle(bench.now_s) == pytest.approx(QUIET_S)
    bench.wait(QUIET_S)
    assert bench.router.focus == "question"
    bench.type("y")
    assert bench.draft == "y", "it has just taken the keyboard: this key was not meant for it"


def test_escape_puts_a_question_aside_without_answering() -> None:
    bench = Bench()
    bench.ask(command("ls"))
    bench.wait(GRACE_S)
    bench.effects += bench.router.press([Press("esc")], now_s=bench.now_s, columns=44)
    bench.wait(60)
    bench.type("y\r")
    assert bench.decided == []
    assert bench.router.card is not None


def test_ctrl_d_leaves_a_question_to_others_unless_an_answer_was_begun() -> None:
    bench = Bench()
    bench.ask(command("make"))
    bench.wait(GRACE_S * 2)
    assert bench.type("\x04") == [Wish("leave")]
    assert bench.router.card is not None
    assert bench.type("y\x04") == []
    (decided,) = bench.type("\r")
    assert isinstance(decided, Decided)
    assert decided.answer == PermissionAnswer("once")


def test_a_paste_joins_the_draft_and_never_answers() -> None:
    bench = Bench()
    bench.ask(command("ls"))
    bench.wait(GRACE_S)
    assert bench.paste("y\n") == []
    assert bench.draft == "y\n"
    assert bench.router.focus == "draft"


def test_ctrl_c_says_no_and_stops_also_while_the_draft_has_the_keyboard() -> None:
    bench = Bench()
    bench.type("draft")
    question = command("ls")
    bench.ask(question)
    assert bench.type("\x03") == [Decided(question=question, stop=True)]
    assert bench.draft == "draft"


def test_a_long_command_takes_a_yes_only_after_its_last_line_was_shown() -> None:
    bench = Bench(rows=20)
    bench.ask(command("\n".join(f"echo {number}" for number in range(60))))
    bench.wait(GRACE_S)
    pages = 0
    while bench.router.card is not None and not bench.router.card.complete:
        assert [type(effect) for effect in bench.type("y\r")] == [Hint]
        (more,) = bench.type("v\r" if pages % 2 else "\r")
        assert isinstance(more, Show)
        pages += 1
    assert pages > 3
    assert [effect.answer for effect in bench.type("y\r") if isinstance(effect, Decided)] == [
        PermissionAnswer("once")
    ]


def test_a_no_works_before_everything_was_shown() -> None:
    bench = Bench(rows=20)
    bench.ask(command("\n" * 60))
    bench.wait(GRACE_S)
    bench.type("n\r")
    assert [decided.answer for decided in bench.decided] == [PermissionAnswer("deny")]


def test_lines_from_a_pipe_answer_only_after_the_question() -> None:
    bench = Bench(lines_only=True)
    assert bench.type("y\r") == [Send("y", "y", ("y",))]
    bench.ask(command("ls"))
    bench.type("y\r")
    assert [decided.answer for decided in bench.decided] == [PermissionAnswer("once")]


class Asks(str):
    """A question that arrives, with this command."""


class Waits(float):
    """Time that passes."""


class Pastes(str):
    """A paste."""


moments = st.lists(
    st.one_of(
        st.text(alphabet="ypatnv\r\t\x1b\x7fl ", min_size=1, max_size=6),
        st.sampled_from(["y\r", "p\r", "t\rall\r", "\ty\r", SENTENCE]),
        st.sampled_from([Pastes("y"), Pastes("y\n"), Pastes("all\n"), Pastes("p" * 60)]),
        st.sampled_from([Asks("rm -rf /"), Asks("\n".join("x" * 60))]),
        st.sampled_from([Waits(0.05), Waits(0.5), Waits(1.2)]),
    ),
    max_size=25,
)


@settings(max_examples=examples(300))
@given(moments)
def test_nothing_typed_or_pasted_approves_unless_the_question_was_seen_and_its_own_key_was_typed_then(
    sequence: list[str | float],
) -> None:
    bench = Bench(rows=20)
    drawn_s, typed, number = 0.0, "", 0
    for moment in sequence:
        if isinstance(moment, Waits):
            bench.wait(moment)
        elif isinstance(moment, Asks):
            if bench.router.card is None:
                number += 1
                bench.ask(command(moment, f"call_{number}"))
                drawn_s, typed = bench.now_s, ""
        elif isinstance(moment, Pastes):
            assert not any(isinstance(effect, Decided) for effect in bench.paste(moment))
            typed += "⟨paste⟩"
        else:
            for character in str(moment):
                card = bench.router.card
                for effect in bench.type(character):
                    if not isinstance(effect, Decided) or effect.stop:
                        continue
                    assert isinstance(effect.answer, PermissionAnswer)
                    if effect.answer.choice == "deny":
                        continue
                    assert character == "\r"
                    assert card is not None
                    assert effect.question == card.question
                    assert card.complete, "everything was shown"
                    assert bench.now_s - drawn_s >= GRACE_S, "there was time to see it"
                    key = {"once": "y", "pattern": "p", "always": "a", "tool": "all"}[effect.answer.choice]
                    assert card.line.strip() == key
                    left = typed.split("\r")[-1].split("\t")[-1].split("\x1b")[-1]
                    assert "⟨paste⟩" not in left
                    assert key[-1] in typed.split("⟨paste⟩")[-1], "typed after it was drawn"
                typed += character
