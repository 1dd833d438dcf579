"""What a start puts off is the real thing for whoever uses it; only the time at which it is loaded differs."""

import asyncio
import gettext
import inspect
import os
import platform
import py_compile
import shlex
import ssl
import subprocess
import sys
from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from pathlib import Path

import pytest

from bridle.cli.lazy_imports import ANSWERS, PUT_OFF
from cli_kit import Place

BEGIN = "import sys\nfrom bridle.cli.lazy_imports import import_less\n"
KEY_VARIABLE = "WORK_SERVICE_KEY"


def python(place: Place, code: str, *options: str) -> str:
    """What a Python of its own prints that puts imports off before it runs the code."""
    done = subprocess.run(
        [sys.executable, *options, "-W", "error", "-c", f"{BEGIN}{code}"],
        cwd=place.work,
        env=place.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")
    return done.stdout.decode().strip()


def test_a_module_that_is_put_off_is_loaded_with_the_first_look_into_it(place: Place) -> None:
    code = """
import_less()
import ssl
import asyncio
before = "_ssl" in sys.modules
context = ssl.create_default_context()
import ssl as again
print(before, "_ssl" in sys.modules, again is ssl, type(ssl).__name__, ssl.__file__ == ssl.__spec__.origin)
"""
    assert python(place, code) == "False True True module True"


def test_asyncio_works_with_plain_sockets_and_does_without_tls(place: Place) -> None:
    code = """
import_less()
import asyncio
async def echo(reader, writer):
    writer.write(await reader.readexactly(5))
    writer.close()
async def main():
    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"hello")
        print((await reader.read()).decode(), "_ssl" in sys.modules, "ast" in sys.modules)
        writer.close()
asyncio.run(main())
"""
    assert python(place, code) == "hello False False"


@pytest.mark.parametrize("name", sorted(filter(find_spec, PUT_OFF)))  # some are of newer Pythons
def test_every_name_of_a_module_that_is_put_off_can_be_had(place: Place, name: str) -> None:
    code = f"""
import importlib, types
loaded = {name!r} in sys.modules  # by Python itself
import_less()
module = importlib.import_module({name!r})
print((type(module) is types.ModuleType) == loaded)
exec("from {name} import *")
print(type(module) is types.ModuleType)
print(*sorted(name for name in vars(module) if not name.startswith("__")))
"""
    plain = f"""
import importlib
module = importlib.import_module({name!r})
exec("from {name} import *")
print(*sorted(name for name in vars(module) if not name.startswith("__")))
"""
    assert python(place, code) == f"True\nTrue\n{python(place, plain)}"


def test_a_name_that_asyncio_got_an_answer_for_is_the_real_one_for_everybody_else(place: Place) -> None:
    code = """
import_less()
import asyncio.base_events, socket
with socket.socket() as plain:
    asyncio.base_events._check_ssl_socket(plain)
from ssl import SSLSocket
import ssl
print(SSLSocket is ssl.SSLSocket, isinstance(SSLSocket, type), ssl is asyncio.base_events.ssl)
"""
    assert python(place, code) == "True True True"


def test_what_asyncio_logs_is_logged_as_ever(place: Place) -> None:
    code = """
import_less()
import asyncio, contextlib, io
async def main():
    asyncio.get_running_loop().call_soon(lambda: 1 / 0)
    await asyncio.sleep(0)
before, told = "string" in sys.modules, io.StringIO()
with contextlib.redirect_stderr(told):
    asyncio.run(main())
import logging
print(before, "ZeroDivisionError" in told.getvalue(), asyncio.log.logger.name, logging.getLogger("asyncio").name)
logging.basicConfig(stream=sys.stdout, level=logging.DEBUG, format="%(name)s %(message)s")
asyncio.run(asyncio.sleep(0))
"""
    assert python(place, code).splitlines() == [
        "False True asyncio asyncio",
        "asyncio Using selector: EpollSelector",
    ]


def test_asyncio_tells_in_debug_mode_where_a_future_was_made(place: Place) -> None:
    code = """
import_less()
import asyncio
before = "itertools" in vars(sys.modules["traceback"])
async def makes_one():
    print(before, asyncio.Future()._source_traceback[-1].name)
asyncio.run(makes_one(), debug=True)
"""
    assert python(place, code) == "False makes_one"


def test_asyncio_runs_things_in_threads_as_ever(place: Place) -> None:
    code = """
import_less()
import asyncio, threading
async def main():
    print(await asyncio.to_thread(lambda: threading.current_thread() is not threading.main_thread()))
    later = asyncio.run_coroutine_threadsafe(asyncio.sleep(0, "done"), asyncio.get_running_loop())
    done, _ = await asyncio.wait([asyncio.wrap_future(later)], return_when=asyncio.FIRST_COMPLETED)
    print(done.pop().result())
asyncio.run(main())
import concurrent.futures.thread
print(concurrent.futures.ThreadPoolExecutor is concurrent.futures.thread.ThreadPoolExecutor)
"""
    assert python(place, code).splitlines() == ["True", "done", "True"]


def test_several_threads_that_look_at_once_all_find_a_whole_module(place: Place) -> None:
    (place.work / "slow.py").write_text("import decimal, email.message\nlast = 2\n")
    code = """
import threading
sys.path.insert(0, "")
import_less(frozenset({"slow"}))
import slow
ready, found = threading.Barrier(8), []
def look():
    ready.wait()
    found.append(slow.last)
threads = [threading.Thread(target=look) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(found)
"""
    assert python(place, code) == str([2] * 8)


def test_a_module_that_cannot_be_loaded_says_so_to_everybody_who_looks(place: Place) -> None:
    (place.work / "broken.py").write_text("import nothing_of_this_name\n")
    code = """
sys.path.insert(0, "")
import_less(frozenset({"broken"}))
import broken
for _ in range(2):
    try:
        broken.anything
    except ImportError as problem:
        print(problem.name)
"""
    assert python(place, code).split() == ["nothing_of_this_name"] * 2


def test_what_a_module_does_not_have_is_missing_as_ever(place: Place) -> None:
    code = """
import_less()
import textwrap
print(hasattr(textwrap, "no_such_name"), textwrap.dedent("  a"))
"""
    assert python(place, code) == "False a"


def test_a_change_to_a_module_that_is_put_off_survives_its_loading(place: Place) -> None:
    code = """
import_less()
import textwrap
textwrap.dedent = "mine"
print(textwrap.fill("a"), textwrap.dedent)
"""
    assert python(place, code) == "a mine"


def test_modules_are_found_where_any_other_search_finds_them(place: Place) -> None:
    code = """
import importlib.util, os
here = sorted(name for name in sys.stdlib_module_names if os.path.isfile(f"{os.path.dirname(os.__file__)}/{name}.py"))
names = [*here, "json.decoder", "asyncio.tasks", "re._parser", "msgspec.json", "xml", "concurrent.futures.thread"]
names += ["bridle.base.ids", "bridle.safety.trust", "bridle.safety.trust.approvals", "bridle.no_such_module"]
import re, msgspec, json, asyncio, xml, concurrent.futures
def seen(spec):
    return spec and (spec.name, spec.origin, spec.cached, spec.submodule_search_locations, spec.has_location)
def search(name):
    sys.modules.pop(name, None)
    return seen(importlib.util.find_spec(name))
names = [name for name in names if (spec := importlib.util.find_spec(name)) is None or spec.origin != "frozen"]
before = [search(name) for name in names]
importlib.invalidate_caches()
import_less(frozenset())
after = [search(name) for name in names]
print(after == before, before[-1], len([each for each in before if each]) > 100)
print([pair for pair in zip(after, before) if pair[0] != pair[1]])
"""
    assert python(place, code).splitlines() == ["True None True", "[]"]


PACKAGE = """
sys.path.insert(0, ".")
import bridle
bridle.__path__.insert(0, "extra")
import_less()
import bridle.mine
print(bridle.mine.VALUE, bridle.mine.__cached__)
"""
"""What says the value of a module that is compiled in one way or another."""


def _mine(place: Place, value: int) -> Path:
    source = place.work / "extra/mine.py"
    source.parent.mkdir(exist_ok=True)
    source.write_text(f"VALUE = {value}\n")
    return source


def test_a_module_whose_source_changed_is_compiled_again(place: Place) -> None:
    source = _mine(place, 1)
    compiled = f"extra/__pycache__/mine.{sys.implementation.cache_tag}.pyc"
    py_compile.compile(os.fspath(source), cfile=os.fspath(place.work / compiled), doraise=True)
    assert python(place, PACKAGE) == f"1 {compiled}"
    _mine(place, 22)
    assert python(place, PACKAGE) == f"22 {compiled}"
    status = source.stat()
    _mine(place, 33)
    os.utime(source, (status.st_atime, status.st_mtime + 5))
    assert python(place, PACKAGE) == f"33 {compiled}"


def test_what_is_compiled_is_used_as_it_is(place: Place) -> None:
    source = _mine(place, 1)
    compiled = place.work / f"extra/__pycache__/mine.{sys.implementation.cache_tag}.pyc"
    py_compile.compile(os.fspath(source), cfile=os.fspath(compiled), doraise=True)
    status = source.stat()
    _mine(place, 2)  # as long as before, and of the same time: nobody can tell
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert python(place, PACKAGE).startswith("1 ")


@pytest.mark.parametrize("begin", [b"", b"not a compiled file at all", bytes(64)])
def test_a_file_that_is_no_compiled_one_is_not_used(place: Place, begin: bytes) -> None:
    source = _mine(place, 4)
    compiled = source.parent / f"__pycache__/mine.{sys.implementation.cache_tag}.pyc"
    compiled.parent.mkdir()
    compiled.write_bytes(begin)
    assert python(place, PACKAGE).startswith("4 ")


def test_a_compiled_file_that_is_checked_by_its_contents_is(place: Place) -> None:
    source = _mine(place, 5)
    checked = py_compile.PycInvalidationMode.CHECKED_HASH
    compiled = source.parent / f"__pycache__/mine.{sys.implementation.cache_tag}.pyc"
    py_compile.compile(os.fspath(source), cfile=os.fspath(compiled), doraise=True, invalidation_mode=checked)
    assert python(place, PACKAGE).startswith("5 ")
    _mine(place, 6)
    assert python(place, PACKAGE).startswith("6 ")


def test_compiled_files_that_lie_elsewhere_are_found_there(place: Place) -> None:
    _mine(place, 7)
    assert python(place, PACKAGE, "-X", "pycache_prefix=elsewhere").startswith("7 elsewhere/")
    assert python(place, PACKAGE, "-O").endswith(
        "mine.cpython-311.opt-1.pyc".replace("cpython-311", sys.implementation.cache_tag or "")
    )


def test_a_forward_reference_is_followed_as_ever(place: Place) -> None:
    code = """
import typing
from bridle.cli.lazy_imports import compile_less
compile_less()
class Node:
    left: "Node | None"
    right: typing.Optional["typing.List[Node]"]
print(typing.get_type_hints(Node) == {"left": Node | None, "right": typing.Optional[typing.List[Node]]})
print(typing.ForwardRef("Foo", is_class=True) == typing.ForwardRef("Foo", is_class=True))
class Wrong:
    left: "not an expression"
try:
    typing.get_type_hints(Wrong)
except SyntaxError as problem:
    print("SyntaxError")
"""
    assert python(place, code).splitlines() == ["True", "True", "SyntaxError"]


def test_schemas_are_made_as_ever(place: Place) -> None:
    code = """
import_less()
import msgspec
before = "schema" not in vars(sys.modules["msgspec._json_schema"])
schema = msgspec.json.schema(dict[str, int])
print(before, schema, msgspec.json.schema_components([int], ref_template="#/{name}"))
"""
    plain = "import msgspec\nprint(True, msgspec.json.schema(dict[str, int]), msgspec.json.schema_components([int]))"
    assert python(place, code) == python(place, plain)


def test_programs_are_started_as_ever(place: Place) -> None:
    code = """
import_less()
import asyncio, inspect
streams = inspect.signature(asyncio.AbstractEventLoop.subprocess_exec).parameters
print(asyncio.subprocess.PIPE, asyncio.subprocess.STDOUT, asyncio.subprocess.DEVNULL, streams["stdin"].default)
async def main():
    started = await asyncio.create_subprocess_exec("echo", "hello", stdout=asyncio.subprocess.PIPE)
    out, _ = await started.communicate()
    print(out.decode().strip(), started.returncode)
asyncio.run(main())
"""
    pipe, out, null = subprocess.PIPE, subprocess.STDOUT, subprocess.DEVNULL
    assert python(place, code).splitlines() == [f"{pipe} {out} {null} {pipe}", "hello 0"]


def test_whoever_finds_modules_in_a_way_of_their_own_is_asked_first(place: Place) -> None:
    code = """
asked = []
class Hook:
    def find_spec(self, name, path=None, target=None):
        asked.append(name)
sys.meta_path.insert(0, Hook())
import_less()
import bridle.base.ids, textwrap
print("bridle.base.ids" in asked, "textwrap" in asked)
"""
    assert python(place, code) == "True True"


# What is said in place of a module


class _Methods:
    async def asynchronous(self) -> None: ...

    def plain(self) -> None: ...


@pytest.mark.parametrize(
    "function",
    [
        _Methods.asynchronous,
        _Methods().asynchronous,
        _Methods.plain,
        _Methods().plain,
        _Methods,
        len,
        print,
        5,
    ],
)
def test_what_is_said_of_a_callback_is_what_inspect_says(function: object) -> None:
    said: Callable[[object], bool] = ANSWERS["asyncio.coroutines", "inspect", "iscoroutinefunction"]  # pyright: ignore[reportAssignmentType]
    assert said(function) is inspect.iscoroutinefunction(function)


def test_what_is_inside_wrappers_is_what_inspect_finds() -> None:
    said: Callable[[object], object] = ANSWERS["dataclasses", "inspect", "unwrap"]  # pyright: ignore[reportAssignmentType]
    wrapped = wraps(_Methods.plain)(wraps(len)(lambda: None))
    for function in (len, _Methods.plain, wrapped, _Methods):
        assert said(function) is inspect.unwrap(function)  # pyright: ignore[reportArgumentType]


def test_a_usage_line_is_argparses_own_in_no_colour(place: Place) -> None:
    code = """
import argparse
parser = argparse.ArgumentParser(prog="x")
parser.add_argument("--many", nargs="+")
parser.add_subparsers().add_parser("one", help="the first").add_argument("word")
print(parser.format_help(), parser.parse_args(["one", "a"]))
"""
    assert python(place, f"import_less(){code}") == python(place, code)


def test_what_is_said_of_the_system_is_what_platform_says() -> None:
    said: Callable[[], str] = ANSWERS["uuid", "platform", "system"]  # pyright: ignore[reportAssignmentType]
    assert said() == platform.system()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_messages_are_those_of_gettext_without_a_translation(number: int) -> None:
    plain = gettext.NullTranslations()
    one: Callable[[str], str] = ANSWERS["argparse", "gettext", "gettext"]  # pyright: ignore[reportAssignmentType]
    many: Callable[[str, str, int], str] = ANSWERS["argparse", "gettext", "ngettext"]  # pyright: ignore[reportAssignmentType]
    assert one("a %s") == plain.gettext("a %s")
    assert many("one", "many", number) == plain.ngettext("one", "many", number)


# TLS from the command line


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A self-signed certificate for this machine; its key lies beside it."""
    words = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
        " -addext subjectAltName=DNS:localhost,IP:127.0.0.1"
    )
    file = tmp_path / "here.pem"
    subprocess.run(
        [*shlex.split(words), "-keyout", tmp_path / "here.key", "-out", file],
        capture_output=True,
        check=True,
        timeout=30,
    )
    return file


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    (length,) = [
        line.partition(b":")[2] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
    ]
    await reader.readexactly(int(length))
    writer.write(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
        b'data: {"choices":[{"index":0,"delta":{"content":"Over TLS."},"finish_reason":"stop"}]}\n\n'
        b"data: [DONE]\n\n"
    )
    await writer.drain()
    writer.close()


async def _asked_over_tls(place: Place, certificate: Path, *, trusted: bool) -> tuple[int, str, str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    server = await asyncio.start_server(_answer, "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        folder = place.home / ".config/bridle"
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text(
            f'[providers.work]\nbase_url = "https://127.0.0.1:{port}/v1"\nkey_env = "{KEY_VARIABLE}"\n'
        )
        env = {KEY_VARIABLE: "k" * 20}
        if trusted:
            env["SSL_CERT_FILE"] = os.fspath(certificate)
        ran = await asyncio.to_thread(place.bridle, "run", "-m", "work:some-model", "hi", env=env)
    return ran.code, ran.out, ran.err


async def test_a_model_is_asked_over_tls(place: Place, certificate: Path) -> None:
    code, out, _ = await _asked_over_tls(place, certificate, trusted=True)
    assert (code, out) == (0, "Over TLS.\n")


async def test_a_certificate_nobody_vouches_for_is_refused(place: Place, certificate: Path) -> None:
    code, out, err = await _asked_over_tls(place, certificate, trusted=False)
    assert (code, out) == (5, "")
    assert "certificate" in err
