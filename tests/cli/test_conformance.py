"""`bridle conformance`: our own server and any other, with a card that says how it did."""

import base64
import json
from pathlib import Path

import pytest

from bridle.conformance.wire_scenarios import SCENARIOS
from cli_kit import Place
from serve_kit import serving


@pytest.mark.requirement("G27.1")
def test_our_own_engine_is_tried_in_a_scratch_home(place: Place) -> None:
    ran = place.bridle("conformance", "--self", "--transport", "inproc")
    lines = ran.out.splitlines()
    assert (ran.code, ran.err, lines[0]) == (0, "", "inproc")
    assert [line.split("  ")[1].strip() for line in lines[1 : len(SCENARIOS) + 1]].count("failed") == 0
    assert all(any(f" {one.name} " in line for line in lines) for one in SCENARIOS)
    assert lines[-1].startswith("It conforms to protocol ")
    assert list(place.home.iterdir()) == [], "nothing is left of it"


@pytest.mark.requirement("G27.1")
def test_another_server_is_tried_by_its_address(place: Place, tmp_path: Path) -> None:
    with serving(place) as served:
        address = f"unix://{served.place.socket}"
        words = ("conformance", "--against", address, "--token-file", served.place.token_file)
        badge = tmp_path / "badge.json"
        ran = place.bridle(*words, "--transport", "ws-unix", "--json", "--badge", str(badge))
        assert ran.code == 0, ran.err
        (card,) = ran.result["transports"]
        assert (ran.result["conforms"], card["failed"]) == (True, 0)
        left_out = {one["name"] for one in card["scenarios"] if one["outcome"] == "left out"}
        assert left_out == {
            "two-keys", "agent-never-approves", "gap", "bound-to-a-session", "watch-only", "answer-only",
            "agent-asks-for-less",
        }  # fmt: skip
        assert json.loads(badge.read_text()) == ran.result["badge"]
        assert ran.result["badge"]["message"] == f"{card['passed']} of {card['passed']}"
        failing = place.bridle(*words, "--models", "nobody:", "--transport", "rest-unix")
        assert failing.code == 1
        assert failing.out.splitlines()[-1].startswith("It does not conform")
        assert "  failed    send " in failing.out


def test_what_cannot_be_tried_is_one_sentence(place: Place) -> None:
    secret = place.home / "token"
    secret.write_text("no-token")
    secret.chmod(0o400)
    given = ("--token-file", str(secret))
    claims = {"ver": 1, "jti": "tok_1", "identity_class": "human", "exp": 1, "sessions": ["sess_1"]}
    bound = place.home / "bound"
    bound.write_bytes(base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=") + b".signed")
    bound.chmod(0o400)
    for words, said in (
        ((), "takes --self, or --against URL"),
        (("--self", "--against", "http://127.0.0.1:1"), "one of the two"),
        (
            ("--self", "--badge", "nowhere/badge.json"),
            "nowhere/badge.json cannot be written (No such file or",
        ),
        (("--self", "--badge", "."), "--badge: . cannot be written (Is a directory)"),
        (("--against", "http://127.0.0.1:1", "--token-file", str(bound)), "may not open sessions"),
        (("--self", *given), "--token-file are for --against"),
        (("--against", "stdio:server", *given), "There is no transport over stdin and stdout"),
        (("--against", "nonsense", *given), "is no address of an engine"),
        (("--against", "http://127.0.0.1:99999", *given), "is no address of an engine"),
        (("--against", "http://[::1", *given), "is no address of an engine"),
        (("--against", "http://example.com:80", *given), "would send the token in the clear"),
        (("--against", "http://127.0.0.1:1"), "wants a token: --token-file FILE"),
        (("--against", "http://127.0.0.1:1", *given, "--cwd", "here"), "a folder of the server"),
        (("--against", "http://127.0.0.1:1", *given, "--transport", "inproc"), "rest-tcp or ws-tcp"),
        (("--against", "http://127.0.0.1:1", *given), "No engine answers at http://127.0.0.1:1"),
    ):
        ran = place.bridle("conformance", *words)
        assert (ran.code, ran.out) == (2, ""), words
        assert len(ran.story) == 1
        assert said in ran.story[0], words
