"""Classify network addresses: loopback, private networks, metadata services of clouds.

Pure text: no name is looked up here. Numbers are read in every spelling that some program accepts (decimal, octal,
hexadecimal, short forms, wide characters, IPv4 inside IPv6), because the program that connects may be one of those.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote

from bridle.base.net.hosts import METADATA_NAMES, is_local

NOT_AN_ADDRESS = "not a web address"
STRANGE = "strange address"
CREDENTIALS = "credentials in the address"
METADATA = "cloud metadata address"

_URL = re.compile(r"(https?)://([^/?#]*)", re.IGNORECASE)
_SCHEME = re.compile(r"\A[A-Za-z][A-Za-z0-9+.-]*://")
_NEVER_IN_A_URL = re.compile(r"[\x00-\x20\x7f\\]")
_NEVER_IN_A_HOST = re.compile(r"[\x00-\x20\x7f\\/?#@:%<>^|\[\]]")
_NUMBER = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)", re.ASCII)
_PORT = re.compile(r"[0-9]{0,5}", re.ASCII)
_DOTS = str.maketrans({"\u3002": ".", "\uff0e": ".", "\uff61": "."})

# fmt: off
_RANGES = (
    ("link-local address", ("169.254.0.0/16", "fe80::/10")),
    ("loopback address", ("127.0.0.0/8", "0.0.0.0/8", "::1/128", "::/128")),
    ("private address", (
        "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "192.0.0.0/24", "198.18.0.0/15", "fc00::/7",
        "fec0::/10", "64:ff9b:1::/48",
    )),
    ("multicast address", ("224.0.0.0/4", "ff00::/8")),
    ("reserved address", (
        "240.0.0.0/4", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "192.88.99.0/24", "100::/64",
        "2001::/23", "2001:db8::/32", "3fff::/20",
    )),
    (METADATA, ("168.63.129.16/32",)),
)
_METADATA_RANGES = (
    ("link-local address", ("169.254.0.0/16",)),
    (METADATA, (
        "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::254/128", "fd20:ce::254/128",
    )),
)
# fmt: on

_NAT64 = 0x64_FF9B << 64
_SIX_TO_FOUR = 0x2002
_CARRIES_IPV4 = frozenset({0, 0xFFFF, 0xFFFF_0000, _NAT64})
"""What stands before an IPv4 address at the end of an IPv6 one: compatible, mapped, translated, NAT64."""


class AddressNumber(NamedTuple):
    """An address as a number of 32 or 128 bits."""

    bits: int
    value: int


class _NotAnAddress(Exception):
    """It looks like a number and is no address."""


def url_problem(url: str) -> str | None:
    """Why this URL must never be fetched, in a few words; None when nothing in its text speaks against it.

    A name that leads to a forbidden address is found out by whoever looks it up.
    """
    parsed = _URL.match(url)
    if parsed is None or _NEVER_IN_A_URL.search(url):
        return NOT_AN_ADDRESS
    authority = parsed.group(2)
    if "@" in authority:
        return CREDENTIALS
    host, port = _host_and_port(authority)
    if host is None or not _PORT.fullmatch(port):
        return NOT_AN_ADDRESS
    try:
        return _host_problem(host)
    except _NotAnAddress:
        return NOT_AN_ADDRESS


def address_problem(address: str) -> str | None:
    """Why nobody may be sent to this address, which a name led to; None when nothing speaks against it.

    `address` is a number as the system writes it. What cannot be read is refused.
    """
    try:
        numbers = [*_numbers(f"[{address}]" if ":" in address else address)]
    except _NotAnAddress:
        numbers = []
    return _worst(numbers) if numbers else STRANGE


def metadata_problem(url: str) -> str | None:
    """Why a command must never be sent to this address, which may lack a scheme; None when the text shows no reason.

    Only the places where clouds hand out credentials: to talk to this machine and its network is ordinary work.
    """
    address = _SCHEME.sub("", url.strip(), count=1)
    authority = re.split(r"[/?#]", address, maxsplit=1)[0].rpartition("@")[2]
    if authority.count(":") > 1 and not authority.startswith("["):
        authority = f"[{authority}]"  # a bare IPv6 address, as some programs take it
    host, _port = _host_and_port(authority)
    try:
        return _metadata_host_problem(_plain(host)) if host else None
    except _NotAnAddress:
        return None


def _host_and_port(authority: str) -> tuple[str | None, str]:
    """The host, with brackets if it has them, and the port behind it, empty when there is none."""
    if not authority.startswith("["):
        host, _, port = authority.partition(":")
        return host or None, port
    inside, bracket, rest = authority.partition("]")
    if not bracket or (rest and not rest.startswith(":")):
        return None, ""
    return inside + bracket, rest[1:]


def _host_problem(host: str) -> str | None:
    plain = _plain(host)
    if is_local(plain):
        return "loopback address"
    if plain in METADATA_NAMES:
        return METADATA
    return _worst(_numbers(plain))


def _worst(numbers: Iterable[AddressNumber]) -> str | None:
    """What is wrong with the first of these that nobody may be sent to."""
    found = [*numbers]
    if kind := next((kind for number in found if (kind := _kind(number, _RANGES))), None):
        return kind
    return None if all(map(_is_given_out, found)) else "reserved address"


def _is_given_out(number: AddressNumber) -> bool:
    """Whether anybody can have this address: of IPv6 only 2000::/3 without 6to4, and IPv4 behind a translator."""
    if number.bits == 32 or number.value >> 32 == _NAT64:
        return True
    return number.value >> 125 == 1 and number.value >> 112 != _SIX_TO_FOUR


def _metadata_host_problem(plain: str) -> str | None:
    if plain in METADATA_NAMES:
        return METADATA
    return next((kind for number in _numbers(plain) if (kind := _kind(number, _METADATA_RANGES))), None)


def _plain(host: str) -> str:
    """The host as programs compare it: decoded, in compatible characters, small letters, without a final dot."""
    if host.startswith("["):
        return host.lower()
    if "%" in host:
        host = unquote(host, errors="replace")
    if not host.isascii():
        host = unicodedata.normalize("NFKC", host.translate(_DOTS)).translate(_DOTS)
        host = "".join(character for character in host if unicodedata.category(character) not in {"Cf", "Mn"})
    host = host.lower().removesuffix(".")
    if not host or _NEVER_IN_A_HOST.search(host):
        raise _NotAnAddress
    return host


def _numbers(host: str) -> Iterator[AddressNumber]:
    """Every address the host may be read as; none for a name. Raises `_NotAnAddress`."""
    if host.startswith("["):
        yield from _from_ipv6(host[1:-1])
        return
    parts = host.split(".")
    if not _NUMBER.fullmatch(parts[-1]):
        return
    readings = [value for octal in (True, False) if (value := _ipv4(parts, octal=octal)) is not None]
    if not readings:
        raise _NotAnAddress
    for value in readings:
        yield AddressNumber(32, value)


def _ipv4(parts: list[str], *, octal: bool) -> int | None:
    """The number, with a leading zero meaning octal or nothing; the last part fills what is left of 32 bits."""
    if len(parts) > 4 or not all(_NUMBER.fullmatch(part) for part in parts):
        return None
    try:
        *first, last = (_part(part, octal=octal) for part in parts)
    except ValueError:
        return None
    if any(value > 0xFF for value in first) or last >= 1 << 8 * (4 - len(first)):
        return None
    return sum(value << 8 * (3 - index) for index, value in enumerate(first)) + last


def _part(part: str, *, octal: bool) -> int:
    if part.startswith("0x"):
        return int(part[2:] or "0", 16)
    return int(part, 8) if octal and len(part) > 1 and part.startswith("0") else int(part)


def _from_ipv6(text: str) -> Iterator[AddressNumber]:
    from ipaddress import AddressValueError, IPv6Address

    try:
        value = int(IPv6Address(text))
    except AddressValueError:
        raise _NotAnAddress from None
    if "%" in text:  # a zone: an interface of this machine
        raise _NotAnAddress
    yield AddressNumber(128, value)
    for embedded in _embedded(value):
        yield AddressNumber(32, embedded)


def _embedded(value: int) -> Iterator[int]:
    """The IPv4 addresses inside an IPv6 one, by every way of putting one there."""
    low = value & 0xFFFF_FFFF
    if value >> 32 in _CARRIES_IPV4 and value > 1:
        yield low
    if value >> 112 == _SIX_TO_FOUR:
        yield value >> 80 & 0xFFFF_FFFF
    if value >> 96 == 0x2001_0000:  # Teredo: the server, and the client with its bits turned over
        yield value >> 64 & 0xFFFF_FFFF
        yield low ^ 0xFFFF_FFFF
    if value >> 32 & 0xFDFF_FFFF == 0x5EFE:  # ISATAP
        yield low


_Ranges: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]


def _kind(number: AddressNumber, ranges: _Ranges) -> str | None:
    return next((kind for kind, bits, shift, base in _compiled(ranges) if number.bits == bits
                 and number.value >> shift == base), None)  # fmt: skip


@functools.cache
def _compiled(ranges: _Ranges) -> tuple[tuple[str, int, int, int], ...]:
    from ipaddress import ip_network

    networks = [(kind, ip_network(text)) for kind, texts in ranges for text in texts]
    return tuple(
        (
            kind,
            network.max_prefixlen,
            shift := network.max_prefixlen - network.prefixlen,
            int(network.network_address) >> shift,
        )
        for kind, network in networks
    )
