"""Choose the route of a request: URL, proxy and trusted certificates.

Reads the environment it is given, never that of the process. No text or `repr` made here holds credentials or a
query.
"""

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    import ssl

_URL: Final = (
    r"(?P<scheme>[Hh][Tt][Tt][Pp][Ss]?)://(?P<host>\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<target>(?:[/?][!-~]*)?)"
)
_PROXY: Final = (  # compiled when a proxy is set, as few have one
    r"(?:(?P<scheme>[A-Za-z0-9]+)://)?(?:(?P<user>[^:@/]*)(?::(?P<password>[^@/]*))?@)?"
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(?::(?P<port>[0-9]{1,5}))?/?"
)
_PROXY_PORTS: Final = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
_HASHED: Final = r"[0-9a-f]{8}\.[0-9]"
_STORE_SIZE: Final = 10
"""Fewer hashed names than this are somebody's own additions, not the system's store."""


class Url(msgspec.Struct, frozen=True):
    """A checked http or https URL, without credentials and fragment. `host` has no brackets."""

    secure: bool
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """Host and port as a `Host` header spells them: without the port that goes without saying."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"http{'s' * self.secure}://{self.authority}"

    def __repr__(self) -> str:
        return f"<Url {self.origin}>"


def parse_url(text: str) -> Url:
    """Raises ValueError, whose text does not hold the URL: what is wrong in it may be a secret."""
    if "@" in re.split("[/?#]", text.partition("://")[2], maxsplit=1)[0]:
        raise ValueError("a URL must not hold credentials")
    parts = re.fullmatch(_URL, text)
    if parts is None or "#" in text:
        raise ValueError("not a plain http or https URL")
    secure = parts["scheme"].lower() == "https"
    target = parts["target"]
    return Url(
        secure,
        parts["host"].strip("[]").lower(),
        _port(parts["port"], 443 if secure else 80),
        target if target.startswith("/") else f"/{target}",
    )


def _port(digits: str | None, default: int) -> int:
    port = int(digits) if digits else default
    if not 0 < port < 65_536:
        raise ValueError("a port is a number from 1 to 65535")
    return port


class Proxy(msgspec.Struct, frozen=True):
    """A proxy. Its credentials never show."""

    scheme: str
    host: str
    port: int
    credentials: tuple[str, str] | None

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def authorization(self) -> str | None:
        if self.credentials is None:
            return None
        from base64 import b64encode

        return "Basic " + b64encode(":".join(self.credentials).encode()).decode("ascii")

    def __repr__(self) -> str:
        return f"<Proxy {self.scheme}://{self.address}>"


def parse_proxy(text: str) -> Proxy:
    """A proxy from `[scheme://][user:password@]host[:port]`. Raises ValueError without repeating the text."""
    parts = re.fullmatch(_PROXY, text)
    scheme = (parts["scheme"] or "http").lower() if parts else ""
    if parts is None or scheme not in _PROXY_PORTS:
        raise ValueError("not the address of a proxy")
    credentials = None
    if parts["user"]:
        from urllib.parse import unquote

        credentials = (unquote(parts["user"]), unquote(parts["password"] or ""))
    return Proxy(scheme, parts["host"].strip("[]"), _port(parts["port"], _PROXY_PORTS[scheme]), credentials)


class ProxyRules:
    """The proxy for each URL, by `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy` in either case.

    The lower-case name wins; an empty value means none. This machine itself is never reached through a proxy.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        everything = _either(env, "all_proxy")
        plain, secure = _either(env, "http_proxy"), _either(env, "https_proxy")
        self._plain = everything if plain is None else plain
        self._secure = everything if secure is None else secure
        self._exempt = [entry.strip().lower() for entry in (_either(env, "no_proxy") or "").split(",")]

    def proxy_for(self, url: Url) -> Proxy | None:
        """None: go directly. Raises ValueError, naming no value, when the environment's is no proxy."""
        text = self._secure if url.secure else self._plain
        if not text or is_loopback(url.host) or any(_covers(entry, url) for entry in self._exempt if entry):
            return None
        return parse_proxy(text)


def _either(env: Mapping[str, str], name: str) -> str | None:
    value = env.get(name, env.get(name.upper()))
    return None if value is None else value.strip()


def is_loopback(host: str) -> bool:
    """Whether the name or address means this machine, by its spelling alone."""
    return (
        host in ("localhost", "::1")
        or host.endswith(".localhost")
        or re.fullmatch(r"127(\.[0-9]{1,3}){3}", host) is not None
    )


def _covers(entry: str, url: Url) -> bool:
    """Whether one entry of `no_proxy` (`*`, name, `.suffix`, address, network, each with `:port`) covers the URL."""
    if entry == "*":
        return True
    if "/" in entry:
        return _in_network(url.host, entry)
    name, port = entry, ""
    if entry.startswith("["):
        name, _, port = entry[1:].partition("]")
        port = port.removeprefix(":")
    elif entry.count(":") == 1:
        name, _, port = entry.partition(":")
    if port and port != str(url.port):
        return False
    name = name.removeprefix("*").removeprefix(".")
    return bool(name) and (url.host == name or url.host.endswith("." + name))


def _in_network(host: str, network: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def tls_context(env: Mapping[str, str]) -> "ssl.SSLContext":
    """A context that verifies certificate and name.

    Believes `SSL_CERT_FILE` and `SSL_CERT_DIR` when the environment has them, else the system's store. A hashed
    folder is preferred: OpenSSL reads one file of it per handshake, where a bundle costs 20 ms at once. Raises
    OSError when what the environment names cannot be read.
    """
    import ssl

    file, folder = env.get("SSL_CERT_FILE") or None, env.get("SSL_CERT_DIR") or None
    if not (file or folder):
        folder = _hashed_store(ssl.get_default_verify_paths().openssl_capath)
    context = ssl.create_default_context(cafile=file, capath=folder)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _hashed_store(folder: str) -> str | None:
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    return folder if sum(re.fullmatch(_HASHED, name) is not None for name in names) >= _STORE_SIZE else None
