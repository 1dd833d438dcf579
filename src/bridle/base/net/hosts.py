"""Parse and match host rules: `example.org`, `*.example.com`, `example.com:8443`, `*`.

A rule without a port means the two of the web. A star stands for one or more whole labels at the beginning, so
`*.example.com` is not `example.com` itself. Addresses in numbers are never named: nobody can tell whose they are.
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

WEB_PORTS: Final = (80, 443)
_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME: Final = rf"(?:{_LABEL}\.)*{_LABEL}"
_RULE: Final = r"(\*\.)?([^:*]+|(?<!\.)\*)(?::([0-9]{1,5}))?"
_NUMBER: Final = r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)"
_MOST_CHARACTERS: Final = 253
_LOCAL_NAMES: Final = frozenset(
    {"localhost", "localhost.localdomain", "localhost6", "ip6-localhost", "ip6-loopback"}
)
METADATA_NAMES: Final = frozenset(
    {"metadata", "metadata.goog", "metadata.google.internal", "instance-data", "instance-data.ec2.internal"}
)
"""Where clouds hand out credentials."""


class HostRule(msgspec.Struct, frozen=True):
    """`below`: the hosts whose names end with `name`, all of them if that is empty. Port 0: those of the web."""

    name: str
    below: bool = False
    port: int = 0

    def covers(self, host: str, port: int) -> bool:
        """Whether a host, in small letters and without a final dot, may be reached at this port by this rule."""
        if port != self.port and (self.port or port not in WEB_PORTS):
            return False
        if self.below:
            return is_host_name(host) and host.endswith(f".{self.name}" if self.name else "")
        return host == self.name

    def covers_rule(self, other: "HostRule") -> bool:
        """Whether everything the other rule allows is allowed by this one."""
        if other.port != self.port and (self.port or other.port not in WEB_PORTS):
            return False
        if not self.below:
            return not other.below and other.name == self.name
        if not self.name:
            return True
        return other.name.endswith(f".{self.name}") or (other.below and other.name == self.name)


def host_rule(text: str) -> HostRule:
    """Raises ValueError, whose text reads as the end of a sentence."""
    parts = re.fullmatch(_RULE, text.strip().lower())
    if parts is None:
        raise ValueError("it is not a host like example.org, *.example.com or example.com:8443")
    star, name, port = parts.groups()
    if port is not None and not 0 < int(port) < 65_536:
        raise ValueError("a port is a number from 1 to 65535")
    if name == "*":
        return HostRule("", below=True, port=int(port or 0))
    name = name.removesuffix(".")
    if not name.isascii():
        raise ValueError("names with other letters are written in their ASCII form (xn--…)")
    if re.fullmatch(_NUMBER, name):
        raise ValueError("hosts are allowed by name, not by number")
    if not is_host_name(name):
        raise ValueError("it is not a host like example.org, *.example.com or example.com:8443")
    if is_local(name):
        raise ValueError("this machine is never reached from there; a command has a localhost of its own")
    if name in METADATA_NAMES:
        raise ValueError("a cloud's metadata is never reached from there")
    return HostRule(name, below=star is not None, port=int(port or 0))


def is_local(host: str) -> bool:
    """Whether a name, in small letters and without a final dot, is one of this machine's own."""
    return host in _LOCAL_NAMES or host.endswith(".localhost")


def is_host_name(host: str) -> bool:
    """Whether this is a name, in small letters, and no address in any spelling of numbers."""
    return (
        len(host) <= _MOST_CHARACTERS and bool(re.fullmatch(_NAME, host)) and not re.fullmatch(_NUMBER, host)
    )


def rule_for(host: str, port: int) -> str:
    """The rule that would allow exactly this."""
    return host if port in WEB_PORTS else f"{host}:{port}"


def all_covered(rules: Iterable[HostRule], by: Iterable[HostRule]) -> bool:
    own = [*by]
    return all(any(mine.covers_rule(rule) for mine in own) for rule in rules)
