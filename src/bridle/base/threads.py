"""Work apart from whoever waits for it: a blocking call in a thread, and work that no cancellation cuts short."""

import _thread
import asyncio
import contextlib
import errno
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


def in_thread(call: Callable[[], T]) -> asyncio.Future[T]:
    """The result of a blocking call. Unlike the loop's own threads this one never holds up the program's end."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def deliver(settle: Callable[[], None]) -> None:
        if not future.done():
            settle()

    def run() -> None:
        try:
            settle = partial(future.set_result, call())
        except Exception as error:  # noqa: BLE001  not ours: handed to whoever waits
            settle = partial(future.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop has been closed meanwhile
            loop.call_soon_threadsafe(deliver, settle)

    try:
        start_thread(run)
    except OSError as error:
        future.set_exception(error)
    return future


def start_thread(run: Callable[..., None], *args: Any) -> None:
    """Not a `threading.Thread`: that one would first have to be waited for until it says that it runs.

    Raises `OSError` where this machine has too little for one more, as for processes.
    """
    try:
        _thread.start_new_thread(run, args)
    except RuntimeError as error:
        raise BlockingIOError(errno.EAGAIN, str(error)) from error


def blocking(call: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Return `call` for worker threads: they wait while it runs in the loop that runs now."""
    loop = asyncio.get_running_loop()

    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return asyncio.run_coroutine_threadsafe(call(*args, **kwargs), loop).result()

    return run


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Waits for the work, also while being cancelled."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        raise
