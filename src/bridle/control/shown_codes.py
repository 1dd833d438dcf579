"""Codes that one person alone is shown in a session: of a request for a token, until it is confirmed or void."""

from __future__ import annotations

from bridle.control.live import LiveSession
from bridle.control.live_sessions import LiveSessions
from bridle.engine.open_questions import Client
from bridle.protocol.events import QuestionAnswered, QuestionAsked
from bridle.protocol.questions import TokenAnswer, TokenQuestion


class ShownCodes:
    """Which code was shown to whom, by the id of its question."""

    def __init__(self, live: LiveSessions) -> None:
        self._live = live
        self._shown_to: dict[str, tuple[LiveSession, str]] = {}

    def show(self, question_id: str, question: TokenQuestion) -> bool:
        """Puts a question to one person who follows a session here: at this engine's own terminal, or else with a token
        that mints. False where there is none."""
        people = [
            (live, attachment)
            for live in self._live.all_open().values()
            for attachment in live.attachments.values()
            if attachment.client.can_say_yes and live.follows(attachment.client.id)
        ]
        own = [one for one in people if one[1].claims is None]
        minting = [one for one in people if one[1].claims is not None and one[1].claims.can_mint]
        for live, attachment in (*own, *minting)[:1]:
            live.tell_one(attachment.client.id, QuestionAsked(question_id=question_id, question=question))
            self._shown_to[question_id] = (live, attachment.client.id)
            return True
        return False

    def hide(self, question_id: str) -> None:
        """What was shown counts no more."""
        shown = self._shown_to.pop(question_id, None)
        if shown is not None:
            live, client = shown
            answer = QuestionAnswered(question_id=question_id, answer=TokenAnswer(), answered_by="")
            live.tell_one(client, answer)

    def was_shown(self, client: Client, question_id: str) -> bool:
        """Whether a code waits under this id that this client was shown."""
        shown = self._shown_to.get(question_id)
        return shown is not None and shown[1] == client.id
