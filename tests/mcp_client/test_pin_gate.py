"""The gate before a server, by itself: real files and a real store of pins, and nothing is started."""

import json
import os
from hashlib import sha256
from pathlib import Path

import pytest

from bridle.conformance.fake_clock import FakeClock
from bridle.mcp.pin_gate import NOBODY_AGREED, PinGate
from bridle.mcp.server_definitions import ServerDefinition
from bridle.mcp.server_pins import PinStore, kept_part, pin_path, pin_place
from bridle.mcp.tool_lists import ListedTool, ToolList

ECHO, MORE = ListedTool(name="echo", description="Says it."), ListedTool(name="more")


class Desk:
    """A store of pins, a program, and a folder that a session works in."""

    def __init__(self, folder: Path) -> None:
        self.work, self.clock = folder / "work", FakeClock()
        self.program = folder / "bin" / "serve"
        self.work.mkdir()
        self.program.parent.mkdir()
        self.write("one")
        self.store = PinStore(str(folder / "state"), self.clock)

    def write(self, text: str, path: Path | None = None) -> Path:
        (path or self.program).write_text(text)
        (path or self.program).chmod(0o755)
        return path or self.program

    def gate(self, *argv: object, launched: dict | None = None, **more) -> PinGate:
        words = tuple(map(str, argv or (self.program,)))
        definition = ServerDefinition(
            **{"name": "it", "part": "it", "transport": "stdio", "argv": words, **more}
        )
        gate = PinGate(definition, cwd=str(self.work), env={"PATH": ""}, store=self.store)
        if launched is not None:
            gate.launched = ServerDefinition(**{**_fields(definition), **launched})
        return gate

    def damage(self, gate: PinGate, text: str = "x") -> None:
        Path(pin_path(self.store.folder, gate._place)).write_text(text)


def _fields(definition: ServerDefinition) -> dict:
    return {name: getattr(definition, name) for name in definition.__struct_fields__}


def offer(*tools: ListedTool, about: str = "") -> ToolList:
    return ToolList(launch="x", listed_ms=0, tools=tools, about=about)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def test_a_first_use_agrees_and_another_program_waits(desk: Desk) -> None:
    first = desk.gate()
    assert (first.check_launch(), first.state) == (None, "first use")
    assert (desk.gate().check_launch(), desk.gate().state) == (None, "")
    desk.write("two")
    changed = desk.gate()
    review = changed.check_launch()
    assert review is not None
    assert (changed.state, changed.launch_review) == ("changed", review)
    assert review.data["problem"] == f"not as it was when it was pinned: the program {desk.program}"
    assert digest("one") in (review.before or "")
    assert digest("two") in review.after
    changed.agree_launch(review)
    again = desk.gate()
    assert (again.check_launch(), again.state) == (None, "agreed")


def test_a_program_under_the_same_name_that_leads_elsewhere_waits(desk: Desk) -> None:
    link = desk.work.parent / "bin" / "link"
    link.symlink_to(desk.program)
    assert desk.gate(link).check_launch() is None
    link.unlink()
    link.symlink_to(desk.write("one", desk.program.with_name("other")))
    review = desk.gate(link).check_launch()
    assert review is not None
    assert "where link is found" in review.data["problem"]


def test_pins_that_cannot_be_read_agree_to_nothing(desk: Desk) -> None:
    gate = desk.gate()
    gate.check_launch()
    gate.judge_offer(offer(ECHO))
    for text in ("x", json.dumps([2, {"name": "it"}])):
        desk.damage(gate, text)
        spoiled = desk.gate()
        assert spoiled.check_launch() is not None
        assert spoiled.state == "changed"
        assert spoiled.judge_offer(offer(ECHO)).tools == (), "that is no first list"
        assert spoiled.verdict.new == ("echo",)
        assert spoiled.agreed_part(offer(ECHO)) is None
        assert spoiled.unseen_launch() is not None
    review = spoiled.launch_shown()
    assert review is not None
    spoiled.agree_launch(review)
    assert desk.gate().judge_offer(offer(ECHO)).tools == (), (
        "what was agreed to of its tools is lost with them"
    )


def test_code_of_the_folder_waits_for_a_person_unless_the_project_brought_the_server(desk: Desk) -> None:
    inside = desk.write("one", desk.work / "serve")
    gate = desk.gate(inside)
    assert gate.check_launch() is not None
    assert gate.state == "new"
    assert gate.check_launch() is not None, "being asked about is no use"
    assert desk.gate(inside, of_project=True).check_launch() is None
    make = desk.write("", desk.program.with_name("make"))
    assert desk.gate(make).check_launch() is not None, "it runs what the folder says, whatever that is"


def test_a_digest_of_settings_is_expected_and_a_person_may_let_one_program_stand_for_it(desk: Desk) -> None:
    expected = digest("what the author built")
    gate = desk.gate(sha256=expected)
    review = gate.check_launch()
    assert review is not None
    assert (gate.state, review.reason) == ("mismatch", "MCPServerSHA256Mismatch")
    gate.agree_launch(review)
    assert desk.gate(sha256=expected).check_launch() is None
    assert desk.gate(sha256=digest("another")).check_launch() is not None, (
        "that was not what they stood in for"
    )
    desk.write("two")
    changed = desk.gate(sha256=expected)
    assert changed.check_launch() is not None
    assert changed.state == "mismatch"
    assert desk.gate(sha256=digest("two")).check_launch() is not None, "the pin is of another program"


def test_what_a_person_insists_on_seeing_is_not_agreed_to_by_being_used(desk: Desk) -> None:
    review = desk.gate().unseen_launch()
    assert review is not None
    assert review.data["problem"] == NOBODY_AGREED
    assert not os.path.exists(desk.store.folder)
    desk.gate().check_launch()
    assert desk.gate().unseen_launch() is None
    desk.write("two")
    assert desk.gate().unseen_launch() is not None
    assert desk.gate("/nowhere/x", of_project=True).unseen_launch() is None
    assert desk.gate(sha256=digest("no")).unseen_launch() is not None


def test_an_address_is_pinned_where_it_has_values(desk: Desk) -> None:
    far = {"argv": (), "transport": "http", "url": "https://a.example/${TEAM}?key=1"}
    assert desk.gate(**far).check_launch() is None
    assert desk.gate(**far).state == ""
    ours = {"url": "https://a.example/ours?key=1"}
    gate = desk.gate(launched=ours, **far)
    assert (gate.check_launch(), gate.state) == (None, "first use")
    assert desk.gate(launched={"url": "https://a.example/ours?key=2"}, **far).check_launch() is None
    other = desk.gate(launched={"url": "https://a.example/theirs"}, **far)
    review = other.check_launch()
    assert review is not None
    assert review.data["problem"].endswith("what its address is filled in with")
    other.agree_launch(review)
    for known in (ours, {"url": "https://a.example/theirs"}):
        assert desk.gate(launched=known, **far).check_launch() is None, "both are known from then on"


def test_tools_are_used_as_they_were_when_they_were_listed_first(desk: Desk) -> None:
    gate = desk.gate(disabled_tools=("off",))
    gate.check_launch()
    off = ListedTool(name="off")
    assert gate.judge_offer(offer(ECHO, off, about="Says things.")).tools == (ECHO, off)
    other = ListedTool(name="echo", description="Obeys.")
    judged = gate.judge_offer(offer(other, MORE, ListedTool(name="off", description="x"), about="Obey."))
    assert (judged.tools, judged.about) == ((), "Says things.")
    assert (gate.verdict.changed, gate.verdict.new, gate.verdict.gone) == (("echo",), ("more",), ())
    assert gate.verdict.held_back == ("echo", "more")
    review = gate.tools_review
    assert review is not None
    assert ("says: Says it." in (review.before or ""), "says: Obeys." in review.after) == (True, True)
    gate.agree_tools(review)
    assert gate.tools_review is None
    assert gate.judge_offer(offer(other, MORE)).tools == (other, MORE)
    assert gate.judge_offer(offer(other)).tools == (other,)
    assert gate.verdict.gone == ("more",), "one that nobody uses is not missed"
    kept = desk.gate().agreed_part(offer(ECHO, MORE))
    assert kept is not None
    assert kept.tools == (MORE,)


def test_a_copy_of_words_that_is_not_faithful_is_not_shown_as_what_was_agreed_to(desk: Desk) -> None:
    gate = desk.gate()
    gate.check_launch()
    gate.judge_offer(offer(ECHO))
    copy = Path(desk.store.folder, f"{gate._place}.tools")
    copy.write_text(copy.read_text().replace("Says it.", "Obeys."))
    gate.judge_offer(offer(ListedTool(name="echo", description="Another.")))
    assert gate.tools_review is not None
    assert "Obeys." not in (gate.tools_review.before or "")


def test_pins_of_this_project_that_cannot_be_read_are_not_passed_over_for_those_of_all(desk: Desk) -> None:
    gate = desk.gate()
    gate.check_launch()
    gate.judge_offer(offer(ECHO))
    definition, root = gate._definition, str(desk.work)
    assert kept_part(offer(ECHO), definition, desk.store, root) is not None
    Path(pin_path(desk.store.folder, pin_place(definition, root))).write_text("x")
    assert kept_part(offer(ECHO), definition, desk.store, root) is None


def test_a_package_that_the_folder_has_a_copy_of_is_code_of_the_folder(desk: Desk) -> None:
    npx = desk.write("npx", desk.program.with_name("npx"))
    assert desk.gate(npx, "-y", "thing@1.0.0").check_launch() is None
    (desk.work / "node_modules" / "thing").mkdir(parents=True)
    changed = desk.gate(npx, "-y", "thing@1.0.0")
    assert changed.check_launch() is not None
    assert changed.state == "new"


def test_a_pin_of_an_earlier_version_holds_where_it_means_the_same(desk: Desk) -> None:
    script = desk.write("#!/bin/sh", desk.program.with_name("it.sh"))
    gate = desk.gate(desk.program, script)
    gate.check_launch()
    place = Path(pin_path(desk.store.folder, gate._place))
    version, now = json.loads(place.read_text())
    module = {"kind": "module", "name": "/lib/other.py", "integrity": "sha256:1", "place": "/lib"}
    old = {**now, "launch": {**now["launch"], "parts": [*now["launch"]["parts"], module]}}
    del old["launch"]["rules"]
    place.write_text(json.dumps([version, old]))
    assert desk.gate(desk.program, script).check_launch() is None, (
        "what is not looked at any more is no change"
    )
    assert json.loads(place.read_text()) == [version, now], "and the pin is brought up to date"
    old["launch"]["parts"] = [module]
    place.write_text(json.dumps([version, old]))
    review = desk.gate(desk.program, script).check_launch()
    assert review is not None
    assert review.data["problem"] == (
        f"not as it was when it was pinned: the script {script}, which an earlier version of Bridle did not look at"
    )


def test_a_program_of_the_system_is_known_by_its_path(desk: Desk) -> None:
    system = "/usr/bin/env"
    gate = desk.gate(system)
    gate.check_launch()
    review = gate.launch_shown()
    assert review is not None
    assert "in a system folder: known by its path" in review.after
    assert "sha256" not in review.after
    link = desk.program.with_name("link")
    link.symlink_to(system)
    assert desk.gate(link).check_launch() is None
    link.unlink()
    link.symlink_to("/usr/bin/sort")
    assert desk.gate(link).check_launch() is not None, "it leads to another program"
    refused = desk.gate(system, sha256=digest("no")).check_launch()
    assert refused is not None
    assert refused.reason == "MCPServerSHA256Mismatch", "settings that name a digest are obeyed"


def test_a_secret_in_a_command_is_in_no_pin(desk: Desk) -> None:
    key = "sk-ant-" + "api03-" + "Qz7" * 15
    desk.gate(desk.program, f"--key={key}").check_launch()
    assert all(key not in path.read_text() for path in Path(desk.store.folder).glob("*.json"))
    assert desk.gate(desk.program, f"--key={key}", folder="sub").check_launch() is None, (
        "it is another server"
    )
