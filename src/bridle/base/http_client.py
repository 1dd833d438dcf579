"""An httpx2 client under our rules: proxies and certificates from the given environment, nothing from the process.

Importing this module imports httpx2, so callers go through `bridle.base.http.client`.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

import httpx2

from bridle.base.http_routes import Proxy, ProxyRules, Url

_OURS = {"cert", "mounts", "proxy", "trust_env", "verify"}
_LIMITS = httpx2.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=90)
_TIMEOUT = httpx2.Timeout(connect=10, read=60, write=60, pool=10)


class _Routed(httpx2.AsyncBaseTransport):
    """One transport per proxy, and one without, each made when first needed."""

    def __init__(self, rules: ProxyRules, tls: Callable[[], ssl.SSLContext]) -> None:
        self._rules = rules
        self._tls = tls
        self._context: ssl.SSLContext | None = None
        self._transports: dict[Proxy | None, httpx2.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            proxy = self._rules.proxy_for(_place(request.url))
        except ValueError:
            problem = "the proxy set in the environment is not an address"
            raise httpx2.ProxyError(problem, request=request) from None
        if self._context is None:
            self._context = await asyncio.to_thread(self._tls)
        if proxy not in self._transports:
            self._transports[proxy] = httpx2.AsyncHTTPTransport(
                verify=self._context, trust_env=False, limits=_LIMITS, proxy=_httpx_proxy(proxy)
            )
        return await self._transports[proxy].handle_async_request(request)

    async def aclose(self) -> None:
        for transport in self._transports.values():
            await transport.aclose()


def _place(url: httpx2.URL) -> Url:
    secure = url.scheme == "https"
    return Url(secure, url.raw_host.decode("ascii").lower(), url.port or (443 if secure else 80), "/")


def _httpx_proxy(proxy: Proxy | None) -> httpx2.Proxy | None:
    if proxy is None:
        return None
    return httpx2.Proxy(f"{proxy.scheme}://{proxy.address}", auth=proxy.credentials)


def make_client(
    rules: ProxyRules, tls: Callable[[], ssl.SSLContext], options: dict[str, Any]
) -> httpx2.AsyncClient:
    """Options may replace timeouts and transport, but not go around certificates and proxies."""
    if around := sorted(_OURS & options.keys()):
        raise TypeError(f"not an option here: {', '.join(around)}")
    settings: dict[str, Any] = {"timeout": _TIMEOUT, "transport": _Routed(rules, tls), **options}
    return httpx2.AsyncClient(trust_env=False, **settings)
