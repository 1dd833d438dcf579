"""Declare the settings of a package: a frozen Struct whose fields carry help, limits and the workspace rule.

    class GoalSettings(msgspec.Struct, frozen=True, kw_only=True):
        rounds: Annotated[Count, About("How often the check of a goal may fail.", workspace=at_most)] = 10

    Section("goal", GoalSettings)

The Struct is the only declaration. The table that checks files, the defaults, the decoder, the help and the reference
in the docs come from it. A field without a default is required in every entry of a list.
"""

import math
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, cast, get_args, get_origin

import msgspec
from msgspec import Meta

from bridle.base.net.hosts import all_covered, host_rule

LARGEST = 10**9
"""The largest number a setting takes; a larger one is a typing error."""

IsNoLooser: TypeAlias = Callable[[object, object], bool]
"""Return whether a value allows nothing that the value in force, None if unset, does not allow."""
WorkspaceRule: TypeAlias = Literal["always", "after ack", "never"] | IsNoLooser
"""When a file of the workspace may set it; "after ack": once the user agreed to that file."""


class About(msgspec.Struct, frozen=True):
    """Everything about a setting besides its type and its default.

    `workspace`: None for the rule of the section. `also`: other names for the key. `or_key`: the key that may stand in
    place of a required one. `secret`: never shown and never written by Bridle. `private`: the values of this map are
    not shown. `folds`: the names in this map are keys of Bridle, which have two spellings. `adds_up`: the lists of all
    files count together. `instead`: the key is read from no file; a clause says what to do instead. `awaits`: the
    capability that will use it.
    """

    help: str = ""
    workspace: WorkspaceRule | None = None
    also: tuple[str, ...] = ()
    or_key: str = ""
    secret: bool = False
    private: bool = False
    folds: bool = False
    adds_up: bool = False
    instead: str = ""
    awaits: str = ""


class Wanted(msgspec.Struct, frozen=True):
    """The end of the sentence "KEY = VALUE is not …" for a type, and a check beyond the type."""

    text: str
    accepts: Callable[[Any], bool] | None = None


class Section(msgspec.Struct, frozen=True):
    """The settings below one key. `*` stands for a name users choose, `[]` for the entries of a list. `also`: other
    names for the last part of the key."""

    key: str
    fields: type[msgspec.Struct]
    workspace: WorkspaceRule = "never"
    also: tuple[str, ...] = ()


class ValueKind(msgspec.Struct, frozen=True, kw_only=True):
    """The values a setting takes. `wanted` is empty for a type that has no words of its own."""

    type: Any
    wanted: str
    choices: tuple[str, ...] = ()
    also: Callable[[Any], bool] | None = None

    def problem(self, value: object) -> str | None:
        """Return why a value is refused, in the words of msgspec; None if it is accepted."""
        try:
            msgspec.convert(value, self.type)
        except (msgspec.ValidationError, ValueError, TypeError) as problem:
            return str(problem)
        return None if self.also is None or self.also(value) else f"it is not {self.wanted}"

    def accepts(self, value: object) -> bool:
        return self.problem(value) is None


def is_plain(value: object) -> bool:
    """Return whether JSON can hold a value: no dates, no infinite numbers."""
    match value:
        case float():
            return math.isfinite(value)
        case None | str() | bool() | int():
            return True
        case list() | tuple():
            return all(map(is_plain, cast("list[object]", value)))
        case Mapping():
            return all(map(is_plain, cast("Mapping[str, object]", value).values()))
        case _:
            return False


def are_hosts(value: Any) -> bool:
    try:
        return all(map(host_rule, value))
    except ValueError:
        return False


_ADDRESS = "an address that begins with http:// or https://"

Count: TypeAlias = Annotated[int, Meta(ge=1, le=LARGEST), Wanted("a whole number above 0")]
Number: TypeAlias = Annotated[float, Meta(gt=0, le=LARGEST), Wanted("a number above 0")]
Dollars: TypeAlias = Annotated[float, Meta(ge=0, le=LARGEST), Wanted("a number of dollars, 0 or more")]
Share: TypeAlias = Annotated[float, Meta(gt=0, le=1), Wanted("a share above 0 and at most 1")]
Address: TypeAlias = Annotated[str, Meta(pattern="^https?://"), Wanted(_ADDRESS)]
FilledAddress: TypeAlias = Annotated[
    str, Meta(pattern=r"^(https?://|\$\{)"), Wanted(f"{_ADDRESS}, or a reference like ${{NAME}}")
]
EnvironmentName: TypeAlias = Annotated[
    str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\Z"), Wanted("the name of an environment variable")
]
Command: TypeAlias = Annotated[
    str | Annotated[tuple[str, ...], Meta(min_length=1)], Wanted("a command, as text or as a list of words")
]
HostList: TypeAlias = Annotated[
    tuple[str, ...], Wanted("a list of hosts like example.org, *.example.com or example.com:8443", are_hosts)
]
Plain: TypeAlias = Annotated[Any, Wanted("a plain value", is_plain)]
PlainTable: TypeAlias = Annotated[Mapping[str, Any], Wanted("a table of plain values", is_plain)]
TextTable: TypeAlias = Annotated[Mapping[str, str], Wanted("a table of texts")]

_WANTED: Mapping[object, str] = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    tuple[str, ...]: "a list of texts",
}


def kind_of(annotation: Any) -> ValueKind:
    """Return the values that a field with this annotation takes. A field is unset by leaving it out, not by None."""
    inner, wanted = _without_none(annotation)
    bare = inner
    while get_origin(bare) is Annotated:
        bare = get_args(bare)[0]
    choices = tuple(get_args(bare)) if get_origin(bare) is Literal else ()
    text = wanted.text if wanted else _WANTED.get(inner, "one of" if choices else "")
    return ValueKind(
        type=inner,
        wanted=f"{text} ({', '.join(choices)})" if choices else text,
        choices=choices,
        also=wanted.accepts if wanted else None,
    )


def _without_none(annotation: Any) -> tuple[Any, Wanted | None]:
    """Return the annotation without None, and its words: the outermost."""
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        wanted = next((one for one in reversed(metadata) if isinstance(one, Wanted)), None)
        limits = tuple(one for one in metadata if isinstance(one, Meta))
        inner, below = _without_none(inner)
        return cast("Any", Annotated)[(inner, *limits)] if limits else inner, wanted or below
    if get_origin(annotation) in (Union, UnionType):
        members = tuple(one for one in get_args(annotation) if one is not NoneType)
        return _without_none(members[0]) if len(members) == 1 else (cast("Any", Union)[members], None)
    return annotation, None


def about(annotation: Any) -> About:
    """Return the `About` of a field; one without is a setting without help."""
    metadata = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    return next((one for one in metadata if isinstance(one, About)), About())


def no_looser(tighter: Mapping[object, tuple[object, ...]]) -> IsNoLooser:
    """Return the rule for choices: for each value in force, those that allow nothing it does not allow. A value that
    is no choice passes, so that it is reported as the mistake it is."""

    def is_no_looser(value: object, own: object) -> bool:
        is_choice = isinstance(value, (str, bool)) and value in tighter
        return not is_choice or value in tighter.get(own, ())

    return is_no_looser


def tightening(*choices: object) -> IsNoLooser:
    """Return the rule for choices that stand from the loosest to the tightest."""
    return no_looser({one: choices[at:] for at, one in enumerate(choices)})


def at_most(value: object, own: object) -> bool:
    """Accept a number that is not above the one in force."""
    if own is None or not isinstance(value, (int, float)) or isinstance(value, bool):
        return True
    return value <= cast("float", own)


def are_fewer(value: object, own: object) -> bool:
    """Accept a list of which everything is in the one in force; without a list everything is."""
    if own is None or not isinstance(value, list):
        return True
    return all(one in cast("list[object]", own) for one in cast("list[object]", value))


def are_covered(value: object, own: object) -> bool:
    """Accept hosts that are among those in force. A value that is no list of hosts is reported later."""
    try:
        wanted = [host_rule(text) for text in cast("list[str]", value)]
    except (ValueError, TypeError, AttributeError):
        return True
    try:
        return all_covered(wanted, map(host_rule, cast("list[str]", own or ())))
    except (ValueError, TypeError, AttributeError):
        return False
