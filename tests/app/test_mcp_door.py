"""Bridle as a tool of another agent, over streamable HTTP: the official client against the served engine."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from bridle.clients.mcp_server.agent_door import MOST
from bridle.clients.mcp_server.stdio_streams import LONGEST_LINE
from bridle.conformance.fake_clock import FakeClock
from bridle.conformance.fake_models import scripted
from bridle.protocol import commands as c
from bridle.protocol import events as e
from bridle.protocol.queries import DescribeSession
from bridle.providers.script import call, say
from outer_agents_kit import ERAS, HOST, McpServed, mcp_served

RUN = "run_agent_with_shell_access"
eras = pytest.mark.parametrize("era", ERAS)


def a_turn() -> Any:
    return scripted(call("bash", command="echo hi > a.txt"), say("It is there."), say("Again."))


async def called(agent: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """What a call is answered with, as data."""
    result = await agent.call_tool(tool, arguments)
    return {**(result.structured_content or {}), "failed": result.is_error}


async def read(agent: Client, uri: str) -> Any:
    (contents,) = (await agent.read_resource(uri)).contents
    return json.loads(contents.text)  # pyright: ignore[reportAttributeAccessIssue]


# Runs


@eras
@pytest.mark.requirement("G19.6")
@pytest.mark.requirement("G19.5")
@pytest.mark.requirement("G19.10")
@pytest.mark.requirement("X12")
async def test_a_run_answers_with_what_came_of_it_and_tells_it_as_it_happens(era: str) -> None:
    told: list[str] = []

    async def hear(_progress: float, _total: float | None, message: str | None) -> None:
        told.append(message or "")

    async with mcp_served(a_turn(), mode="yolo") as served:
        session = served.session
        async with served.agent(served.mint(session.id), era=era) as agent:
            assert RUN in (agent.instructions or "")
            result = await agent.call_tool(RUN, {"prompt": "go", "colour": "red"}, progress_callback=hear)
        digest = (await session.connection.ask(DescribeSession(session=session.id))).session.id
    report = result.structured_content
    assert not result.is_error
    assert (report["session"], report["session"]) == (session.id, digest)
    assert report["answer"].endswith("It is there.")
    assert report["summary"] == {"cost": 0.0, "turns": 2, "tools_used": ["bash"]}
    assert (report["stop"], report["files_changed"], report["denied"]) == ("end_turn", ["a.txt"], [])
    assert len(report["log_digest"]) == 64
    assert [line.split()[:2] for line in told] == [["ran", "echo"]]


@eras
@pytest.mark.requirement("G19.6")
async def test_a_run_that_does_not_wait_is_waited_for_later(era: str) -> None:
    async with (
        mcp_served(a_turn(), mode="yolo") as served,
        served.agent(served.mint(served.session.id), era=era) as agent,
    ):
        begun = await called(agent, RUN, prompt="go", wait="none")
        assert begun["state"] == "running"
        ended = await called(agent, "wait_for_turn", input=begun["input"])
        again = await called(agent, "wait_for_turn")
        since = await read(agent, begun["events"])
    assert (ended["state"], ended["files_changed"]) == ("ended", ["a.txt"])
    assert again["answer"] == ended["answer"]
    assert since["events"][0]["id"] == begun["input"] + 1
    assert since["events"][-1]["id"] == since["last"]


@eras
async def test_a_run_that_is_cancelled_stops_its_turn(era: str) -> None:
    async with mcp_served(scripted(call("bash", command="sleep 60"), say("no")), mode="yolo") as served:
        session = served.session
        async with served.agent(served.mint(session.id), era=era) as agent:
            running = asyncio.ensure_future(agent.call_tool(RUN, {"prompt": "go"}))
            await session.until(e.ToolCallStarted)
            running.cancel()
            ended = await session.until(e.TurnEnded)
        await asyncio.gather(running, return_exceptions=True)
    assert ended.stop == "cancelled"


async def test_a_run_that_takes_too_long_for_its_caller_goes_on() -> None:
    async with (
        mcp_served(scripted(call("bash", command="sleep 60"), say("no")), mode="yolo") as served,
        served.agent(served.mint(served.session.id)) as agent,
    ):
        early = await called(agent, RUN, prompt="go", timeout_s=0.05)
        assert (early["state"], early["failed"]) == ("running", False)
        refused = await called(agent, RUN, prompt="more")
        assert refused["reason"] == "TurnInProgress"
        await called(agent, "cancel_turn")
        assert (await called(agent, "wait_for_turn"))["stop"] == "cancelled"


# Authority


@eras
@pytest.mark.requirement("G19.7")
async def test_an_agent_says_no_and_never_yes(era: str) -> None:
    model = scripted(call("bash", command="touch made"), say("I was not allowed to."))
    async with mcp_served(model, mode="default", on_ask="wait") as served:
        session = served.session
        for identity in ("human", "agent"):  # what its token is good for elsewhere does not matter
            token = served.mint(session.id, identity_class=identity)
            async with served.agent(token, era=era) as agent:
                if identity == "human":
                    running = asyncio.ensure_future(called(agent, RUN, prompt="go"))
                    asked = await session.until(e.PermissionRequested)
                    for answer in ("once", "tool", "always"):
                        said = await called(agent, "answer_permission", call_id=asked.call_id, answer=answer)
                        assert (said["failed"], said["reason"]) == (True, "SelfApproval")
                    planned = await called(agent, "enter_plan_mode")
                    assert not planned["failed"]
                    assert (await called(agent, "exit_plan_mode", approve=True))["reason"] == "SelfApproval"
                    said = await called(agent, "answer_permission", call_id=asked.call_id, note="not now")
                    assert not said["failed"]
                    report = await running
                    assert [one["tool"] for one in report["denied"]] == ["bash"]


async def test_a_question_that_nobody_answers_is_a_denied_call() -> None:
    clock = FakeClock()
    model = scripted(call("bash", command="touch made"), say("I was not allowed to."))
    async with mcp_served(model, clock=clock, mode="default", on_ask="wait") as served:
        session = served.session
        async with served.agent(served.mint(session.id)) as agent:
            begun = await called(agent, RUN, prompt="go", wait="none")
            await session.until(e.PermissionRequested, since=begun["input"])
            await clock.advance(61)
            report = await called(agent, "wait_for_turn")
    assert [one["reason"] for one in report["denied"]] == ["PermissionTimeout"]


@eras
@pytest.mark.requirement("G19.7")
async def test_what_a_token_does_not_name_is_not_there(era: str) -> None:
    async with mcp_served(a_turn(), mode="yolo") as served:
        session = served.session
        await session.ask("say something")
        bound, own = served.mint(session.id), served.mint()
        person = served.tokens.issue_bootstrap()
        async with served.agent(bound, era=era) as agent:
            listed = (await called(agent, "list_sessions"))["sessions"]
            assert [one["id"] for one in listed] == [session.id]
            assert (await called(agent, "create_session", cwd=session.folder))["reason"] == "NotGranted"
        for token in (own, person):  # a person's own token is an agent's here too
            async with served.agent(token, era=era) as agent:
                assert (await called(agent, "list_sessions"))["sessions"] == []
                assert (await called(agent, "attach_session", session=session.id))[
                    "reason"
                ] == "UnknownSession"
                for uri in (
                    f"session/{session.id}",
                    f"session/{session.id}/log",
                    f"session/{session.id[:12]}/events",
                ):
                    with pytest.raises(MCPError) as refused:
                        await agent.read_resource(f"bridle-v1://{uri}")
                    assert refused.value.error.data["reason"] == "UnknownSession"
                made = await called(agent, "create_session", cwd=session.folder, model="demo:scripted")
                assert not made["failed"], made
                report = await called(agent, RUN, prompt="go")
                assert report["session"] == made["session"]
                assert [one["id"] for one in (await called(agent, "list_sessions"))["sessions"]] == [
                    made["session"]
                ]
                assert (await called(agent, "end_session"))["failed"] is False


async def test_an_agent_gets_no_more_than_the_persons_settings_give() -> None:
    async with mcp_served(a_turn()) as served, served.agent(served.mint()) as agent:
        cwd = served.session.folder
        assert (await called(agent, "create_session", cwd=cwd, mode="yolo"))["reason"] == "OnlyStricter"
        assert (await called(agent, "create_session", cwd=cwd, sandbox="off"))["reason"] == "OnlyStricter"
        assert (await called(agent, "create_session"))["reason"] == "BadCommand"


async def test_an_agent_mints_no_token() -> None:
    async with mcp_served(a_turn()) as served, served.http(served.mint(served.session.id)) as http:
        token = {"x-bridle-token": served.mint(served.session.id)}
        await http.get(f"http://{HOST}/v1/handshake", headers=token)
        asked = await http.get(f"http://{HOST}/v1/auth/token?identity_class=human", headers=token)
        assert asked.json()["reason"] == "MintRefused"


# A person is told


@pytest.mark.requirement("G19.11")
async def test_a_person_who_is_here_is_told_of_a_session_that_an_agent_began() -> None:
    async with mcp_served(a_turn()) as served:
        session = served.session
        person = served.engine.connect(name="terminal", answers=True)
        await person.send(c.AttachSession(session=session.id))
        stream = person.events(session.id, since=0)
        assert await _next_notice(stream, start=True) is None
        async with served.agent(served.mint(name="helper")) as agent:
            made = await called(agent, "create_session", cwd=session.folder, model="demo:scripted")
            assert not made["failed"], made
        told = await _next_notice(stream)
        assert told is not None
        assert told.data == {"name": "helper", "session": made["session"]}
        assert made["attach"] == f"bridle attach {made['session']}"
        assert made["attach"] in told.message
        await person.send(c.AttachSession(session=made["session"]))  # and there they read who began it
        first = person.events(made["session"])
        assert await _next_notice(first) == told


async def _next_notice(stream: AsyncIterator[e.Envelope], *, start: bool = False) -> e.Notice | None:
    async for envelope in stream:
        if start:
            return None
        if isinstance(envelope.event, e.Notice) and envelope.event.reason == "OuterAgent":
            return envelope.event
    return None


# Resources, prompts, subscriptions


@eras
@pytest.mark.requirement("G19.8")
async def test_everything_that_is_listed_can_be_read(era: str) -> None:
    async with mcp_served(a_turn(), mode="yolo") as served:
        session = served.session
        async with served.agent(served.mint(session.id), era=era) as agent:
            await called(agent, RUN, prompt="go")
            listed = [one.uri for one in (await agent.list_resources()).resources]
            texts = {uri: (await agent.read_resource(uri)).contents[0] for uri in listed}
            templates = {one.name for one in (await agent.list_resource_templates()).resource_templates}
            older = await read(agent, f"harness/v1://session/{session.id}")
            models = await read(agent, "bridle-v1://provider/openai/models")
            profile = await read(agent, "bridle-v1://profile/careful")
            with pytest.raises(MCPError) as refused:
                await agent.read_resource("bridle-v1://profile/nobody")
    plain = {
        f"bridle-v1://{name}" for name in ("sessions", "profiles", "providers", "tools", "skills", "runtime")
    }
    of_session = {f"bridle-v1://session/{session.id}{rest}" for rest in ("", "/events", "/log")}
    assert set(listed) == plain | of_session
    assert templates == {"session", "session/events", "session/log", "profile", "provider/models", "skill"}
    log = [json.loads(line) for line in texts[f"bridle-v1://session/{session.id}/log"].text.splitlines()]
    assert [one["id"] for one in log] == list(range(1, len(log) + 1))
    assert older["session"]["id"] == session.id
    assert models["models"]
    providers = json.loads(texts["bridle-v1://providers"].text)["providers"]
    assert providers == [{"name": "demo", "models": "bridle-v1://provider/demo/models"}]
    assert profile["settings"]["mode"] == "strict"
    assert refused.value.error.code == (-32002 if era == "legacy" else -32602)


@eras
@pytest.mark.requirement("G19.13")
async def test_named_prompts_are_read_and_run(era: str) -> None:
    async with mcp_served(scripted(say("Reviewed.")), mode="yolo") as served:
        session = served.session
        async with served.agent(served.mint(session.id), era=era) as agent:
            listed = (await agent.list_prompts()).prompts
            (message,) = (await agent.get_prompt("review", {"words": "only tests"})).messages
            report = await called(agent, RUN, skill="review", prompt="only tests")
            other = await called(agent, RUN, skill="undo")
            with pytest.raises(MCPError):
                await agent.get_prompt("nothing")
            with pytest.raises(MCPError, match='no argument "task"'):
                await agent.get_prompt("review", {"task": "only tests"})
        accepted = await session.until(e.InputAccepted)
    arguments = {one.name: [word.name for word in one.arguments] for one in listed}
    assert {"init": ["words"], "review": ["words"]}.items() <= arguments.items()
    assert e.text_of(accepted.content) == message.content.text
    assert report["answer"].endswith("Reviewed.")
    assert other["reason"] == "NotAPerson"


@eras
@pytest.mark.requirement("G19.8")
@pytest.mark.requirement("G19.9")
@pytest.mark.requirement("G19.13")
async def test_skills_are_prompts_and_resources_and_run_inside(era: str) -> None:
    async with mcp_served(scripted(say("Hunted.")), mode="yolo") as served:
        session = served.session
        async with served.agent(served.mint(session.id), era=era) as agent:
            prompts = {one.name: one.description for one in (await agent.list_prompts()).prompts}
            (message,) = (await agent.get_prompt("skills:find-the-cause", {"words": "in a.py"})).messages
            listed = await read(agent, "bridle-v1://skills")
            (words,) = (await agent.read_resource("bridle-v1://skill/find-the-cause")).contents
            report = await called(agent, RUN, skill="find-the-cause", prompt="in a.py")
            reload = await called(agent, RUN, skill="skills:reload", prompt="x")
            unknown = await called(agent, RUN, skill="skills:nothing", prompt="x")
        added = await session.until(e.ContextAdded)
        accepted = await session.until(e.InputAccepted)
    assert (prompts["skills:write-a-skill"] or "").startswith("Write or improve a skill")
    assert message.content.text == f"{words.text}\n\nin a.py"
    assert {"find-the-cause", "write-a-skill", "review"} <= {one["name"] for one in listed["skills"]}
    assert report["answer"].endswith("Hunted.")
    assert (added.source, e.text_of(accepted.content)) == ("skill", "in a.py")
    assert words.text in e.text_of(added.content)
    assert (reload["reason"], unknown["reason"]) == ("NotAPerson", "UnknownSkill")


@pytest.mark.requirement("X26")
@pytest.mark.filterwarnings("ignore:resources/")
async def test_a_client_of_the_older_era_subscribes_to_events() -> None:
    came: asyncio.Queue[str] = asyncio.Queue()

    async def hear(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/resources/updated":
            came.put_nowait(message.params.uri)

    async with mcp_served(a_turn(), mode="yolo") as served:
        session = served.session
        uri = f"bridle-v1://session/{session.id}/events"
        async with served.agent(served.mint(session.id), era="legacy", message_handler=hear) as agent:
            await served.transport.listens.wait()
            await agent.subscribe_resource(uri)
            await session.ask("go")
            assert await came.get() == uri
            await agent.unsubscribe_resource(uri)
            with pytest.raises(MCPError):
                await agent.subscribe_resource("bridle-v1://session/sess_nobody/events")


@pytest.mark.requirement("X26")
async def test_a_client_of_the_newer_era_listens_and_not_to_others() -> None:
    async with mcp_served(a_turn(), mode="yolo") as served:
        session = served.session
        uri = f"bridle-v1://session/{session.id}/events"
        async with served.agent(served.mint(session.id)) as agent:
            async with agent.listen(resource_subscriptions=[uri]) as news:
                await session.ask("go")
                told = await anext(aiter(news))
            assert told.uri == uri
            many = [f"{uri}?since={number}" for number in range(MOST + 1)]
            with pytest.raises(MCPError) as refused:
                async with agent.listen(resource_subscriptions=many):
                    pass
            assert refused.value.error.data["reason"] == "TooManyWatched"
        async with served.agent(served.mint()) as other:
            with pytest.raises(MCPError) as unseen:
                async with other.listen(resource_subscriptions=[uri]):
                    pass
            assert unseen.value.error.data["reason"] == "UnknownSession"


async def test_names_are_dotted_where_the_settings_say_so() -> None:
    async with (
        mcp_served(a_turn(), names="dotted", mode="yolo") as served,
        served.agent(served.mint(served.session.id)) as agent,
    ):
        names = [tool.name for tool in (await agent.list_tools()).tools]
        assert names[0] == "bridle.create_session"
        assert (await called(agent, f"bridle.{RUN}", prompt="go"))["failed"] is False
        with pytest.raises(MCPError):
            await agent.call_tool("bridle.rm", {})


# The guard


async def asked(
    served: McpServed, http: httpx2.AsyncClient, path: str = "/mcp", **headers: str
) -> httpx2.Response:
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    accept = {"accept": "application/json, text/event-stream", **headers}
    return await http.post(f"http://{HOST}{path}", json=body, headers=accept)


@pytest.mark.requirement("G22.12")
@pytest.mark.requirement("G19.10")
async def test_only_a_bearer_is_let_in_at_mcp_and_nowhere_else() -> None:
    async with mcp_served(a_turn()) as served:
        token = served.mint(served.session.id)
        async with httpx2.AsyncClient(transport=served.transport) as http:
            for headers in (
                {},
                {"authorization": "Bearer nobody"},
                {"x-bridle-token": token},
                {"authorization": token},
            ):
                refused = await asked(served, http, **headers)
                assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
            bearer = {"authorization": f"Bearer {token}"}
            assert (await http.get(f"http://{HOST}/v1/handshake", headers=bearer)).status_code == 401
            elsewhere = await http.post("http://evil.example/mcp", json={}, headers=bearer)
            assert elsewhere.json()["reason"] == "HostRefused"
            page = await asked(served, http, **bearer, origin="https://evil.example")
            assert page.json()["reason"] == "OriginRefused"
            long = await http.post(
                f"http://{HOST}/mcp",
                content=b'{"jsonrpc": "2.0", "x": "' + b"x" * (10 * 1024 * 1024),
                headers={
                    **bearer,
                    "content-type": "application/json",
                    "accept": "application/json, text/event-stream",
                },
            )
            assert long.status_code == 413
            assert LONGEST_LINE < 10 * 1024 * 1024


async def test_a_connection_belongs_to_the_token_it_was_made_with() -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "curl", "version": "1"},
        },
    }
    accept = {"accept": "application/json, text/event-stream"}
    async with mcp_served(a_turn()) as served:
        async with served.http(served.mint(served.session.id)) as http:
            opened = await http.post(f"http://{HOST}/mcp", json=hello, headers=accept)
            number = {"mcp-session-id": opened.headers["mcp-session-id"]}
            assert (await asked(served, http, **number)).status_code == 200
        async with served.http(served.mint(served.session.id)) as other:
            assert (await asked(served, other, **number)).status_code == 404
