"""How long a run takes to end after Ctrl-C, whatever it is about."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

from measure import BRIDLE, Figure, middle, plain_env, scratch

NEAR_SECRETS = "eyJ" * 300_000
"""Nine hundred kilobytes, as long as a script may be, in which secrets are looked for, long and in vain."""
PRINTS = json.dumps({"command": f"yes {NEAR_SECRETS[:3_000]}"})
WRITES = json.dumps({"path": "a", "content": NEAR_SECRETS})
SITUATIONS = {
    "silence": ("wait 600\nsay late\n", "StepStarted"),
    "silence after a word": ("say begun\nwait 600\nsay late\n", "TextDelta"),
    "text": (f"chunk 1000000\nsay {NEAR_SECRETS}\n", "TextDelta"),
    "thinking": (f"chunk 1000000\nthink {NEAR_SECRETS}\n", "ThinkingDelta"),
    "arguments": (f"call write_file {WRITES}\n", "StepStarted"),
    "output": (f"call bash {PRINTS}\n", "ToolCallProgress"),
}
"""What the model does, and the event after which Ctrl-C is pressed."""


def interrupt() -> list[Figure]:
    """Each situation with a reader of stdout, and with one that has stopped to read."""
    took_s = {
        f"{name}, {'read' if reading else 'not read'}": _stopped_s(script, after, reading=reading)
        for name, (script, after) in SITUATIONS.items()
        for reading in (True, False)
    }
    worst = max(took_s, key=lambda name: took_s[name])
    how = f"{len(took_s)} situations, to the end of the process"
    return [
        Figure(name="Ctrl-C to exit", value=middle([*took_s.values()]), unit="s", target=1, how=how),
        Figure(name="Ctrl-C to exit, worst", value=took_s[worst], unit="s", target=1, how=worst),
    ]


def _stopped_s(script: str, after: str, *, reading: bool) -> float:
    with scratch() as home:
        work = os.path.join(home, "work")
        os.mkdir(work)
        with open(os.path.join(work, "it.script"), "w", encoding="utf-8") as file:
            file.write(script)
        words = ("run", "--mode", "yolo", "-s", "off", "--stream-json", "-m", "demo:it.script", "x")
        process = subprocess.Popen(
            [BRIDLE, *words],
            cwd=work,
            env=plain_env(home),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdout is not None
        try:
            assert any(f'"eventType":"{after}"'.encode() in line for line in process.stdout)
            begun = time.perf_counter()
            process.send_signal(signal.SIGINT)
            if reading:
                process.stdout.read()
            assert process.wait(60) == 130
            return time.perf_counter() - begun
        finally:
            process.kill()
            process.communicate()
