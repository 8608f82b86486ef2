"""The demo's REST client: what a tenant's own UI would call."""

from types import TracebackType
from typing import Any, Self

import httpx
import stamina

BASE = "/api/tenant/monitoring"


class CallFailed(Exception):
    """The API answered with a problem."""

    code = "call_failed"

    def __init__(self, call: str, response: httpx.Response) -> None:
        super().__init__(f"{call} answered {response.status_code}: {response.text[:500]}")
        self.status = response.status_code


def passes_by_itself(error: Exception) -> bool:
    """A server that restarts, or one that says 503: it asks to send the same call again."""
    return isinstance(error, httpx.TransportError) or (isinstance(error, CallFailed) and error.status == 503)


def was_not_done(error: Exception) -> bool:
    """Nothing was sent, or the server says that nothing was done."""
    return isinstance(error, httpx.ConnectError) or (isinstance(error, CallFailed) and error.status == 503)


class TenantApi:
    """A signed-in user of one tenant."""

    def __init__(self, api_url: str, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self._http = httpx.AsyncClient(base_url=api_url, headers=headers, timeout=30, trust_env=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    @stamina.retry(on=passes_by_itself, attempts=40, timeout=90, wait_initial=0.1, wait_max=2)
    async def get(self, path: str, **query: Any) -> Any:
        """GET below `/api/tenant/monitoring`; a server that restarts meanwhile is waited for."""
        response = await self._http.get(BASE + path, params=query)
        return self._body(f"GET {path}", response)

    @stamina.retry(on=was_not_done, attempts=40, timeout=90, wait_initial=0.1, wait_max=2)
    async def post(self, path: str, body: Any = None, *, base: str = BASE) -> Any:
        """POST below `/api/tenant/monitoring`, or below `base`; again only where nothing was done."""
        response = await self._http.post(base + path, json=body)
        return self._body(f"POST {path}", response)

    @stamina.retry(on=passes_by_itself, attempts=40, timeout=90, wait_initial=0.1, wait_max=2)
    async def click(self, brand_id: int, body: Any) -> Any:
        """Collect now: the same click again is the same request, so it may always be repeated."""
        response = await self._http.post(f"{BASE}/brands/{brand_id}/collect-now", json=body)
        return self._body("POST collect-now", response)

    @staticmethod
    def _body(call: str, response: httpx.Response) -> Any:
        if response.is_error:
            raise CallFailed(call, response)
        return response.json() if response.content else None
