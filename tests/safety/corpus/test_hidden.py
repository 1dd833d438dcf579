"""Code that hides inside what looks like a secret: a person who is asked can read all of it."""

import base64
import string
from random import Random

import msgspec

from bridle.conformance.fake_models import scripted
from bridle.conformance.harness import harness
from bridle.protocol.commands import AnswerPermission
from bridle.protocol.events import PermissionRequested
from bridle.providers.script import call, say
from safety.corpus.loading import Hidden, hidden, named
from tables import table

CASES = hidden()
IDS = [named(case.command, seen=number) for number, case in enumerate(CASES, 1)]


def made_up_secrets() -> dict[str, str]:
    """Something of each shape, built here so that no file holds what looks like a secret."""
    random = Random(7)
    letters = string.ascii_letters + string.digits

    def some(count: int, among: str = letters) -> str:
        return "".join(random.choice(among) for _ in range(count))

    def part(data: object) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(data)).decode().rstrip("=")

    return {
        "{bearer}": some(40),
        "{github}": "ghp" + "_" + some(36),
        "{aws}": "AKI" + "A" + some(16, string.ascii_uppercase + string.digits),
        "{jwt}": f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part({'sub': some(12)})}.{some(43)}",
        "{api}": "sk" + "-" + some(40),
        "{plain}": some(11) + "7" + some(12),
    }


SECRETS = made_up_secrets()


def filled(command: str) -> str:
    for name, secret in SECRETS.items():
        command = command.replace(name, secret)
    return command


async def question_about(command: str) -> PermissionRequested:
    """What the log and every client see when somebody is asked about a command."""
    model = scripted(call("bash", command=command), say("Done."))
    async with harness(model, answers=True, mode="strict") as session:
        number = await session.send("go")
        request = await session.until(PermissionRequested, since=number)
        await session.connection.send(
            AnswerPermission(session=session.id, call_id=request.call_id, answer="deny")
        )
        await session.turn_of(number)
        stored = [entry.event for entry in await session.stored()]
    assert request in stored
    return request


@table("case", CASES)
async def test_what_runs_is_never_masked(case: Hidden) -> None:
    request = await question_about(filled(case.command))
    shown = request.input["command"]
    missing = [piece for piece in case.visible if piece not in shown]
    assert missing == [], f"{case.why}; shown: {shown}"
    assert any(all(piece in subject for piece in case.visible) for subject in request.subjects)


@table("case", CASES)
async def test_a_secret_that_is_only_a_value_is_masked(case: Hidden) -> None:
    secrets = [secret for name, secret in SECRETS.items() if name in case.twin]
    assert secrets, "a twin holds a secret"
    asked = msgspec.json.encode(await question_about(filled(case.twin))).decode()
    assert [secret for secret in secrets if secret in asked] == []


def test_the_list_is_as_long_as_promised() -> None:
    assert len(CASES) >= 20
    assert len({case.command for case in CASES}) == len(CASES)
