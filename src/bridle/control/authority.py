"""What a client may do: one pure function over one table, and the only place that says no to a client for who it is.

A kind of command or query that is not in the table is refused. What a command then finds (no such question, a turn
that runs) is for the session to say; what a tool may do is for the permissions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec
from msgspec import structs

from bridle.engine.open_questions import Client
from bridle.protocol import commands as c
from bridle.protocol.events import Mode
from bridle.protocol.messages import Effort

if TYPE_CHECKING:
    from bridle.protocol.queries import AnyQuery, DescribeLog, ListModels, PreviewSession
    from bridle.protocol.tokens import Claims

FROM_TIGHT_TO_LOOSE: tuple[Mode, ...] = ("plan", "safe", "strict", "default", "auto", "yolo")
_SANDBOX = ("read-only", "workspace-write", "auto", "off")
_NETWORK = ("deny", "filtered", "inherit")
"""Both from tight to loose."""
_EFFORTS: tuple[Effort, ...] = ("off", "low", "medium", "high", "max")


class Refusal(msgspec.Struct, frozen=True):
    """Why not: a stable reason, and what its sentence names."""

    reason: str
    data: dict[str, Any] = {}


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What the person's own settings give a session: an agent asks for that or for less."""

    mode: Mode = "plan"
    sandbox: str = "read-only"
    network: str = "deny"
    max_steps: int = 0
    max_cost: float | None = 0.0
    effort: Effort | None = None
    agent: str | None = None


class MeantSession(msgspec.Struct, frozen=True, kw_only=True):
    """The meant session as the gate sees it; by default nothing is open. `slash` are its own commands (`name:` is a
    prefix), `mode` and `effort` apply now, `bounds` are for one to be opened."""

    is_open: bool = False
    attached: bool = False
    mode: Mode = "plan"
    effort: Effort | None = None
    slash: frozenset[str] = frozenset()
    bounds: Bounds = Bounds()


NOT_OPEN = MeantSession()


class FollowEvents(msgspec.Struct, frozen=True):
    """Reading the events of a session: no command, and held by the same gate."""

    session: str


Asked: TypeAlias = "c.AnyCommand | AnyQuery | FollowEvents"
Check: TypeAlias = Callable[[Client, Any, MeantSession], Refusal | None]


def may(client: Client, claims: Claims | None, asked: Asked, live: MeantSession) -> Refusal | None:
    """Return the reason to refuse `asked`, or None. `claims` are those of the client's token. A session outside of
    them does not exist for the client."""
    kind = type(asked).__name__
    session = session_of(asked)
    if (refusal := outside(claims, asked)) is not None:
        return refusal
    needs_attachment = kind in FOR_THE_ATTACHED and session is not None
    if needs_attachment and not live.is_open:
        return Refusal("SessionNotOpen", {"session": session})
    if isinstance(asked, c.AttachSession) and not live.is_open and not _opens_sessions(claims):
        return Refusal("SessionNotOpen", {"session": session})
    check = FOR_THE_ATTACHED.get(kind) or FOR_ALL.get(kind)
    if check is not None and (refusal := check(client, asked, live)) is not None:
        return refusal
    if needs_attachment and not live.attached:
        return Refusal("NotAttached", {"session": session})
    return None


def outside(claims: Claims | None, asked: Asked) -> Refusal | None:
    """The part of it that is about claims alone, whatever there is."""
    kind = type(asked).__name__
    is_placed = kind in FOR_THE_ATTACHED or kind in FOR_ALL
    session = session_of(asked)
    if not is_placed or (claims is not None and not _grants(claims, asked, session)):
        return Refusal("NotGranted", {"what": kind})
    for one in (session, asked.carry_from if isinstance(asked, c.CreateSession) else None):
        if claims is not None and one is not None and not claims.covers_session(one):
            return Refusal("UnknownSession", {"session": one})
    return None


def session_of(asked: Asked) -> str | None:
    """The session that is meant; None where it is none, or one that is not there yet."""
    if isinstance(asked, c.CreateSession):
        return asked.resume
    if type(asked).__name__ == "PreviewSession":  # queries are imported for their types only
        return cast("PreviewSession", asked).create.resume
    return getattr(asked, "session", None)


def _grants(claims: Claims, asked: Asked, session: str | None) -> bool:
    """A client that is bound to sessions makes no other unless its claims say so, asks for nothing about one to be made
    elsewhere (`create`) and changes nothing that holds for others; who may not follow events gets none with a
    description. An agent that may say nothing to a session has no model asked beside it either."""
    if getattr(asked, "events", 0) and not claims.covers_command("FollowEvents"):
        return False
    if isinstance(asked, c.AskAside) and claims.identity_class == "agent":
        return claims.covers_command("AskAside") and claims.covers_command("SendInput")
    makes_one = isinstance(asked, c.BranchSession) or (isinstance(asked, c.CreateSession) and session is None)
    about_one = getattr(asked, "create", None) is not None
    beyond = (
        (makes_one and not claims.opens)
        or about_one
        or isinstance(asked, c.PromoteGrant | c.SaveModel | c.ConnectProvider)
    )
    bound = claims.sessions is not msgspec.UNSET
    return claims.covers_command(type(asked).__name__) and not (beyond and bound)


def _opens_sessions(claims: Claims | None) -> bool:
    """Who may only watch or answer wakes no stored session."""
    return claims is None or claims.covers_command("CreateSession")


# Who may ask for what


def _is_agent(client: Client) -> bool:
    return client.identity == "agent"


def _not_a_person(what: str) -> Refusal:
    return Refusal("NotAPerson", {"what": what})


_SELF_APPROVAL = Refusal("SelfApproval")


def is_looser(mode: Mode, than: Mode) -> bool:
    return FROM_TIGHT_TO_LOOSE.index(mode) > FROM_TIGHT_TO_LOOSE.index(than)


def _answer(client: Client, command: c.AnswerPermission, _live: MeantSession) -> Refusal | None:
    return _SELF_APPROVAL if _is_agent(client) and command.answer != "deny" else None


def _answer_question(client: Client, _command: c.AnswerQuestion, _live: MeantSession) -> Refusal | None:
    return _SELF_APPROVAL if _is_agent(client) else None


def _answer_trust(client: Client, command: c.AnswerTrust, _live: MeantSession) -> Refusal | None:
    return _SELF_APPROVAL if _is_agent(client) and command.trusted else None


def _set_mode(client: Client, command: c.SetMode, live: MeantSession) -> Refusal | None:
    return _SELF_APPROVAL if _is_agent(client) and is_looser(command.mode, live.mode) else None


def _set_effort(client: Client, command: c.SetEffort, live: MeantSession) -> Refusal | None:
    """What a model thinks is paid for."""
    if _is_agent(client) and not _no_more_effort(command.effort, live.effort):
        return _only_less(f"Effort {command.effort}")
    return None


def _exit_plan_mode(client: Client, command: c.ExitPlanMode, _live: MeantSession) -> Refusal | None:
    return _SELF_APPROVAL if _is_agent(client) and command.approve else None


def _shell(client: Client, _command: c.ShellRequest, _live: MeantSession) -> Refusal | None:
    """A person who could not be asked is not at a terminal."""
    if _is_agent(client) or not client.answers:
        return _not_a_person("A shell command typed with !")
    return None


def _slash(client: Client, command: c.RunSlash, live: MeantSession) -> Refusal | None:
    """A named prompt is input like any other."""
    is_peoples = not live.slash.isdisjoint((command.name, f"{command.name.partition(':')[0]}:"))
    return _not_a_person(f"/{command.name}") if _is_agent(client) and is_peoples else None


def _change_input(client: Client, _command: c.ChangeInput, _live: MeantSession) -> Refusal | None:
    """What people have queued is theirs."""
    return _not_a_person("Changing what is queued") if _is_agent(client) else None


def _undo(client: Client, command: c.Undo, _live: MeantSession) -> Refusal | None:
    return _not_a_person("/redo" if command.redo else "/undo") if _is_agent(client) else None


def _keep(client: Client, command: c.PinSession | c.DeleteSession, _live: MeantSession) -> Refusal | None:
    """How long something is kept is for people to say."""
    return _not_a_person(type(command).__name__) if _is_agent(client) else None


def _for_people(client: Client, asked: Asked, _live: object) -> Refusal | None:
    """A person's own settings and keys, and where those come from, are none of an agent's business."""
    return _not_a_person(type(asked).__name__) if _is_agent(client) else None


def _models(client: Client, query: ListModels, _live: object) -> Refusal | None:
    """Whoever has a provider asked spends the person's word there, whoever names options reads other settings, and what
    can be used tells whose keys there are."""
    if _is_agent(client) and (query.ask_provider or query.create is not None or query.usable):
        return _not_a_person("More than what is known of models")
    return None


def _of_a_session_elsewhere(
    client: Client, command: c.RenameSession | c.BranchSession | DescribeLog, live: MeantSession
) -> Refusal | None:
    """People put stored sessions in order and look at them without opening them; an agent has those it is attached
    to."""
    if _is_agent(client) and not live.attached:
        return Refusal("NotAttached", {"session": command.session})
    return None


def _create(client: Client, command: c.CreateSession, live: MeantSession) -> Refusal | None:
    """An agent gets what the person's own settings give, or asks for less."""
    if not _is_agent(client):
        return None
    for what, given in (
        ("An environment", command.env),
        ("A profile", command.profile),
        ("What was said in another session", command.carry_from),
        ("A name that runs go by", command.aliases),
    ):
        if given:
            return _not_a_person(what)
    if command.mode is not None and is_looser(command.mode, live.bounds.mode):
        return _only_less(f"Mode {command.mode}")
    if command.agent is not None and live.bounds.agent not in (None, command.agent):
        return _only_less(f"The agent {command.agent}")
    for name, value in structs.asdict(command.config).items():
        allowed = FOR_AGENTS.get(name)
        if allowed is None:
            if value:
                return _not_a_person(f"The option {name}")
        elif value is not None and not allowed(value, live.bounds):
            return _only_less(f"The option {name}")
    return None


def options_for_agents(config: c.SessionOptions, bounds: Bounds) -> c.SessionOptions:
    """Return the options of a run that an agent may give too; the others are left out."""
    given = {name: getattr(config, name) for name in FOR_AGENTS}
    return c.SessionOptions(
        **{name: value for name, value in given.items() if FOR_AGENTS[name](value, bounds)}
    )


def _only_less(what: str) -> Refusal:
    return Refusal("OnlyStricter", {"what": what})


def _anything(_value: Any, _bounds: Bounds) -> bool:
    return True


def _at_most(value: Any, limit: float | None) -> bool:
    return isinstance(value, int | float) and value >= 0 and (limit is None or value <= limit)


def _no_looser(value: Any, than: str, order: tuple[str, ...]) -> bool:
    """What nobody knows is no tighter than anything."""
    return value in order and than in order and order.index(value) <= order.index(than)


def _no_more_effort(value: Any, than: Effort | None) -> bool:
    """Where nobody chose one, what a vendor does by itself is not known to be more than none at all."""
    return value == "off" or (than is not None and _no_looser(value, than, _EFFORTS))


FOR_AGENTS: Mapping[str, Callable[[Any, Bounds], bool]] = {
    "deny": _anything,
    "dry_run": _anything,
    "headless": _anything,
    "memory": lambda value, _bounds: not value,
    "on_ask": _anything,
    "output_schema": _anything,
    "require_trust": _anything,
    "title": _anything,
    "effort": lambda value, bounds: _no_more_effort(value, bounds.effort),
    "on_orphan": lambda value, _bounds: value != "mark-unknown",
    "persistent_grants": lambda value, _bounds: not value,
    "max_steps": lambda value, bounds: _at_most(value, bounds.max_steps),
    "max_cost": lambda value, bounds: _at_most(value, bounds.max_cost),
    "sandbox": lambda value, bounds: _no_looser(value, bounds.sandbox, _SANDBOX),
    "network": lambda value, bounds: _no_looser(value, bounds.network, _NETWORK),
}
"""The options of `CreateSession.config` that an agent may give, and when one asks for no more than the settings give.

Any other is for people: it says yes, trusts something, names a settings file, or lets more happen.
"""

FOR_THE_ATTACHED: Mapping[str, Check | None] = {
    "DetachSession": None,
    "EndSession": None,
    "SendInput": None,
    "ChangeInput": _change_input,
    "AskAside": None,
    "ShellRequest": _shell,
    "RunSlash": _slash,
    "CancelTurn": None,
    "AnswerPermission": _answer,
    "AnswerQuestion": _answer_question,
    "AnswerTrust": _answer_trust,
    "SetModel": None,
    "SetMode": _set_mode,
    "SetEffort": _set_effort,
    "EnterPlanMode": None,
    "ExitPlanMode": _exit_plan_mode,
    "RevokeGrant": None,
    "PromoteGrant": _for_people,
    "Undo": _undo,
    "CustomCommand": _for_people,
    "FollowEvents": None,
    "ListTools": None,
    "ListGrants": None,
    "ListChanges": None,
    "ReadOutput": None,
    "ListModels": _models,
    "ListProviders": _for_people,
    "ListSlash": None,
    "ListSkills": None,
    "DescribeSkill": None,
    "ListAgents": None,
    "ListProfiles": None,
    "DescribeProfile": None,
    "CustomQuery": None,
}
"""What takes an attachment to the session it names, where it names one; each with who may ask for what."""

FOR_ALL: Mapping[str, Check | None] = {
    "CreateSession": _create,
    "AttachSession": None,
    "RenameSession": _of_a_session_elsewhere,
    "BranchSession": _of_a_session_elsewhere,
    "PinSession": _keep,
    "DeleteSession": _keep,
    "SaveModel": _for_people,
    "ConnectProvider": _for_people,
    "ListSessions": None,
    "DescribeSession": None,
    "FindSession": None,
    "PreviewSession": _for_people,
    "DescribeLog": _of_a_session_elsewhere,
    "SearchSessions": None,
    "SumCosts": None,
    "CheckHealth": None,
}
"""What takes none."""
