"""The imports of a start, kept few: what is hardly ever used is loaded when it is, and the rest is found at once.

Libraries import `ssl` or `inspect` for what most commands never do. Here `import ssl` gives a module that is still
empty. Whoever looks for something in it gets the real thing: this very module object is filled, once, by the loader it
has always had. `importlib.util.LazyLoader` promises the same, but until Python 3.12 it loads as soon as a second module
says `import`.
"""

from __future__ import annotations

import marshal
import os
import sys
from _thread import RLock
from importlib._bootstrap_external import MAGIC_NUMBER  # pyright: ignore  importlib.util has it too, and much else
from importlib.machinery import BuiltinImporter, ModuleSpec, PathFinder, SourceFileLoader
from io import open_code
from types import CodeType, ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:  # the real one would import typing
    from collections.abc import Iterable, Sequence
    from importlib.abc import Loader
    from typing import Any

PUT_OFF = frozenset(
    {
        "_colorize",  # for argparse to colour what we say in our own words
        "asyncio.sslproto",  # for a connection with TLS
        "asyncio.staggered",  # for trying the addresses of a host in turns
        "concurrent.futures",  # for asyncio to run something in a thread pool
        "gettext",  # for argparse in other languages
        "inspect",  # for asyncio to find misuse
        "linecache",  # for the source lines in a traceback
        "locale",  # for subprocess to decode output, which we do ourselves
        "logging",  # for asyncio to say what went wrong
        "msgspec._json_schema",  # for making a JSON schema
        "msgspec.inspect",  # for the same
        "msgspec.toml",  # for decoding TOML, which we do ourselves
        "msgspec.yaml",  # for YAML, which nothing of ours reads
        "platform",  # for uuid to find a network card
        "ssl",  # for a connection with TLS
        "subprocess",  # for starting a program
        "textwrap",  # for making a JSON schema
        "tokenize",  # for the source lines in a traceback
        "traceback",  # for what goes wrong, and asyncio's debug mode
    }
)


def _is_async(function: object) -> bool:
    """Whether calling it gives a coroutine: what inspect would say of a function or a method."""
    code = getattr(function, "__code__", None)
    return code is not None and bool(code.co_flags & 0x80)


def _as_it_is(message: str) -> str:
    return message


def _one_or_many(one: str, many: str, number: int) -> str:
    return one if number == 1 else many


def _unwrapped(function: object) -> object:
    """What stands inside all wrappers, as inspect would find it."""
    while (inner := getattr(function, "__wrapped__", None)) is not None:
        function = inner
    return function


class _NoColours:
    """A theme in which nothing has a colour."""

    def __getattr__(self, name: str) -> object:
        return self if name == "argparse" else ""


def _extract_stack() -> object:
    """The stack of whoever calls, by the real traceback."""
    import traceback

    return traceback.extract_stack(sys._getframe(1))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  the caller


def _schema(type: object, **options: Any) -> object:  # noqa: A002  as msgspec has it
    from msgspec import _json_schema

    return _json_schema.schema(type, **options)


def _schema_components(types: Iterable[Any], **options: Any) -> object:
    from msgspec import _json_schema

    return _json_schema.schema_components(types, **options)


class _Logger:
    """A logger that is made when it has something to say. While logging is not loaded, nobody wants debug lines."""

    def __init__(self, name: str) -> None:
        self._name = name

    def debug(self, message: str, *values: object) -> None:
        if type(sys.modules["logging"]) is not _Empty:
            self.__getattr__("debug")(message, *values)

    def __getattr__(self, name: str) -> Any:
        import logging

        return getattr(logging.getLogger(self._name), name)


ANSWERS: dict[tuple[str, str, str], object] = {
    # Of every plain socket it is asked whether it is an SSLSocket. While ssl is not loaded, none is.
    ("asyncio.base_events", "ssl", "SSLSocket"): (),
    # Names for what to wait for, which asyncio makes its own.
    ("asyncio.tasks", "concurrent.futures", "FIRST_COMPLETED"): "FIRST_COMPLETED",
    ("asyncio.tasks", "concurrent.futures", "FIRST_EXCEPTION"): "FIRST_EXCEPTION",
    ("asyncio.tasks", "concurrent.futures", "ALL_COMPLETED"): "ALL_COMPLETED",
    # What asyncio logs with: an exception nobody took. A run without one has nothing to log.
    ("asyncio.log", "logging", "getLogger"): _Logger,
    ("asyncio.futures", "logging", "DEBUG"): 10,
    # What _asyncio calls in debug mode. It takes it while it is loaded, and who asks then is the import system.
    ("importlib._bootstrap", "traceback", "extract_stack"): _extract_stack,
    # Which of a program's streams are pipes, where nobody says.
    ("asyncio.events", "subprocess", "PIPE"): -1,
    ("asyncio.base_events", "subprocess", "PIPE"): -1,
    ("asyncio.subprocess", "subprocess", "PIPE"): -1,
    ("asyncio.subprocess", "subprocess", "STDOUT"): -2,
    ("asyncio.subprocess", "subprocess", "DEVNULL"): -3,
    # What makes schemas, for who wants one.
    ("msgspec.json", "msgspec._json_schema", "schema"): _schema,
    ("msgspec.json", "msgspec._json_schema", "schema_components"): _schema_components,
    # A signal handler must not be a coroutine function.
    ("asyncio.coroutines", "inspect", "iscoroutinefunction"): _is_async,
    # What becomes the docstring of a data class that has none.
    ("dataclasses", "inspect", "signature"): lambda _cls: "(…)",  # pyright: ignore[reportUnknownLambdaType]
    # The members of a data class with slots: of asyncio's, from Python 3.14 on.
    ("dataclasses", "inspect", "unwrap"): _unwrapped,
    # The colours of help that is never shown, from Python 3.14 on.
    ("argparse", "_colorize", "can_colorize"): lambda: False,
    ("argparse", "_colorize", "decolor"): _as_it_is,
    ("argparse", "_colorize", "get_theme"): lambda **_options: _NoColours(),  # pyright: ignore[reportUnknownLambdaType]
    # The words of usage errors. Ours are English, and half a translation is worse than none.
    ("argparse", "gettext", "gettext"): _as_it_is,
    ("argparse", "gettext", "ngettext"): _one_or_many,
    # Which system this is, asked while uuid is imported. platform would say the same after reading much more.
    ("uuid", "platform", "system"): lambda: os.uname().sysname,
}
"""What a module that is put off says without being loaded: who asks, whom, for which name."""


def import_less(put_off: frozenset[str] = PUT_OFF) -> None:
    """From here on, importing one of these modules costs next to nothing until it is used.

    What is imported already stays as it is, and whoever finds modules in a way of their own is asked first.
    """
    standard = (place for place, finder in enumerate(sys.meta_path) if finder is BuiltinImporter)
    sys.meta_path.insert(next(standard, 0), _Finder(put_off))


def compile_less() -> None:
    """From here on, a forward reference is compiled when somebody follows it.

    Libraries make references that nobody follows, and the first call of `compile` makes a class for every kind of node
    there is. Whoever follows one evaluates what is here the text itself, which is the same.
    """
    import typing

    typing.compile = _text_itself  # pyright: ignore[reportAttributeAccessIssue]  comes before the builtin


def _text_itself(text: str, *_how: object) -> str:
    return text


class _Finder:
    """Finds what is to be put off, and what is ours, in its usual place. Everything else is for others to find."""

    def __init__(self, put_off: frozenset[str]) -> None:
        self._put_off = put_off

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._put_off:
            return _at_once(name, path)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)  # pyright: ignore[reportAttributeAccessIssue]  a loader is what acts like one
        return spec


def _at_once(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """A module of ours, or of who is asked for many, found without asking everybody who might know one."""
    package, _, last = name.rpartition(".")
    if not _ENDING:
        return None
    if path is not None:
        folder = path[0] if package.partition(".")[0] in _WITH_MANY else None
    else:
        folder = _STANDARD if last in sys.stdlib_module_names and last[0] != "_" else None
    if folder is None or name in sys.builtin_module_names:
        return None
    return _in_folder(name, folder, last) or _in_folder(name, f"{folder}/{last}", "__init__")


_STANDARD = os.path.dirname(os.__file__)
_WITH_MANY = frozenset({"asyncio", "bridle", "concurrent", "msgspec", "re"})
_ENDING = (
    f".{sys.implementation.cache_tag}.pyc"
    if sys.pycache_prefix is None and not sys.flags.optimize and sys.implementation.cache_tag
    else ""
)
"""How the name of a compiled file ends that lies beside its source; empty where Python keeps them elsewhere."""
_BEGIN = MAGIC_NUMBER + bytes(4)
"""What it begins with, where time and size of its source say whether it is of today."""


def _in_folder(name: str, folder: str, stem: str) -> ModuleSpec | None:
    source = f"{folder}/{stem}.py"
    try:
        status = os.stat(source)
    except OSError:
        return None
    loader = _CompiledLoader(name, source, f"{folder}/__pycache__/{stem}{_ENDING}", status)
    spec = ModuleSpec(name, loader, origin=source)
    spec.has_location = True
    spec.submodule_search_locations = [folder] if stem == "__init__" else None
    spec.cached = loader.compiled
    return spec


class _CompiledLoader(SourceFileLoader):
    """Takes the compiled file if it begins as it must. Anything else is for Python's own loader, which this one is."""

    def __init__(self, name: str, source: str, compiled: str, status: os.stat_result) -> None:
        super().__init__(name, source)
        self.compiled = compiled
        self._changed = int(status.st_mtime) & 0xFFFFFFFF
        self._size = status.st_size & 0xFFFFFFFF

    def get_code(self, fullname: str) -> CodeType | None:
        try:
            with open_code(self.compiled) as file:
                data = file.read()
        except OSError:
            return super().get_code(fullname)
        if data[:16] != _BEGIN + self._changed.to_bytes(4, "little") + self._size.to_bytes(4, "little"):
            return super().get_code(fullname)
        return marshal.loads(memoryview(data)[16:])  # noqa: S302  it is what Python itself would load


class _Loader:
    """Stands in for a module's loader until the module is used."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._lock = RLock()
        self._begun = False

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        assert spec is not None, "it was imported"
        spec.loader = module.__loader__ = self._loader
        spec.loader_state = self
        module.__class__ = _Empty

    def fill(self, module: ModuleType) -> None:
        """Loads the module. Other threads wait; the one that loads goes on with what is there so far."""
        with self._lock:
            if self._begun:
                return
            self._begun = True
            try:
                self._loader.exec_module(module)
            except BaseException:
                self._begun = False
                raise
            module.__class__ = ModuleType


class _Empty(ModuleType):
    """A module that is not loaded yet."""

    def __getattr__(self, name: str) -> object:
        if name == "__path__":  # the import system asks everybody; a package has its own
            raise AttributeError(name)
        asking = sys._getframe(1).f_globals.get("__name__", "")  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  the caller
        answer = ANSWERS.get((asking, self.__name__, name))
        if answer is not None:
            return answer
        self._fill()
        return ModuleType.__getattribute__(self, name)

    def __setattr__(self, name: str, value: object) -> None:
        """Whoever changes something changes the real module."""
        if name != "__class__":
            self._fill()
        ModuleType.__setattr__(self, name, value)

    def _fill(self) -> None:
        spec = self.__spec__
        assert spec is not None, "it was imported"
        spec.loader_state.fill(self)
