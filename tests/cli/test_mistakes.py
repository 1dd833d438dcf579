"""A hundred mistakes: each ends with one short text that says what to do next, and none with a traceback.

What is not refused as usage is a mistake in the world around: files, servers, names. Nothing is paid for any of them.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys

import pytest

from cli_kit import Place

KEY = "sk-" + "Qx7w" * 8
NEXT_STEP = re.compile(
    r"""
      \bbridle\ (help|run|login|models|sessions|config|trust|permissions|undo|sandbox|hooks|-)   # a command
    | --[a-z] | (?<![\w-])-[a-zA-Z]\b                                                          # an option
    | \b(Did\ you\ mean|Choose|Give|Write|Name|Set|List|See|Next|Use|Make|Close|there\ are)\b
    | \b(Known|known|Tools|Events|Pages):?
    | \b(is\ none\ of|needs|is\ not\ a|is\ missing|exclude\ each\ other|line\ \d+:|like\ \{|would\ end\ in)
    | \bcannot\ be\ (read|written|used)
    """,
    re.VERBOSE,
)
"""What a next step looks like: a command, an option, an order, or a plain word on which part of the input is wrong."""

ALL_OF_THEM = """
import json, os, sys, tempfile
import bridle.cli, bridle.cli.command_line

found = []
for words in json.load(sys.stdin):
    out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        sys.stdin = open(0, closefd=False)
        bridle.cli.main(words)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    said = [os.pread(file.fileno(), 1 << 20, 0).decode() for file in (out, err)]
    found.append([code, *said])
print(json.dumps(found))
"""
"""Each command in a process of its own, in which everything is imported already: it is faster."""

MISTAKES = r"""
zzz
modles
runn "fix it"
version
sesions
hlep
--hlep
-x
--dangerously-skip-permissions
--full-auto x
--api-key KEY x
KEY
run
run ""
run "   "
run --
run --bad x
run --modle demo x
run --mode yollo x
run --mode
run -m
run -m demo --timeout 0 x
run -m demo --timeout soon x
run -m demo --timeout=-5 x
run -m demo --max-steps 0 x
run -m demo --max-steps many x
run -m demo --max-cost free x
run -m demo --max-cost -1 x
run -m demo --effort huge x
run -m demo --sandbox none x
run -m demo --network maybe x
run -m demo --on-ask never x
run -m demo --on-orphan shrug x
run -m demo --output-format yaml x
run -m demo --json --stream-json x
run -m demo --json --stream x
run -m demo --stream --output-schema s.json x
run -m demo --prompt-file nowhere.md
run -m demo --prompt-file .
run -m demo --prompt-file
run -m demo -i nowhere.png x
run -m demo -i notes.txt x
run -m demo --output-schema nowhere.json x
run -m demo --output-schema notes.txt x
run -m demo --output-schema deep.json x
run -m demo -o no/such/folder/out.txt x
run -m demo -o . x
run -m demo -C nowhere x
run -m demo -C notes.txt x
run -m demo --add-dir nowhere x
run -m demo --config nowhere.toml x
run -m demo --config broken.toml x
run -m demo --config notes.txt x
run -m demo --profile nowhere x
run -m demo --set mode x
run -m demo --set mode=yollo x
run -m demo --set nosuch.key=1 x
run -m demo --env-file nowhere.env x
run -m demo --lockfile nowhere.lock x
run -m demo --allow x --allow "" x
run -m demo --allow "bash(" x
run -m demo --deny ")" x
run -m demo --allow-host example.org x
run -m demo --log-level loud x
run -m demo --strict-permissions --mode auto x
run -m demo -c -r abc x
run -m demo --fork x
run -m demo -r nosuch x
run -m demo -r
run -m demo --session "" x
run -m demo -c model=demo
run -m demo /nosuch
run -m demo /compact
run -m demo /reveiw
run -m demo --append-system-prompt @nowhere x
run -m demo:nowhere.script x
run -m demo:broken.script x
run -m nosuch:model x
run -m openai x
run -m openai: x
run -m : x
run -m KEY x
run x
demo now
sessions show
sessions show nosuch
sessions nosuch
sessions list --bad
sessions export nosuch
sessions export nosuch --format pdf
sessions import nowhere.jsonl
sessions import notes.txt
sessions branch nosuch
sessions branch nosuch --at 0
sessions rename nosuch title
sessions delete nosuch -y
sessions diff nosuch
sessions replay nosuch --pace 0
sessions backup no/such/folder/file
sessions search
undo 99
undo nosuch
undo --conflicts maybe
cost --since yesterday
cost --by hour
cost --session nosuch
login nobody
login openai KEY
login --key=KEY
login --export
login --lock forever
creds add openai me KEY
creds nosuch
logout
logout nobody
models nosuch:
models --bad
tools now
config get
config get nosuch
config set mode
config set mode yollo
config set nosuch.key 1
config unset nosuch.key
config edit --project --local
config nosuch
permissions explain
permissions explain nosuch {}
permissions explain bash notjson
permissions revoke nosuch
permissions promote nosuch
trust ack nowhere.md
trust diff nowhere.md
trust revoke nowhere.md
trust verify --lockfile nowhere.lock
sandbox run
sandbox run --mode none -- true
sandbox probe --adapter chroot
sandbox give-back nowhere
hooks test
hooks test Nosuch
hooks test PreToolUse --input notjson
doctor now
completion
completion tcsh
help nosuch
token revoke
token mint --ci
token mint --ci --for soon
serve --listen nonsense
conformance --against notaurl
attach zzz
redact --nosuch
why
mcp show nosuch
run -m demo --add-dir /nowhere x
run -m demo -C /etc/passwd x
run -m demo --max-cost -3 x
models --refesh
redact --bad
""".strip().splitlines()


@pytest.fixture
def desk(place: Place) -> Place:
    """A folder with what people point at by mistake."""
    (place.work / "notes.txt").write_text("just words\n")
    (place.work / "broken.toml").write_text("mode = \n")
    (place.work / "broken.script").write_text("sing a song\n")
    (place.work / "s.json").write_text("{}")
    (place.work / "deep.json").write_text('{"not": ' * 400 + "{}" + "}" * 400)
    return place


def test_there_are_a_hundred_and_they_differ() -> None:
    assert len(set(MISTAKES)) == len(MISTAKES) >= 100


def test_no_mistake_ends_in_a_traceback_and_each_has_a_next_step(desk: Place) -> None:
    given = [[word.replace("KEY", KEY) for word in shlex.split(line)] for line in MISTAKES]
    done = subprocess.run(
        [sys.executable, "-c", ALL_OF_THEM],
        input=json.dumps(given).encode(),
        capture_output=True,
        cwd=desk.work,
        env=desk.environment(),
        timeout=150,
        check=True,
    )
    wrong: list[str] = []
    for line, (code, out, err) in zip(MISTAKES, json.loads(done.stdout), strict=True):
        said = err + ("" if "--json" in line or "--stream-json" in line else out)
        if "Traceback" in out + err:
            wrong.append(f"{line}: a traceback: {err[-300:]}")
        elif code not in (1, 2, 3, 4, 5):
            wrong.append(f"{line}: exit {code}: {said[:200]}")
        elif KEY in out + err:
            wrong.append(f"{line}: says the key again")
        elif not NEXT_STEP.search(said):
            wrong.append(f"{line}: no next step: {said[:300]}")
        elif len(said.splitlines()) > 4:
            wrong.append(f"{line}: too long: {said[:600]}")
    assert not wrong, "\n".join(wrong)
