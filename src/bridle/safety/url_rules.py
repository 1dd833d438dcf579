"""Rules about addresses of the web, and where `web_fetch` may go by them. Pure: no name is looked up here.

A pattern is written like an address: `https://example.com:8443/*`. Its host is one of `base.hosts`, its path takes
stars, and what it does not say is what goes without saying: the port of the scheme, every path.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from urllib.parse import unquote

import msgspec

from bridle.base.net.addresses import NOT_AN_ADDRESS, url_problem
from bridle.base.net.hosts import WEB_PORTS, HostRule, host_rule, rule_for
from bridle.base.net.http_routes import Url
from bridle.base.net.web import parse_web_url

_PATTERN = re.compile(r"(https?)://([^/]+)(/.*)?", re.IGNORECASE)


class UrlPattern(msgspec.Struct, frozen=True):
    secure: bool
    host: HostRule
    path: str


def url_pattern(text: str) -> UrlPattern:
    """Raises ValueError."""
    parts = _PATTERN.fullmatch(text)
    if parts is None:
        raise ValueError("not an address like https://example.com:8443/*")
    secure = parts[1].lower() == "https"
    host = host_rule(parts[2])
    port = host.port or (443 if secure else 80)
    return UrlPattern(secure, HostRule(host.name, below=host.below, port=port), parts[3] or "/*")


def url_matches_exactly(pattern: str, url: str) -> bool:
    """Whether a rule that allows is about this address: scheme, host, port and path."""
    found = _parsed(url)
    if found is None:
        return False
    wanted = url_pattern(pattern)
    return (
        found.secure == wanted.secure
        and wanted.host.covers(found.host, found.port)
        and fnmatchcase(found.target, wanted.path)
    )


def url_matches_generously(pattern: str, url: str) -> bool:
    """Whether a rule that does not allow is about this address: any scheme and port, the path as servers read it."""
    found = _parsed(url)
    if found is None:
        return True
    wanted = url_pattern(pattern)
    return wanted.host.covers(found.host, wanted.host.port) and any(
        fnmatchcase(target, wanted.path) for target in (found.target, unquote(found.target))
    )


def fetch_problem(url: str, *, allowed: Sequence[str] = (), hosts: Sequence[str] | None = None) -> str | None:
    """Why this address must not be fetched, in a few words; None when nothing speaks against it.

    Ports other than those of the web need a pattern of the person's own in `allowed`. `hosts` are the only ones to be
    reached where the network of commands is filtered: what they must not reach, nobody reaches for them.
    """
    if (problem := url_problem(url)) is not None:
        return problem
    found = _parsed(url)
    if found is None:
        return NOT_AN_ADDRESS
    if hosts is not None:
        if any(host_rule(text).covers(found.host, found.port) for text in hosts):
            return None
        rule = rule_for(found.host, found.port)
        return f"a host that sandbox.hosts does not name (--allow-host {rule})"
    if found.port in WEB_PORTS or any(url_matches_exactly(pattern, url) for pattern in allowed):
        return None
    return f"port {found.port} without a rule for it (--allow 'web_fetch({found.origin}/*)')"


def _parsed(url: str) -> Url | None:
    try:
        return parse_web_url(url)
    except ValueError:
        return None
