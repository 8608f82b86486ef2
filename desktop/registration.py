"""Registered desktops of this machine: each is registered once and keeps its device token (2-desktop §2.1, §2.4)."""

import asyncio
import logging
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Final

import httpx
import msgspec
import stamina

from desktop.client import http_client
from desktop.files import private_folder, write_whole
from desktop.version import package_version
from domain.errors import GivewayError, InvalidInput, Unauthorized

log = logging.getLogger(__name__)

REGISTERED: Final = "registered.json"
# So many registrations run at once; what they made is kept before the next ones begin.
AT_ONCE: Final = 8
TRIES: Final = 6
PATIENCE: Final = 60.0


class Registered(msgspec.Struct, frozen=True):
    """A client of this machine, as the server told it at its registration."""

    api_url: str
    client_id: str
    token: str
    ws_url: str
    name: str


class NotRegistered(GivewayError):
    """The server refused to register a desktop: the token, its role or the workspace."""

    code = "not_registered"


class RegistrationsUnreadable(InvalidInput):
    """The file of device tokens is broken."""

    code = "registrations_unreadable"


class _Problem(msgspec.Struct):
    """What is read of an RFC 9457 problem."""

    code: str
    detail: str


class _Answer(msgspec.Struct):
    """What is read of a registration."""

    client_id: str
    token: str
    ws_url: str


class _Busy(Exception):
    """The server asks to come again."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(f"HTTP {response.status_code}")
        self.response = response


class Registry:
    """The clients registered from one folder, for any number of servers; `registered.json` holds their tokens."""

    def __init__(self, state_dir: Path) -> None:
        self._file = state_dir / REGISTERED
        self._all = _read(self._file)

    def of(self, api_url: str) -> list[Registered]:
        """Those of one server, in the order of their registration."""
        return [client for client in self._all if client.api_url == api_url]

    def add(self, clients: Iterable[Registered]) -> None:
        """Kept whole and durable: a token is told once. Readable by this user alone."""
        self._all = [*self._all, *clients]
        private_folder(self._file.parent)
        write_whole(self._file, msgspec.json.encode(self._all))


class Registrar:
    """Registers desktops as a signed-in user. `user_token` and `workspace_id` are needed for new ones only."""

    def __init__(self, api_url: str, user_token: str | None, workspace_id: int | None) -> None:
        self._api_url = api_url
        self._token = user_token
        self._workspace_id = workspace_id

    async def complete(self, registry: Registry, count: int, stop: asyncio.Event) -> list[Registered]:
        """The first `count` desktops of this server, the missing ones registered now.

        What was registered before a refusal, or before `stop`, is kept: the next start goes on from there. Raises
        Unauthorized and NotRegistered.
        """
        missing = range(len(registry.of(self._api_url)), count)
        if missing:
            await self._register(registry, missing, stop)
        return registry.of(self._api_url)[:count]

    async def _register(self, registry: Registry, numbers: range, stop: asyncio.Event) -> None:
        if self._token is None or self._workspace_id is None:
            raise Unauthorized("give --token and --workspace: new desktops are registered by a signed-in user")
        left = iter(numbers)
        async with http_client(self._api_url) as http:
            while (batch := list(islice(left, AT_ONCE))) and not stop.is_set():
                await self._register_batch(registry, http, batch)
                log.info("registered desktop %d of %d", batch[-1] + 1, numbers.stop)

    async def _register_batch(self, registry: Registry, http: httpx.AsyncClient, batch: list[int]) -> None:
        """All of a batch come to their end, so that none is registered there and unknown here."""
        one_each = (self._register_one(http, f"desktop-{number + 1}") for number in batch)
        ended = await asyncio.gather(*one_each, return_exceptions=True)
        registry.add(one for one in ended if isinstance(one, Registered))
        for one in ended:
            if isinstance(one, BaseException):
                raise one

    async def _register_one(self, http: httpx.AsyncClient, name: str) -> Registered:
        try:
            response = await self._post(http, name)
        except _Busy as busy:
            response = busy.response
        except httpx.TransportError as error:
            raise NotRegistered(f"no answer from {self._api_url} ({type(error).__name__}); is --api right?") from error
        if response.is_error:
            raise NotRegistered(f"the server did not register {name}: {_said(response)}")
        try:
            answer = msgspec.json.decode(response.content, type=_Answer)
        except msgspec.MsgspecError as error:
            raise NotRegistered(f"{self._api_url} is no giveway API: {error}; is --api right?") from error
        return Registered(self._api_url, answer.client_id, answer.token, answer.ws_url, name)

    async def _post(self, http: httpx.AsyncClient, name: str) -> httpx.Response:
        """Waits where the server says that it is busy; no answer is not repeated, a second client would be the cost."""
        async for attempt in stamina.retry_context(on=_wait_of, attempts=TRIES, timeout=PATIENCE):
            with attempt:
                response = await http.post(
                    f"{self._api_url}/api/desktop/clients",
                    json={"workspace_id": self._workspace_id, "name": name, "version": package_version()},
                    headers={"Authorization": f"Bearer {self._token}"},
                )
                if response.status_code in (429, 503):
                    raise _Busy(response)
        return response


def _wait_of(error: Exception) -> bool | float:
    if not isinstance(error, _Busy):
        return False
    said = error.response.headers.get("retry-after", "")
    return min(float(said), PATIENCE) if said.isdigit() else True


def _said(response: httpx.Response) -> str:
    """The problem's own words; of an answer that is none, its status."""
    try:
        problem = msgspec.json.decode(response.content, type=_Problem)
    except msgspec.MsgspecError:
        return f"it answered {response.status_code}"
    return f"{problem.detail} ({response.status_code} {problem.code})"


def _read(file: Path) -> list[Registered]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=list[Registered])
    except FileNotFoundError:
        return []
    except (OSError, msgspec.MsgspecError) as error:
        raise RegistrationsUnreadable(f"{file} cannot be read ({error}): mend it, or use another --state") from error
