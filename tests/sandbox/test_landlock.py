import asyncio
import contextlib
import os
import shutil
import socket
import stat
import sys
import tempfile
from pathlib import Path

import msgspec
import pytest

from bridle.base.process.escapees import Witness
from bridle.base.process.processes import CannotStart, Processes
from bridle.sandbox.adapters import adapter_start, thread_limits
from bridle.sandbox.adapters.adapter import CannotConfine
from bridle.sandbox.adapters.landlock import Landlock, available, rules_of
from bridle.sandbox.confinement import Confinement
from sandbox.landlock_kit import NOBODY, World, abstract_name, can_run_as_user

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or not available(), reason="this kernel has no Landlock"
)
ENV = {"PATH": os.defpath, "HOME": "/"}


def make_world(identity):
    if identity == "an ordinary user" and not can_run_as_user():
        pytest.skip("needs root, setpriv and a Python that others can read")
    return World(
        Path(os.path.realpath(tempfile.mkdtemp(prefix="bridle-world-"))), as_user=identity != "as we are"
    )


@pytest.fixture(params=["as we are", "an ordinary user"])
def world(request):
    made = make_world(request.param)
    yield made
    shutil.rmtree(made.root)


@pytest.fixture(params=["as we are", "an ordinary user"], scope="module")
def tried(request):
    """What came of all attempts: with the network inherited, denied, and of the harmless ones without a sandbox."""
    worlds = [make_world(request.param) for _ in range(3)]
    inherited = worlds[0].attempts()
    denied = worlds[1].attempts(network="deny")
    unheld = worlds[2].unheld()
    touched = (
        sorted(path.name for path in worlds[0].outside.iterdir()),
        (worlds[0].outside / "kept").read_text(),
    )
    for made in worlds:
        shutil.rmtree(made.root)
    return inherited, denied, unheld, touched


WORKS = (
    "write in the workspace",
    "move and link in the workspace",
    "truncate in the workspace",
    "make a temporary file",
    "read outside",
    "list the folder above",
    "write to /dev/null",
    "read random bytes",
    "start threads and children",
    "talk over a pair of sockets",
    "list its own descriptors",
    "signal its own children",
    "have capabilities",
)
NETWORK = ("bind a TCP port", "bind a TCP port of IPv6", "send a datagram", "ask for addresses")


def test_what_builds_need_works_with_and_without_a_network(tried):
    inherited, denied, _, _ = tried
    for outcomes in (inherited, denied):
        assert {name: outcomes[name] for name in WORKS} == dict.fromkeys(WORKS, "ok")
    assert {name: inherited[name] for name in NETWORK} == dict.fromkeys(NETWORK, "ok")


def test_a_denied_network_leaves_no_sockets(tried):
    _, denied, _, _ = tried
    assert {name: denied[name] for name in NETWORK} == dict.fromkeys(NETWORK, "EPERM")


def test_every_attempt_to_get_out_is_refused(tried):
    inherited, denied, _, (names, content) = tried
    for outcomes in (inherited, denied):
        rest = {name: result for name, result in outcomes.items() if name not in WORKS + NETWORK}
        assert len(rest) > 35
        assert {
            name: result for name, result in rest.items() if result not in ("EACCES", "EPERM", "EXDEV")
        } == {}
    assert (names, content) == (["kept", "moved", "removed"], "precious")


def test_the_same_attempts_succeed_where_nothing_holds_them(tried):
    _, _, unheld, _ = tried
    assert len(unheld) > 20
    assert {name: result for name, result in unheld.items() if result != "ok"} == {}


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6])
def test_older_kernels_refuse_the_same_files(version):
    world = make_world("as we are")
    outcomes = world.attempts(version=version)
    files = [name for name in outcomes if "outside" in name or "secret" in name or "move " in name]
    refused = {name: outcomes[name] for name in files if name not in WORKS}
    assert len(refused) > 12
    assert set(refused.values()) <= {"EACCES", "EPERM", "EXDEV"}
    unable = {"move and link in the workspace": 2, "truncate in the workspace": 3}
    works = {name: outcomes[name] for name in WORKS if version >= unable.get(name, 0)}
    assert works == dict.fromkeys(works, "ok")
    assert outcomes["signal the engine"] == ("ok" if version < 6 else "EPERM")
    shutil.rmtree(world.root)


def test_reading_only_leaves_nothing_to_write_but_the_scratch_folder(world):
    script = "echo x 2> /dev/null > new || echo refused; echo x > $TMPDIR/new && cat mine"
    result = world.shell(script, writable=[])
    assert result.output.splitlines()[-2:] == ["refused", "mine"]
    assert not (world.workspace / "new").exists()
    assert (world.scratch / "new").exists()


def test_git_adds_and_commits(world):
    script = """
        set -e
        git init -q . ; git config user.email a@example.org ; git config user.name a
        echo one > file ; git add . ; git commit -q -m first
        git checkout -q -b side ; git mv file moved ; git commit -q -am second ; git gc -q
        git log --format=%s
    """
    assert world.shell(script) == (0, "second\nfirst\n")


def test_ordinary_programs_run(world):
    script = """
        set -e
        seq 5 | sort -rn -S 10K -T "$TMPDIR" | head -1
        cat <<< here
        diff <(echo a) <(echo a) && echo same
        python3 -c 'import subprocess; print(subprocess.check_output(["echo", "child"], text=True), end="")'
        if type node > /dev/null 2>&1; then node -e 'require("child_process").execSync("true")'; fi
        mkfifo pipe ; (echo through > pipe &) ; cat pipe
        echo noise > /dev/stderr
        ls / > /dev/null && ls "$HOME" && pwd > /dev/null && echo end
    """
    assert world.shell(script) == (0, "5\nhere\nsame\nchild\nthrough\nnoise\nend\n")


def test_the_temporary_folders_of_the_machine_are_closed_except_for_what_is_opened_in_them(world):
    stranger = world.root / "stranger"
    stranger.write_text("theirs")
    os.chmod(stranger, 0o644)
    script = f"cat {stranger} ; echo x > {world.root}/new ; cat mine ; cd .. ; ls"
    result = world.shell(script, temporary=[str(world.root)])
    assert "theirs" not in result.output
    assert result.output.count("Permission denied") == 2
    assert "mine" in result.output
    assert not (world.root / "new").exists()


def test_without_a_scratch_folder_a_command_gets_a_new_one_that_goes_with_it(world):
    result = world.shell('echo "$TMPDIR"; echo x > "$TMPDIR/file"; mktemp', scratch="")
    folder, file = result.output.splitlines()
    assert os.path.dirname(file) == folder
    assert result.code == 0
    while os.path.exists(folder):  # removed by a thread, because it is not empty
        os.stat("/")


def test_what_is_shown_stays_readable_in_a_hidden_folder_and_the_rest_of_it_does_not(world):
    public = world.secrets / "public"
    public.mkdir()
    (public / "file").write_text("shown")
    script = f"cat {public}/file ; cat {world.secrets}/token ; echo x > {public}/new"
    result = world.shell(script, shown=[str(public)])
    assert result.output.startswith("shown")
    assert "planted" not in result.output
    assert result.output.count("Permission denied") == 2


def test_a_secret_inside_a_writable_folder_stays_hidden_and_the_rest_writable(world):
    keys, code = world.workspace / ".keys", world.workspace / "code"
    for folder in (keys, code):
        folder.mkdir()
        if world.as_user:
            os.chown(folder, NOBODY, NOBODY)
    (keys / "key").write_text("planted")
    script = "cat .keys/key ; echo x > .keys/new ; echo new > code/new ; cat code/new ; echo more >> mine && cat mine"
    result = world.shell(script, hidden=[str(keys)])
    assert "planted" not in result.output
    assert result.output.endswith("new\nminemore\n")
    assert os.listdir(keys) == ["key"]


def test_a_device_of_the_machine_cannot_be_opened(world):
    device = next(
        (name for name in ("/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/loop0") if os.path.exists(name)),
        None,
    )
    if device is None:
        pytest.skip("no block device to look at")
    result = world.shell(f"head -c 1 {device} > /dev/null")
    assert (result.code, "Permission denied" in result.output) == (1, True)


@pytest.mark.skipif(available() < 6, reason="this kernel's Landlock does not hold signals")
def test_a_process_that_hides_its_origin_does_not_outlive_the_command(world):
    number = world.workspace / "number"
    hidden = "os.setsid(); os.fork() and os._exit(0); os.execve('/bin/sleep', ['sleep', '600'], {})"
    script = f"import os; os.fork() and os._exit(0); open('{number}', 'w').write(str(os.getpid())); {hidden}"
    python = f'python3 -c "{script}" > /dev/null 2>&1'
    told = world.shell(
        f"{python}; env -i setsid sleep 600 > /dev/null 2>&1 & echo $!; while ! [ -s number ]; do :; done"
    )
    assert not os.path.exists(f"/proc/{int(told.output)}")
    assert not sleepers_of(int(number.read_text()))


def sleepers_of(session):
    """Processes in a session that outlived its leader."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.getsid(int(name)) == session:
                found.append(int(name))
    return found


# In our own process


@pytest.fixture
def here():
    made = make_world("as we are")
    yield made
    shutil.rmtree(made.root)


@pytest.fixture
async def processes():
    owner = Processes()
    yield owner
    await owner.close()


def confinement(world, **changes):
    return msgspec.convert(world.confinement(**changes), Confinement)


async def start(processes, adapter, confined, *argv, cwd="/", on_output=lambda _: None):
    launch = adapter.confined(argv, cwd=cwd, confinement=confined)
    env = ENV | dict(adapter.variables(confined))
    return await adapter_start.start(
        processes, launch, cwd=cwd, env=env, on_output=on_output, ended=launch.ended
    )


async def shell(processes, adapter, confined, script, cwd="/"):
    output = bytearray()
    process = await start(processes, adapter, confined, "sh", "-c", script, cwd=cwd, on_output=output.extend)
    return await process.wait(), output.decode()


async def test_we_ourselves_keep_everything(processes, here):
    adapter = Landlock()
    with open("/proc/self/status") as file:
        before = [line for line in file if line.startswith(("Cap", "NoNewPrivs", "Seccomp"))]
    await shell(processes, adapter, confinement(here), "true")
    with open("/proc/self/status") as file:
        assert [line for line in file if line.startswith(("Cap", "NoNewPrivs", "Seccomp"))] == before
    (here.outside / "new").write_text("ours")


async def test_a_server_of_one_command_is_reached_by_the_next(processes, here):
    adapter, lines = Landlock(), bytearray()
    come = asyncio.Event()

    def on_output(chunk):
        lines.extend(chunk)
        come.set()

    server = (
        "import http.server; s = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler); "
        "print(s.server_port, flush=True); s.serve_forever()"
    )
    python = [sys.executable, "-c", server]
    job = await start(
        processes, adapter, confinement(here), *python, cwd=str(here.workspace), on_output=on_output
    )
    async with asyncio.timeout(20):
        await come.wait()
    fetch = (
        f"import urllib.request as r; print(r.urlopen('http://127.0.0.1:{int(lines)}/mine').read().decode())"
    )
    assert await shell(processes, adapter, confinement(here), f'{sys.executable} -c "{fetch}"') == (
        0,
        "mine\n",
    )
    await job.stop()


async def test_rules_are_kept_for_the_next_command_and_made_anew_when_a_folder_changed(processes, here):
    adapter, confined = Landlock(), confinement(here)
    await shell(processes, adapter, confined, "true")
    [first] = adapter._rulesets.values()
    # Only our own folders count here, however recently they changed: others use the machine too.
    listed = {path: seen for path, seen in first._rules.listed.items() if path == str(here.root)}
    first._rules = first._rules._replace(listed=listed, settled=True)
    await shell(processes, adapter, confined, "true")
    assert (list(adapter._rulesets.values()), len(listed)) == ([first], 1)
    (here.root / "neighbour").write_text("new")
    assert await shell(processes, adapter, confined, f"cat {here.root}/neighbour") == (0, "new")
    assert list(adapter._rulesets.values()) != [first]


def test_rules_made_from_a_folder_that_has_just_changed_are_not_kept(here):
    (here.root / "neighbour").write_text("new")
    assert not rules_of(confinement(here)).settled


async def test_a_workspace_that_was_replaced_is_the_one_that_may_be_written(processes, here):
    adapter, confined = Landlock(), confinement(here)
    assert (await shell(processes, adapter, confined, f"echo x > {here.workspace}/one"))[0] == 0
    here.workspace.rename(here.root / "old")
    here.workspace.mkdir()
    code, _ = await shell(processes, adapter, confined, f"echo x > {here.workspace}/two")
    refused, _ = await shell(processes, adapter, confined, f"echo x > {here.root}/old/three")
    assert (code, refused) == (0, 2)


async def test_a_link_in_the_place_of_a_writable_folder_opens_nothing(processes, here):
    inner = here.workspace / "inner"
    (inner / "deep").mkdir(parents=True)
    (here.outside / "deep").mkdir()
    adapter = Landlock()
    confined = confinement(here, writable=[str(inner / "deep"), str(inner)])
    shutil.rmtree(inner)
    inner.symlink_to(here.outside)
    code, _ = await shell(
        processes, adapter, confined, f"echo x > {here.outside}/deep/new; echo x > {inner}/new"
    )
    assert code == 2
    assert sorted(path.name for path in here.outside.iterdir()) == ["deep", "kept", "moved", "removed"]


async def test_few_sets_of_rules_and_no_descriptors_are_kept(processes, here):
    adapter = Landlock()
    await shell(processes, adapter, confinement(here), "true")
    before = len(os.listdir("/proc/self/fd"))
    for number in range(30):
        folder = here.root / str(number)
        folder.mkdir()
        await shell(processes, adapter, confinement(here, writable=[str(folder)]), "true")
    assert len(os.listdir("/proc/self/fd")) <= before + 8


async def test_a_program_that_is_missing_is_reported_as_without_a_sandbox(processes, here):
    with pytest.raises(CannotStart) as caught:
        await start(processes, Landlock(), confinement(here), "no-such-program")
    assert caught.value.reason == "not found"


async def test_where_landlock_is_missing_nothing_is_started(here):
    with pytest.raises(CannotConfine, match="no Landlock"):
        Landlock(version=0).confined(["true"], cwd="/", confinement=confinement(here))


@pytest.mark.skipif(available() < 6, reason="this kernel's Landlock holds neither ports nor abstract sockets")
async def test_the_rules_hold_ports_and_abstract_sockets_also_without_the_filter(processes, here):
    with socket.socket(socket.AF_UNIX) as local, socket.socket() as tcp:
        local.bind(abstract_name(os.getpid()))
        local.listen()
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        places = (1, abstract_name(os.getpid())), (2, tcp.getsockname())
        script = (
            "import socket\n"
            f"for family, address in {places!r}:\n"
            "    try: socket.socket(family).connect(address)\n"
            "    except OSError as error: print(error.errno)\n"
        )
        adapter = Landlock()
        ruleset = adapter._ruleset(confinement(here, network="deny"))

        def give_up():
            thread_limits.gain_no_privileges()
            thread_limits.landlock_enter(ruleset.fd)

        output = bytearray()
        process = await processes.start(
            [sys.executable, "-c", script],
            cwd="/",
            env=ENV,
            on_output=output.extend,
            within=thread_limits.HeldThread(give_up),
        )
        assert await process.wait() == 0
    assert output.split() == [b"1", b"13"]


def test_what_a_thread_gives_up_before_a_start_that_fails_is_told():
    def fail():
        raise LookupError("broken")

    with pytest.raises(LookupError, match="broken"):
        thread_limits.HeldThread(fail)(lambda: pytest.fail("started"))


async def test_a_thread_that_can_signal_others_is_no_witness(processes):
    other = await processes.start(["sleep", "600"], cwd="/", env=ENV, on_output=lambda _: None)
    thread = thread_limits.WitnessThread(lambda: None)
    process = await processes.start(
        ["sleep", "600"], cwd="/", env=ENV, on_output=lambda _: None, within=thread
    )
    assert [thread.claims(pid) for pid in (process.pid, other.pid, os.getppid())] == [False, False, False]
    thread.end()
    assert not isinstance(thread_limits.HeldThread(lambda: None), Witness)


@pytest.mark.skipif(available() < 6, reason="this kernel's Landlock does not hold signals")
async def test_a_witness_knows_the_processes_of_its_command_and_no_others(processes, here):
    other = await start(processes, Landlock(), confinement(here), "sleep", "600")
    launch = Landlock().confined(["sleep", "600"], cwd="/", confinement=confinement(here))
    process = await processes.start(
        launch.argv, cwd="/", env=ENV, on_output=lambda _: None, within=launch.within, ended=launch.ended
    )
    assert isinstance(launch.within, Witness)
    assert launch.within.claims(process.pid)
    assert not launch.within.claims(other.pid)
    await process.stop()
    assert not launch.within.claims(other.pid)


def test_what_it_does_not_hold_is_data():
    assert Landlock.covers <= set(Confinement.__struct_fields__)
    assert not Landlock.covers & {"read_only", "absent", "held"}


def test_a_scratch_folder_of_one_command_belongs_to_its_owner_alone(here):
    launch = Landlock(temporary=str(here.root)).confined(
        ["true"], cwd="/", confinement=confinement(here, scratch="")
    )
    [made] = here.root.glob("bridle-*")
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert launch.argv == ("/usr/bin/env", f"TMPDIR={made}", "true")
    launch.ended()
    assert not made.exists()
