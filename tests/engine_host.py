"""Starts engines for tests: forks of a process that has everything imported, so that one is there in a moment.

Reads orders, one JSON object a line: `{"cwd", "env", "stderr"}` starts `bridle serve`, and its number is printed;
`{"stop"}` ends the one of that number, and its exit code is printed.
"""

import json
import os
import signal
import sys
from typing import Any


def main() -> None:
    import uvicorn.protocols.http.httptools_impl
    import uvicorn.protocols.websockets.websockets_sansio_impl  # noqa: F401  what a start would import

    import bridle.app.composition
    import bridle.cli.serve
    import bridle.control.http_app
    import bridle.control.http_server
    import bridle.sessions.sqlite_store  # noqa: F401

    for line in sys.stdin:
        order = json.loads(line)
        if "stop" in order:
            os.kill(order["stop"], signal.SIGTERM)
            print(os.waitstatus_to_exitcode(os.waitpid(order["stop"], 0)[1]), flush=True)
        elif (pid := os.fork()) == 0:
            serve(order)
        else:
            print(pid, flush=True)


def serve(order: dict[str, Any]) -> None:
    from bridle.cli import main as bridle

    nothing = os.open(os.devnull, os.O_RDWR)
    said = os.open(order["stderr"], os.O_WRONLY)
    for fd, target in ((nothing, 0), (nothing, 1), (said, 2)):
        os.dup2(fd, target)
    os.setsid()
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    code: object = 70
    try:
        bridle(["serve"])
    except SystemExit as ended:
        code = ended.code
    finally:
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


main()
