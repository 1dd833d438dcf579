"""Route keys to the draft or to a question.

The draft and the answer are two texts. A question takes the keyboard only while the draft is empty and the keyboard
has been quiet for a second, and its keys count only after that has been on the screen for a moment: what a person types
without having seen it stays theirs. Tab goes to the question at once, Esc goes back. A paste always joins the draft.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias
from urllib.parse import unquote

import msgspec

from bridle.clients.interaction.composer.composer import (
    Cells,
    Composer,
    Picture,
    Send,
    Wish,
    press,
    remembered,
    with_pictures,
)
from bridle.clients.interaction.composer.keys import Key, Paste, Press, Text
from bridle.clients.interaction.questions.question_card import (
    Card,
    Decided,
    Hint,
    Question,
    Show,
    answer_card,
    draw_card,
)
from bridle.protocol.errors import BridleError

QUIET_S: Final = 1.0
"""A key within this time before a question says that somebody is typing."""
GRACE_S: Final = 0.4
"""Keys within this time after a question was drawn were not meant for it."""

KeyMeaning: TypeAlias = Send | Wish | Decided | Show | Hint
Focus: TypeAlias = Literal["draft", "question"]


_LONGEST: Final = 4096
IMAGES: Final = (".png", ".jpg", ".jpeg", ".gif", ".webp")
"""How the names of images end that can be sent."""


def is_image_name(path: str) -> bool:
    return path.lower().endswith(IMAGES)


def pictures_in(pasted: str, picture: Callable[[str], Picture | None]) -> Sequence[Picture]:
    """The images a paste names, if it names nothing else; `picture` reads the one at a path."""
    if len(pasted) > _LONGEST or not any(end in pasted.lower() for end in IMAGES):
        return ()
    whole = pasted.strip()
    if is_image_name(whole) and (one := picture(whole)) is not None:  # copied as it stands, with its blanks
        return (one,)
    found: list[Picture] = []
    for path in _paths(pasted):
        one = picture(path) if is_image_name(path) else None
        if one is None:
            return ()
        found.append(one)
    return found


def _paths(pasted: str) -> list[str]:
    try:
        words = shlex.split(pasted)
    except ValueError:  # an apostrophe in a name
        words = [pasted.strip()]
    return [unquote(word.removeprefix("file://")) if word.startswith("file://") else word for word in words]


class KeyRouter:
    """The draft, the question in front of it, and which of them has the keyboard.

    `lines_only` is for input that is no terminal: there is no Tab, and a question drawn has the next line.
    `picture` reads the image at a path that a paste names; it raises `BridleError` for one that cannot be sent.
    """

    def __init__(
        self,
        composer: Composer,
        *,
        lines_only: bool = False,
        picture: Callable[[str], Picture | None] = lambda _path: None,
    ) -> None:
        self.composer = composer
        self._picture = picture
        self.card: Card | None = None
        self.focus: Focus = "draft"
        self._lines_only = lines_only
        self._drawn_s = 0.0
        self._put_aside = False
        self._key_s = float("-inf")

    def ask(self, question: Question, *, now_s: float, columns: int, rows: int, position: str = "") -> Show:
        """Puts a question in front of the draft and returns what is to be printed, now."""
        self.card, show = draw_card(question, columns=columns, rows=rows, position=position)
        self._drawn_s = now_s
        self._put_aside = False
        self.focus = "question" if self._lines_only else "draft"
        self.settle(now_s)
        return show

    def settle(self, now_s: float) -> float | None:
        """Gives the question the keyboard if that is due; otherwise says in how many seconds it may be.

        None means that only a key can change anything.
        """
        if self.card is None or self.focus == "question" or self._put_aside or not self.composer.empty:
            return None
        left_s = self._key_s + QUIET_S - now_s
        if left_s > 0:
            return left_s
        self.focus = "question"
        self._drawn_s = now_s
        return None

    def close(self) -> None:
        """The question is gone, answered here or elsewhere. The draft stays as it is."""
        self.card = None
        self.focus = "draft"

    def come_back(self, now_s: float) -> None:
        """Another program had the keyboard until now: a question that came meanwhile has not been seen yet."""
        self._key_s = self._drawn_s = now_s
        self.focus = "draft"

    def remember(self, cells: Cells) -> None:
        """One more prompt that Up recalls."""
        self.composer = remembered(self.composer, cells)

    def press(self, keys: Sequence[Key], *, now_s: float, columns: int) -> list[KeyMeaning]:
        effects: list[KeyMeaning] = []
        for key in keys:
            effect = self._press(key, now_s, columns)
            self._key_s = now_s
            if effect is not None:
                effects.append(effect)
            if isinstance(effect, Decided):
                self.close()
        return effects

    def _press(self, key: Key, now_s: float, columns: int) -> KeyMeaning | None:
        card = self.card
        if card is None:
            return self._compose(key)
        if key == Press("ctrl-c"):
            return Decided(question=card.question, stop=True)
        seen = self._lines_only or now_s - self._drawn_s >= GRACE_S
        if self.focus == "draft":
            if key == Press("tab") and seen:
                self.focus = "question"
                self._put_aside = False
                return None
            return self._compose(key)
        if not seen or isinstance(key, Paste) or key == Press("esc"):
            self.focus = "draft"
            self._put_aside = key == Press("esc")
            return None if self._put_aside else self._compose(key)
        return self._answer(card, key, columns)

    def _compose(self, key: Key) -> KeyMeaning | None:
        if isinstance(key, Paste):
            try:
                pictures = pictures_in(key.text, self._picture)
            except BridleError as problem:
                self.composer, _ = press(self.composer, key)
                return Hint(problem.message)
            if pictures:
                self.composer = with_pictures(self.composer, pictures)
                return None
        self.composer, effect = press(self.composer, key)
        return effect

    def _answer(self, card: Card, key: Key, columns: int) -> KeyMeaning | None:
        match key:
            case Text(text=text):
                self.card = msgspec.structs.replace(card, line=card.line + text)
            case Press(name="backspace"):
                self.card = msgspec.structs.replace(card, line=card.line[:-1])
            case Press(name="ctrl-u" | "ctrl-w"):
                self.card = msgspec.structs.replace(card, line="")
            case Press(name="enter"):
                self.card, outcome = answer_card(card, card.line, columns=columns)
                return outcome
            case Press(name="ctrl-z" | "ctrl-l"):
                return self._compose(key)
            case Press(name="ctrl-d") if not card.line and self.composer.empty:
                return self._compose(key)  # whoever leaves leaves the question to others
            case _:
                pass
        return None
