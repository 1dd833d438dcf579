"""Single parts: memory, size on disk, redaction, starting a process."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import time
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec

from measure import PYTHON, Figure, child, in_turns, plain_env, scratch, shown_s, times

from bridle.base.process.processes import Processes
from bridle.base.secrets.redact import StreamRedactor, redact
from bridle.base.secrets.secret_openings import might_hold_secret


def memory() -> list[Figure]:
    """The high-water mark of `bridle run` at its exit, after 50 and after 500 tool calls."""
    return [
        Figure(
            name=f"peak memory, {calls} calls",
            value=_peak_of_run(calls),
            unit="MiB",
            target=target,
            how=f"N=1, VmHWM at exit of a run of {calls + 1} steps",
        )
        for calls, target in ((50, 45), (500, 51))
    ]


def _peak_of_run(calls: int) -> float:
    with scratch() as home:
        script, report = os.path.join(home, "calls.script"), os.path.join(home, "peak")
        with open(script, "w", encoding="utf-8") as file:
            file.writelines(
                f'call bash {{"command": "echo step-{number}"}}\n---\n' for number in range(calls)
            )
            file.write("say done\n")
        with_peak = os.path.join(os.path.dirname(os.path.abspath(__file__)), "with_peak.py")
        options = ["-C", ".", "--mode", "auto", "--max-steps", str(calls + 1), "-m", f"demo:{script}"]
        ran = child(
            [PYTHON, with_peak, report, "run", "--stream-json", *options, "go"], env=plain_env(home), cwd=home
        )
        assert ran.out.count(b'"eventType":"StepStarted"') == calls + 1
        assert ran.out.count(b'"outcome":"ok"') == calls
        with open(report, encoding="ascii") as file:
            return float(file.read())


def size() -> list[Figure]:
    """Our package and what it cannot run without, as installed, compiled files included."""
    parts = {"bridle": _folder_bytes(_package_folder())} | {
        name: _distribution_bytes(found) for name, found in _required("bridle").items()
    }
    assert {"msgspec", "apsw-sqlite3mc"} <= parts.keys(), parts.keys()
    assert all(parts.values()), parts
    how = ", ".join(f"{name} {count / (1 << 20):.1f}" for name, count in parts.items())
    return [
        Figure(name="installed size", value=sum(parts.values()) / (1 << 20), unit="MiB", target=60, how=how),
    ]


def _package_folder() -> str:
    spec = find_spec("bridle")
    assert spec is not None
    assert spec.submodule_search_locations
    return spec.submodule_search_locations[0]


def _folder_bytes(folder: str) -> int:
    return sum(
        os.path.getsize(os.path.join(parent, name)) for parent, _, names in os.walk(folder) for name in names
    )


def _required(name: str) -> dict[str, Distribution]:
    """What `name` needs without extras, and what that needs in turn."""
    found: dict[str, Distribution] = {}
    for requirement in distribution(name).requires or ():
        needed = re.match(r"[A-Za-z0-9._-]+", requirement)
        assert needed is not None
        if "extra ==" in requirement:
            continue
        try:
            found |= {needed[0]: distribution(needed[0])} | _required(needed[0])
        except PackageNotFoundError:  # needed on another system or another Python
            continue
    return found


def _distribution_bytes(found: Distribution) -> int:
    paths = [str(found.locate_file(file)) for file in found.files or ()]
    return sum(os.path.getsize(path) for path in paths if os.path.exists(path))


def redaction() -> list[Figure]:
    """What it costs to find that a text holds no secret, and to mask those it holds, against a copy of it.

    The copy is what any look at a text costs: decoded, put together in pieces, encoded.
    """
    line = "2031-04-05 12:30:00 INFO worker {0:>6}: handled 18 items of batch {0} in 4 ms, 0 failed, 3 left\n"
    lines = [line.format(number) for number in range(12_000)]
    log = "".join(lines)
    assert not might_hold_secret(log.encode())
    code = _own_code()
    token = "gh" + "p_" + "a1B2" * 9
    secrets = "".join(
        f"{line}export MY_{number}_TOKEN=abc{number}def  # or {token}\n"
        for number, line in enumerate(lines[:4000])
    )
    return [
        _redacting("redact, 4 KB of a log", log, 4096),
        _redacting("redact, 4 KB of code", code, 4096),
        _redacting("redact, 4 KB with secrets", secrets, 4096),
        _redacting("redact, one log line", log, 97),
    ]


def _own_code() -> str:
    """Source with the words `token`, `key` and `secret` in it, as code has them."""
    folder = _package_folder()
    texts: list[str] = []
    for parent, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            if name.endswith(".py"):
                with open(os.path.join(parent, name), encoding="utf-8") as file:
                    texts.append(file.read())
    return "".join(texts)[:1_200_000]


def _redacting(name: str, text: str, size: int) -> Figure:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]

    def copied() -> float:
        begun = time.process_time()
        assert "".join([piece.encode().decode() for piece in pieces]) == text
        return time.process_time() - begun

    def redacted() -> float:
        begun = time.process_time()
        stream = StreamRedactor()
        result = "".join([stream.feed(piece) for piece in pieces]) + stream.flush()
        spent_s = time.process_time() - begun
        assert result == redact(text)
        return spent_s

    copied_s, redacted_s = in_turns(7, copied, redacted)
    a_piece = shown_s([spent_s / len(pieces) for spent_s in redacted_s])
    return times(name, redacted_s, copied_s, of=f"copying {len(text) / 1e6:.1f} MB; {a_piece} a piece")


def spawn() -> list[Figure]:
    """`true` through `base.processes`, with its guardian and its own session, against plain `Popen`."""
    env = {"PATH": os.defpath}
    processes = Processes()
    with asyncio.Runner() as runner:
        try:
            raw_s, ours_s = in_turns(
                200, lambda: _raw_spawn(env), lambda: runner.run(_our_spawn(processes, env))
            )
        finally:
            runner.run(processes.close())
    return [times("spawn of true", ours_s, raw_s, of="Popen and wait")]


async def _our_spawn(processes: Processes, env: dict[str, str]) -> float:
    begun = time.perf_counter()
    done = await processes.run(["true"], cwd="/", env=env, timeout_s=10, max_output_bytes=100)
    took_s = time.perf_counter() - begun
    assert (done.returncode, done.output, done.error) == (0, b"", b"")
    return took_s


def _raw_spawn(env: dict[str, str]) -> float:
    begun = time.perf_counter()
    with subprocess.Popen(["true"], env=env, cwd="/", stdout=subprocess.DEVNULL) as popen:
        assert popen.wait() == 0
    return time.perf_counter() - begun
