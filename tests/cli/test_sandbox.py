"""`bridle sandbox`: what holds commands here, running one in it, and trying to get out."""

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from bridle.base.process.processes import Processes
from bridle.cli.help import pages
from bridle.cli.policy.sandbox import row_of
from bridle.protocol.errors import sentence
from bridle.sandbox.adapters import landlock
from bridle.sandbox.adapters.adapter import UNLIMITED
from bridle.sandbox.adapters.adapter_choice import Chooser, ChosenAdapter, ConfiningWay, TriedAdapter
from bridle.sandbox.probe import CHECKS
from cli_kit import BRIDLE, TIMEOUT_S, Place, Ran
from confining_kit import REPOSITORY
from tables import table

needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


def run(place: Place, *words: str, stdin: str = "", **env: str) -> Ran:
    return place.bridle("sandbox", "run", *words, stdin=stdin, env=env)


def forget_every_sandbox(place: Place) -> None:
    """As on a machine where looking for a sandbox has found none."""
    chooser = Chooser(Processes(), state=str(place.home / ".local/state/bridle"))
    chooser._remember(ChosenAdapter(None, None))  # pyright: ignore[reportPrivateUsage]


# Running


@needs_bubblewrap
def test_a_command_runs_in_the_sandbox_and_everything_of_it_passes(place: Place, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    ran = run(place, "--", "sh", "-c", f"echo out; echo err >&2; touch made; touch {outside}; exit 7")
    assert (ran.code, ran.out) == (7, "out\n")
    assert ran.err.startswith("err\n")
    assert (place.work / "made").exists()
    assert not outside.exists()


@needs_bubblewrap
def test_bytes_pass_as_they_are_in_both_directions(place: Place) -> None:
    data = bytes(range(256)) * 3_000
    done = subprocess.run(
        [*BRIDLE, "sandbox", "run", "--", "cat"],
        input=data,
        capture_output=True,
        cwd=place.work,
        env=place.environment(),
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, data, b"")


@needs_bubblewrap
def test_what_was_blocked_is_said_without_advice_for_models(place: Place) -> None:
    ran = run(place, "--mode", "read-only", "--", "touch", "x")
    assert ran.code == 1
    assert ran.err.splitlines()[-1] == ("bridle: sandbox: writing x was blocked: commands may only read here")
    assert os.listdir(place.work) == []


@needs_bubblewrap
def test_more_folders_may_be_opened(place: Place, tmp_path: Path) -> None:
    more = tmp_path / "more"
    more.mkdir()
    script = f"touch {more}/made"
    assert run(place, "--", "sh", "-c", script).code != 0
    assert run(place, "--add-dir", str(more), "--", "sh", "-c", script).code == 0
    (more / "made").unlink()
    assert run(place, "--set", f'sandbox.writable=["{more}"]', "--", "sh", "-c", script).code == 0


@needs_bubblewrap
def test_another_folder_is_worked_in(place: Place, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    ran = run(place, "-C", str(there), "--", "sh", "-c", "pwd; touch made")
    assert (ran.code, ran.out) == (0, f"{there}\n")
    assert (there / "made").exists()


@needs_bubblewrap
def test_secrets_of_the_environment_stay_behind(place: Place) -> None:
    secret = "s" + "3cret" * 4
    ran = run(place, "--", "env", SOME_API_KEY=secret)
    assert ran.code == 0
    assert f"HOME={place.home}" in ran.out
    assert secret not in ran.out


@needs_bubblewrap
@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (("nonesuch",), 127, "bridle: nonesuch: command not found"),
        (("./nonesuch",), 127, "bridle: ./nonesuch: command not found"),
        (("./plain",), 126, "bridle: ./plain: not executable"),
        (("sh", "-c", "kill -s KILL $$"), 137, ""),
        (("sh", "-c", "exit 126"), 126, ""),
    ],
    ids=["not there", "not there by its path", "no program", "killed", "its own"],
)
def test_exit_codes_are_those_of_a_shell(place: Place, words: tuple[str, ...], code: int, line: str) -> None:
    (place.work / "plain").write_text("no program\n")
    ran = run(place, "--", *words)
    assert (ran.code, ran.out, ran.err.strip()) == (code, "", line)


def test_without_a_command_the_way_is_shown(place: Place) -> None:
    assert run(place) == (2, "", "bridle: What is to be run? bridle sandbox run -- ls -l\n")
    assert run(place, "-C", "nowhere", "--", "true") == (2, "", "bridle: nowhere is not a folder\n")


@pytest.mark.requirement("D16.2")
def test_off_runs_the_command_directly_and_says_so(place: Place, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    ran = run(place, "--mode", "off", "--", "touch", str(outside))
    assert (ran.code, ran.err) == (0, 'bridle: not sandboxed: sandbox.mode = "off"\n')
    assert outside.exists()


def test_where_nothing_can_hold_it_a_command_runs_with_a_warning(place: Place) -> None:
    forget_every_sandbox(place)
    ran = run(place, "--", "echo", "hello")
    assert (ran.code, ran.out) == (0, "hello\n")
    first, second = sentence("NoSandbox", {}).splitlines()
    assert ran.err == f"! {first}\n  {second}\n"


def test_where_nothing_can_hold_it_and_one_is_required_nothing_runs(place: Place) -> None:
    forget_every_sandbox(place)
    ran = run(place, "--set", "sandbox.required=true", "--", "touch", "made")
    assert (ran.code, ran.out) == (3, "")
    assert ran.story == [sentence("SandboxRequired", {})]
    assert os.listdir(place.work) == []


@needs_bubblewrap
def test_a_reader_that_goes_away_ends_the_command_quietly(place: Place) -> None:
    done = subprocess.run(
        [
            "/bin/sh",
            "-c",
            '"$@" | head -1',
            "sh",
            *BRIDLE,
            "sandbox",
            "run",
            "--",
            "sh",
            "-c",
            "while :; do echo y; done",
        ],
        capture_output=True,
        cwd=place.work,
        env=place.environment(),
        timeout=TIMEOUT_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert (done.stdout, done.stderr) == (b"y\n", b"")


@needs_bubblewrap
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_command_with_everything_it_started(
    place: Place, number: signal.Signals, code: int
) -> None:
    process = subprocess.Popen(
        [*BRIDLE, "sandbox", "run", "--", "sh", "-c", "echo $$; sleep 60 & sleep 60"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=place.work,
        env=place.environment(),
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() != b""
        process.send_signal(number)
        # Both pipes end only when nobody holds them any more: the sleepers are gone too.
        out, err = process.communicate(timeout=TIMEOUT_S)
        assert (process.returncode, out, err) == (code, b"", b"")
    finally:
        process.kill()


# Showing


def shown(ran: Ran) -> dict[str, str]:
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.split("\n\n")[0].splitlines()
    return {line[:9].strip(): line[9:] for line in lines if line[:9].strip()}


@needs_bubblewrap
def test_one_screen_says_what_holds_commands_and_from_where(place: Place) -> None:
    place.bridle("config", "set", "sandbox.network", "deny")
    lines = shown(place.bridle("sandbox"))
    assert lines["sandbox"].startswith("bubblewrap ")
    assert lines["sandbox"].endswith("commands can write in this folder and a private /tmp")
    assert lines["mode"].split(None, 1) == ["workspace-write", 'sandbox.mode = "auto" (default)']
    assert lines["network"].split(None, 1) == ["none", 'sandbox.network = "deny" (user config, line 2)']
    assert str(place.work) in lines["write"]
    assert lines["required"].startswith("no ")


@needs_bubblewrap
@pytest.mark.requirement("P25")
def test_what_holds_commands_is_tried_once_and_bubblewrap_goes_first(place: Place) -> None:
    words = (
        "run",
        "--mode",
        "auto",
        "-m",
        place.script('call bash {"command": "ls"}\n---\nsay Done.\n'),
        "go",
    )
    first = place.bridle(*words)
    (remembered,) = place.home.rglob("sandbox.json")
    written = remembered.stat()
    second = place.bridle(*words)
    for ran in (first, second):
        assert ran.code == 0, ran.err
        assert " · sandbox bubblewrap · " in ran.err
    now = remembered.stat()
    assert (now.st_ino, now.st_mtime_ns) == (written.st_ino, written.st_mtime_ns), "nothing was tried again"


def test_where_nothing_holds_commands_the_screen_says_why_and_what_to_do(place: Place) -> None:
    chosen = ChosenAdapter(None, None, (TriedAdapter(ConfiningWay("bubblewrap"), "it failed (bwrap: no)"),))
    status, text = row_of(chosen, mode="auto", network="inherit", required=False, container="podman")
    assert status == "warn"
    assert text.startswith(
        "none, inside podman: commands run with your rights (bubblewrap: it failed (bwrap: no); "
    )
    assert text.endswith("Install bubblewrap")
    assert shown(place.bridle("sandbox", "--set", "sandbox.mode=off"))["sandbox"].split(None, 1) == [
        "off",
        'commands run with your rights: sandbox.mode = "off" (--set)',
    ]


@table(
    ("settings", "row"),
    [
        (
            {"mode": "auto", "network": "inherit", "required": False, "container": "none"},
            ("warn", f'bubblewrap works; network is not limited (sandbox.network = "inherit"); {UNLIMITED}'),
        ),
        (
            {"mode": "read-only", "network": "deny", "required": True, "container": "docker"},
            ("ok", f"bubblewrap works, inside docker; commands have no network; {UNLIMITED}"),
        ),
        (
            {"mode": "off", "network": "deny", "required": False, "container": "none"},
            ("warn", 'off: commands run with your rights (sandbox.mode = "off")'),
        ),
    ],
)
def test_the_row_of_doctor(settings: dict[str, Any], row: tuple[str, str]) -> None:
    assert row_of(ChosenAdapter(None, ConfiningWay("bubblewrap", "full")), **settings) == row


def test_a_sandbox_that_is_required_and_missing_is_a_problem_for_doctor() -> None:
    status, text = row_of(
        ChosenAdapter(None, None), mode="auto", network="inherit", required=True, container="none"
    )
    assert status == "fail"
    assert text.endswith("and sandbox.required = true")


def test_for_programs_the_same_as_one_object(place: Place) -> None:
    found = place.bridle("sandbox", "--json").result
    assert {"adapter", "mode", "network", "required", "container", "writable", "hidden"} <= set(found)
    assert str(place.work) in found["writable"]


# Probing


@needs_bubblewrap
def test_every_try_to_get_out_is_told_with_what_became_of_it(place: Place) -> None:
    ran = place.bridle("sandbox", "probe", "--network", "deny")
    assert (ran.code, ran.err) == (0, "")
    head, table, summary = ran.out.strip().split("\n\n")
    assert head.startswith("bubblewrap ")
    assert "network denied" in head
    lines = table.splitlines()
    assert len(lines) == len(CHECKS)
    assert all(
        check.tries in line and line.split()[0] in {"blocked", "works"}
        for check, line in zip(CHECKS, lines, strict=True)
    )
    assert summary.startswith(f"{len(CHECKS)} tries: 0 leak, ")
    assert os.listdir(place.work) == []


@needs_bubblewrap
def test_a_filtered_network_is_run_shown_and_tried(place: Place) -> None:
    filtered = ("--network", "filtered", "--allow-host", "example.org")
    ran = run(place, *filtered, "--", "sh", "-c", "echo $HTTPS_PROXY $NO_PROXY")
    assert (ran.code, ran.out, ran.err) == (0, "http://127.0.0.1:64800 localhost,127.0.0.1,::1\n", "")
    place.bridle("config", "set", "sandbox.network", "filtered")
    place.bridle("config", "set", "sandbox.hosts", '["example.org"]')
    assert shown(place.bridle("sandbox"))["network"].startswith("filtered")
    assert place.bridle("sandbox", "--json").result["hosts"] == ["example.org"]
    tried = place.bridle("sandbox", "probe")
    assert tried.code == 0, tried.out
    assert "network filtered" in tried.out
    assert "blocked      reach the metadata address of a cloud" in tried.out


@pytest.mark.skipif(not landlock.available(), reason="this kernel has no Landlock")
def test_a_kind_of_sandbox_that_cannot_filter_is_not_tried_for_it(place: Place) -> None:
    ran = place.bridle("sandbox", "probe", "--adapter", "landlock", "--network", "filtered")
    told = "landlock cannot filter the network; bubblewrap and unshare can"
    assert (ran.code, ran.story) == (2, [told])


@needs_bubblewrap
def test_what_was_not_reached_is_said_with_the_option_that_allows_it(place: Place) -> None:
    python = os.path.realpath(sys.executable)
    script = (
        f"{python} -I -c 'import urllib.request as web; web.urlopen(\"http://example.com/\")' 2>/dev/null"
    )
    ran = run(place, "--network", "filtered", "--", "sh", "-c", script)
    assert ran.code == 1
    assert ran.err == (
        "bridle: sandbox: example.com was not reached; allow it with --allow-host example.com or sandbox.hosts\n"
    )


def test_a_network_that_cannot_be_filtered_is_refused(place: Place) -> None:
    forget_every_sandbox(place)
    ran = run(place, "--network", "filtered", "--", "true")
    assert (ran.code, ran.err) == (3, f"bridle: {sentence('NoNetworkFilter', {})}\n")
    status, text = row_of(
        ChosenAdapter(None, ConfiningWay("landlock")),
        mode="auto",
        network="filtered",
        required=False,
        container="none",
    )
    assert (status, text) == ("fail", sentence("NoNetworkFilter", {}))


@pytest.mark.parametrize(
    "host", ["10.0.0.1", "http://x", "a b", "localhost", "localhost:8080", "metadata.goog"]
)
def test_a_host_that_is_none_is_a_usage_error(place: Place, host: str) -> None:
    ran = run(place, "--network", "filtered", "--allow-host", host, "--", "true")
    assert ran.code == 2
    assert ran.err.startswith(f"bridle: --allow-host {host}: ")


CONTAINERS = {
    "one that lets us make namespaces": ["unshare", "-Urmpf", "--mount-proc"],
    "one that does not": [
        "bwrap", "--unshare-user", "--unshare-pid", "--disable-userns", "--bind", "/", "/", "--dev", "/dev",
        "--proc", "/proc",
    ],
}  # fmt: skip


@needs_bubblewrap
@pytest.mark.parametrize("container", CONTAINERS)
def test_inside_a_container_something_still_holds(place: Place, container: str) -> None:
    around = CONTAINERS[container]
    if subprocess.run([*around, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system lets nobody make one")
    done = subprocess.run(
        [*around, *BRIDLE, "sandbox", "probe", "--network", "deny"],
        capture_output=True,
        cwd=place.work,
        env=place.environment(),
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout.decode()
    assert b"tries: 0 leak" in done.stdout


@needs_bubblewrap
def test_what_this_kind_of_sandbox_does_not_keep_is_not_claimed(place: Place) -> None:
    around = CONTAINERS["one that does not"]
    if subprocess.run([*around, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system lets nobody make one")
    done = subprocess.run(
        [*around, *BRIDLE, "sandbox"],
        capture_output=True,
        cwd=place.work,
        env=place.environment(),
        timeout=TIMEOUT_S,
        check=False,
    )
    lines = shown(Ran(done.returncode, done.stdout.decode(), done.stderr.decode()))
    if not lines["sandbox"].startswith("landlock"):
        pytest.skip("this kernel has no Landlock")
    assert lines["write"].endswith(" policy files too")
    assert shown(place.bridle("sandbox"))["write"].endswith(" policy files are read-only")


@needs_bubblewrap
def test_probing_for_programs_is_one_object(place: Place) -> None:
    result = place.bridle("sandbox", "probe", "--json", "--adapter", "bubblewrap").result
    assert (result["ok"], result["adapter"], result["network"]) == (True, "bubblewrap", "inherit")
    assert sum(result["counts"].values()) == len(result["results"]) == len(CHECKS)
    assert {row["name"] for row in result["results"] if row["outcome"] == "not covered"} == {
        check.name for check in CHECKS if check.network
    }


@needs_bubblewrap
def test_a_probe_that_could_not_try_says_why_and_is_no_success(place: Place, tmp_path: Path) -> None:
    python = tmp_path / "python"  # out of a command's sight, as all in the temporary folder of others
    python.symlink_to(os.path.realpath(sys.executable))
    found = os.pathsep.join([str(REPOSITORY / "src"), sysconfig.get_path("platlib")])
    done = subprocess.run(
        [python, "-m", "bridle", "sandbox", "probe"],
        capture_output=True,
        cwd=place.work,
        env=place.environment(PYTHONPATH=found),
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 1, done.stdout.decode()
    assert b"not tried    write in the workspace" in done.stdout
    assert b" not tried." in done.stdout
    assert done.stderr == b"bridle: some of it could not be tried, so nothing is said about that\n"


@needs_bubblewrap
def test_where_no_namespaces_can_be_made_no_sandbox_is_claimed_that_holds_nothing(place: Place) -> None:
    for name in ("claim", "beside", "home"):
        (place.work / name).mkdir()
    (place.work / "claim" / "go").write_text("touch ../beside/it\nexit 0\n")
    (place.work / "claim" / "it.script").write_text('call bash {"command": "sh ./go"}\n---\nsay Done.\n')
    words = "run -y --stream-json -m demo:it.script go"
    inside = (
        "env",
        f"HOME={place.work}/home",
        "sh",
        "-c",
        'cd claim && exec "$@"',
        "-",
        *BRIDLE,
        *words.split(),
    )
    ran = run(place, "--", *inside)
    assert ran.code == 0, ran.err
    events = [event for event in map(json.loads, ran.out.splitlines()) if "event" in event]
    told = {event["eventType"]: event["event"]["payload"] for event in events}
    claimed = told["SessionCreated"].get("sandbox", "")
    assert claimed == told["ToolResult"]["shown"]["sandbox"]
    assert claimed == "env-only" or not (place.work / "beside" / "it").exists()


def test_where_nothing_holds_commands_there_is_nothing_to_probe(place: Place) -> None:
    forget_every_sandbox(place)
    ran = place.bridle("sandbox", "probe")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("bridle: Commands are not sandboxed on this machine")
    missing = place.bridle("sandbox", "probe", "--adapter", "sandbox-exec")
    if os.uname().sysname == "Linux":
        assert (missing.code, missing.story) == (1, ["sandbox-exec does not work here: it is not there"])


def test_the_words_are_known_to_help_and_completion(place: Place) -> None:
    assert place.bridle("sandbox", "run", "-h") == (0, pages()["sandbox"], "")
    script = place.bridle("completion", "bash").out
    assert "' sandbox run'" in script
    assert place.bridle("sandbox", "nonsense").code == 2
