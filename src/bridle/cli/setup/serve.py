"""`bridle serve`: an engine that listens for clients."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys

from bridle._version import __version__
from bridle.app.engine import running_engine
from bridle.app.service.serving import ListeningEngine, ListenOptions, check_listen_options, listening_engine
from bridle.app.user.setting_sections import McpServerSettings
from bridle.base.clock import SystemClock
from bridle.cli.console import say, tell
from bridle.cli.option_values import user_settings
from bridle.cli.stdin import unlocked
from bridle.cli.verbs.rows import Args, Env
from bridle.config.folders import folders
from bridle.control.code_surfaces import CodeSurfaces, machine_surfaces
from bridle.control.engine_settings import EngineSettings
from bridle.control.listening_socket import tcp_address
from bridle.protocol.errors import UsageError

COLLECTED_AFTER = (2_000, 5, 2)
"""New objects until the young are looked at, and how often that happens until the older ones are: with these, what a
dozen sessions left."""
SWITCH_S = 0.001
"""So long a thread that searches or redacts may keep the loop from going on, by which all sessions wait."""
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def serve(parsed: Args, env: Env) -> int:
    options = listen_options(parsed, env)
    check_listen_options(options)
    if parsed.print_unit:
        return say(_unit(parsed.print_unit, parsed))
    surfaces = machine_surfaces(env, notify=parsed.auth_channel == "notify")
    return asyncio.run(_serve(options, surfaces, unlocked(env, model=None), idle_exit_s=parsed.idle_exit))


def listen_options(parsed: Args, env: Env) -> ListenOptions:
    """What the words and the person's own settings say about listening."""
    if parsed.listen is not None and parsed.no_listen:
        raise UsageError("--listen and --no-listen exclude each other. Choose one")
    tiers = user_settings(env)
    engine = tiers.section("engine", EngineSettings)
    listen = None if parsed.no_listen else parsed.listen or engine.listen
    return ListenOptions(
        address=None
        if listen is None
        else tcp_address(listen, "engine.listen" if parsed.listen is None else "--listen"),
        token_file=parsed.auth_token_file,
        tls_cert=parsed.tls_cert,
        tls_key=parsed.tls_key,
        origins=engine.origins,
        tool_names=tiers.section("mcp_server", McpServerSettings).tool_names,
    )


async def _serve(
    options: ListenOptions,
    surfaces: CodeSurfaces,
    env: Env,
    *,
    idle_exit_s: float | None,
) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def stopped() -> None:
        if stop.is_set():
            os._exit(130)
        stop.set()

    for number in STOPPING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup: a closed terminal is no reason to stop
            loop.add_signal_handler(number, stopped)
    async with (
        running_engine(
            env, notice=tell, waits_for_room=True, listening=True, code_surfaces=surfaces
        ) as engine,
        listening_engine(
            engine,
            options,
            where=folders(env),
            clock=SystemClock(),
            hear=engine.access.note_refusal,
        ) as listening,
    ):
        _tell_where(listening)
        _collect_what_sessions_leave()
        sys.setswitchinterval(SWITCH_S)
        if await _stopped_or_idle(stop, listening, idle_exit_s):
            tell("ending; again to leave at once")
        else:
            tell(f"nobody was here for {idle_exit_s:g} s; ending")
    return 0


async def _stopped_or_idle(
    stop: asyncio.Event, listening: ListeningEngine, idle_exit_s: float | None
) -> bool:
    """Whether somebody stopped it; False where nobody was here for so long."""
    if idle_exit_s is None:
        return await stop.wait()
    idle = asyncio.ensure_future(listening.idle(idle_exit_s))
    stopped = asyncio.ensure_future(stop.wait())
    await asyncio.wait((idle, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if stop.is_set():
        idle.cancel()
        return True
    idle.result()
    return False


def _collect_what_sessions_leave() -> None:
    """A start collects nothing, to be fast; this goes on for weeks, and a session leaves objects that hold each other.
    What is there by now stays and is never looked at again, so that looking is quick."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTED_AFTER)


def _tell_where(listening: ListeningEngine) -> None:
    tell(f"Bridle {__version__} listens on {listening.socket}")
    if listening.url:
        tell(f"and on {listening.url}, with a token from: bridle token mint")
    for notice in listening.notices:
        tell(notice)
    tell("Attach: bridle attach   End: Ctrl-C")


# A service of the system


def _unit(kind: str, parsed: Args) -> str:
    """What makes the system start it when its person logs in."""
    words = [sys.executable, "-m", "bridle", "serve", *_options(parsed)]
    return _launchd(words) if kind == "launchd" else _systemd(words)


def _options(parsed: Args) -> list[str]:
    """The same options, with paths that mean the same from anywhere."""
    words = ["--no-listen"] if parsed.no_listen else []
    if parsed.auth_channel is not None:
        words += ["--auth-channel", parsed.auth_channel]
    if parsed.idle_exit is not None:
        words += ["--idle-exit", f"{parsed.idle_exit:g}"]
    if parsed.listen is not None:
        words += ["--listen", parsed.listen]
    for option, path in (
        ("--auth-token-file", parsed.auth_token_file),
        ("--tls-cert", parsed.tls_cert),
        ("--tls-key", parsed.tls_key),
    ):
        if path is not None:
            words += [option, os.path.abspath(path)]
    return words


def _systemd(words: list[str]) -> str:
    command = " ".join(f'"{_escaped(word)}"' for word in words)
    return f"""\
# ~/.config/systemd/user/bridle.service; then: systemctl --user enable --now bridle
[Unit]
Description=Bridle engine

[Service]
ExecStart={command}
KillMode=mixed
TimeoutStopSec=10
Restart=on-failure

[Install]
WantedBy=default.target
"""


def _escaped(word: str) -> str:
    return word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")


def _launchd(words: list[str]) -> str:
    from xml.sax.saxutils import escape

    arguments = "\n".join(f"    <string>{escape(word)}</string>" for word in words)
    return f"""\
<?xml version="1.0" encoding="UTF-8"?>
<!-- ~/Library/LaunchAgents/bridle.plist; then: launchctl load ~/Library/LaunchAgents/bridle.plist -->
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>bridle</string>
  <key>ProgramArguments</key>
  <array>
{arguments}
  </array>
  <key>RunAtLoad</key>
  <true/>
  <key>ExitTimeOut</key>
  <integer>10</integer>
</dict>
</plist>
"""
