"""The door between a command's own network and the proxy that serves it.

A socket belongs to the network it was made in, whoever holds it. So the first program in the new network is a few lines
of ours: they make a socket that listens there, hand it out to us, and become what was to be run. Nothing of ours runs
beside the command, no file leads in or out, and without a door there is no command.
"""

from __future__ import annotations

import array
import asyncio
import os
import socket
import sys
from collections.abc import Mapping, Sequence

from bridle.engine.ports import Hosts
from bridle.sandbox.adapters import CannotConfine, Launch
from bridle.sandbox.proxy import HostProxy, OutsideNetwork

PORT = 64_800
"""Of the command's own network, where nobody else has taken it."""
_FIRST = r"""
import _signal as signal, _socket as s, fcntl, os, struct, sys
door, port, *argv = sys.argv[1:]
try:
    ear = s.socket()
    loopback = struct.Struct("16sh14x")  # an interface of this name, and its flags
    _, flags = loopback.unpack(fcntl.ioctl(ear.fileno(), 0x8913, loopback.pack(b"lo", 0)))
    if not flags & 1:
        fcntl.ioctl(ear.fileno(), 0x8914, loopback.pack(b"lo", flags | 1))
    ear.bind(("127.0.0.1", int(port)))
    ear.listen(128)
    door = s.socket(fileno=int(door))
    door.sendmsg([b"!"], [(s.SOL_SOCKET, s.SCM_RIGHTS, struct.pack("i", ear.fileno()))])
    door.close()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores, and would leave ignored
        signal.signal(number, signal.SIG_DFL)
    with open("/proc/self/environ", "rb") as given:  # without what Python adds to its own
        env = dict(line.split(b"=", 1) for line in given.read().split(b"\0") if b"=" in line)
    os.execvpe(argv[0], argv, env)
except OSError as error:
    print(f"sandbox: {error.strerror or error}; nothing was run", file=sys.stderr)
    os._exit(125)
"""
_HERE = "localhost,127.0.0.1,::1"


class WayOut:
    """For one command. Belongs to the running loop; `close` it when the command is over, or never began."""

    def __init__(self, hosts: Sequence[str], outside: OutsideNetwork) -> None:
        self._proxy = HostProxy(hosts, outside)
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._ours, self._arrived)

    def through(self, launch: Launch) -> Launch:
        """The same launch, with the door made first. Raises `CannotConfine`."""
        at = launch.own_network_at
        if at is None or not sys.executable:
            raise CannotConfine("this kind of sandbox has no network of its own")
        door = self._theirs.detach()
        # Where it leads: the link may lie in a folder that commands do not see.
        first = (os.path.realpath(sys.executable), "-I", "-S", "-c", _FIRST, str(door), str(PORT))
        return launch._replace(
            argv=(*launch.argv[:at], *first, *launch.argv[at:]), pass_fds=(*launch.pass_fds, door)
        )

    def close(self) -> None:
        """May be repeated."""
        self._shut()
        self._theirs.close()
        self._proxy.close()

    def notes(self) -> list[str]:
        return self._proxy.notes()

    def hosts(self) -> Hosts:
        return {"reached": [*self._proxy.reached], "refused": [*self._proxy.refused]}

    def _arrived(self) -> None:
        """The listening socket of the other network, or the news that there will be none."""
        room = socket.CMSG_SPACE(array.array("i").itemsize)
        try:
            _, passed, _, _ = self._ours.recvmsg(1, room)
        except BlockingIOError:
            return
        except OSError:
            passed = []
        self._shut()
        for level, kind, data in passed:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                self._proxy.serve(socket.socket(fileno=array.array("i", data)[0]))

    def _shut(self) -> None:
        if self._ours.fileno() >= 0:
            self._loop.remove_reader(self._ours)
            self._ours.close()


def proxy_variables() -> Mapping[str, str]:
    """What tells programs to go through the proxy, and that this machine itself is reached without."""
    proxy = f"http://127.0.0.1:{PORT}"
    names = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), proxy)
    both = {**names, "NO_PROXY": _HERE}
    return {**both, **{name.lower(): value for name, value in both.items()}, "NODE_USE_ENV_PROXY": "1"}
