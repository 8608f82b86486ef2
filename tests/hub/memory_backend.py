"""The hub's port in memory, with switches for its troubles."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import msgspec

from domain.hub_port import (
    ClientIdentity,
    ConnectionEnd,
    GrantAnswer,
    GrantRequest,
    HeartbeatRecord,
    SnapshotContent,
)
from domain.protocol import Control, HeldAttempt, HeldTask, Hello, ProxyRequest, TaskAvailable, TaskControl
from domain.proxying import PROXY_UNSUPPORTED, AnswerOutcome, ProxyAnswer


@dataclass
class MemoryTask:
    """A queued task; leased once it has an attempt."""

    client_id: UUID
    question: str = "Which brands make good tea?"
    attempt_id: UUID | None = None
    attempt: int = 0


@dataclass
class MemoryCall:
    """An HTTP call that waits for its client's answer."""

    client_id: UUID
    request: ProxyRequest
    over: bool = False
    answer: ProxyAnswer | None = None


@dataclass
class MemoryBackend:
    """State, calls, and troubles.

    `failure` is raised by every call, `gate` holds grants and answers back while it is clear, and `lost_grants` is how
    many grants still commit and then report a timeout.
    """

    clients: dict[str, ClientIdentity] = field(default_factory=dict)
    epochs: dict[UUID, int] = field(default_factory=dict)
    online: set[UUID] = field(default_factory=set)
    tasks: dict[UUID, MemoryTask] = field(default_factory=dict)
    # Legacy tasks on offer, by number, as frames.
    offers: dict[int, TaskAvailable] = field(default_factory=dict)
    controls: dict[UUID, list[TaskControl]] = field(default_factory=dict)
    calls: dict[UUID, MemoryCall] = field(default_factory=dict)
    ended: set[UUID] = field(default_factory=set)
    failure: Exception | None = None
    lost_grants: int = 0
    poison: UUID | None = None
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    # How many more grants find the client held by somebody else.
    busy: dict[UUID, int] = field(default_factory=dict)
    grants: list[list[UUID]] = field(default_factory=list)
    snapshots: list[tuple[UUID, list[HeldAttempt]]] = field(default_factory=list)
    reported: list[UUID] = field(default_factory=list)
    beats: list[list[HeartbeatRecord]] = field(default_factory=list)
    ends: list[list[ConnectionEnd]] = field(default_factory=list)
    # Authentications: held back while it is clear, how many there were, are, and were at most at once.
    door: asyncio.Event = field(default_factory=asyncio.Event)
    authentications: int = 0
    authenticating: int = 0
    most_authenticating: int = 0
    # HTTP calls that were asked for in one step, at most.
    asked_at_once: int = 0

    def __post_init__(self) -> None:
        self.gate.set()
        self.door.set()

    def register(self) -> tuple[str, ClientIdentity]:
        """A client with a device token."""
        token, client = f"secret-{uuid4().hex}", ClientIdentity(uuid4(), 1)
        self.clients[token] = client
        return token, client

    def queue(self, client: ClientIdentity, question: str = "Which brands make good tea?") -> UUID:
        """A task that waits for its lease."""
        task_id = uuid4()
        self.tasks[task_id] = MemoryTask(client.client_id, question)
        return task_id

    def _check(self) -> None:
        if self.failure is not None:
            raise self.failure

    async def authenticate(self, token: str) -> ClientIdentity | None:
        self.authenticating += 1
        self.authentications += 1
        self.most_authenticating = max(self.most_authenticating, self.authenticating)
        try:
            await self.door.wait()
            self._check()
            return self.clients.get(token)
        finally:
            self.authenticating -= 1

    async def connected(self, client: ClientIdentity, hello: Hello) -> int:
        self._check()
        self.epochs[client.client_id] = self.epochs.get(client.client_id, 0) + 1
        self.online.add(client.client_id)
        return self.epochs[client.client_id]

    async def snapshot(
        self, client: ClientIdentity, epoch: int, held: Sequence[HeldAttempt], highest_generation: int
    ) -> SnapshotContent:
        self._check()
        self.snapshots.append((client.client_id, list(held)))
        named = {item.task_id: item.attempt_id for item in held}
        waiting = [
            task_id for task_id, task in self.tasks.items()
            if task.client_id == client.client_id and str(task_id) not in named
        ]  # fmt: skip
        return SnapshotContent(
            generation=highest_generation,
            available=[self._lease(task_id) for task_id in waiting],
            controls=list(self.controls.get(client.client_id, [])),
            held=[self._verdict(item) for item in held],
            proxies=self._open_calls(client, epoch),
        )

    def _verdict(self, item: HeldAttempt) -> HeldTask:
        task = next((task for task in self.tasks.values() if str(task.attempt_id) == item.attempt_id), None)
        return HeldTask(task_id=item.task_id, attempt_id=item.attempt_id, valid=task is not None)

    async def grant(self, requests: Sequence[GrantRequest]) -> list[GrantAnswer]:
        await self.gate.wait()
        self._check()
        self.grants.append([each for request in requests for each in request.task_ids if isinstance(each, UUID)])
        answers = [self._answer(request) for request in requests]
        if self.lost_grants:
            self.lost_grants -= 1
            raise TimeoutError("the commit's answer did not come")
        return answers

    def _answer(self, request: GrantRequest) -> GrantAnswer:
        client_id = request.client.client_id
        if self.epochs[client_id] != request.epoch:
            return GrantAnswer([])
        if self.busy.get(client_id):
            self.busy[client_id] -= 1
            return GrantAnswer([], request.task_ids)
        waiting = [each for each in request.task_ids if isinstance(each, UUID) and self._is_free(each, client_id)]
        offered = [self.offers[each] for each in request.task_ids if isinstance(each, int) and each in self.offers]
        return GrantAnswer([self._lease(task_id) for task_id in waiting] + offered)

    def _is_free(self, task_id: UUID, client_id: UUID) -> bool:
        task = self.tasks.get(task_id)
        return task is not None and task.attempt_id is None and task.client_id == client_id

    def revoke(self, task_id: UUID) -> None:
        """The server ends the task's lease."""
        task = self.tasks.pop(task_id)
        assert task.attempt_id is not None
        self.ended.add(task.attempt_id)

    def _lease(self, task_id: UUID) -> TaskAvailable:
        task = self.tasks[task_id]
        self.ended |= {task.attempt_id} - {None}
        task.attempt_id, task.attempt = uuid4(), task.attempt + 1
        now = datetime.now(UTC)
        return TaskAvailable(
            id=str(uuid4()), kind="monitor", task_id=str(task_id), target_client_id=str(task.client_id), priority=5000,
            lane="high", lane_weight=70, status="queued", scheduler_group_key=None, business_date="2026-04-20",
            interrupt_generation=0, updated_at=now, enqueued_at=now, source="collect_now", owner="desktop_tasks",
            attempt=task.attempt, attempt_id=str(task.attempt_id), lease_token=uuid4().hex,
            lease_expires_at=now + timedelta(seconds=120), platform="openai", question=task.question,
        )  # fmt: skip

    async def pushed(self, task_ids: Sequence[UUID]) -> None:
        self._check()
        self.reported += task_ids

    async def heartbeats(self, beats: Sequence[HeartbeatRecord]) -> Mapping[UUID, frozenset[UUID]]:
        self._check()
        if any(beat.client_id == self.poison for beat in beats):
            raise LookupError("a row that breaks the statement")
        self.beats.append(list(beats))
        listed = {beat.client_id: [*beat.heartbeat.running, *beat.heartbeat.queued] for beat in beats}
        over = {
            client: frozenset(UUID(item.attempt_id) for item in held) & self.ended for client, held in listed.items()
        }
        return {client: attempts for client, attempts in over.items() if attempts}

    async def disconnected(self, ends: Sequence[ConnectionEnd]) -> None:
        self._check()
        self.ends.append(list(ends))
        for end in ends:
            if self.epochs.get(end.client_id) == end.epoch:
                self.online.discard(end.client_id)

    def open_call(self, client: ClientIdentity) -> UUID:
        """An HTTP call for a page of the client."""
        call_id = uuid4()
        self.calls[call_id] = MemoryCall(client.client_id, a_request(call_id))
        return call_id

    def _open_calls(self, client: ClientIdentity, epoch: int) -> list[ProxyRequest]:
        if self.epochs.get(client.client_id) != epoch:
            return []
        return [
            call.request for call in self.calls.values()
            if call.client_id == client.client_id and call.answer is None and not call.over
        ]  # fmt: skip

    async def proxy_requests(
        self, client: ClientIdentity, epoch: int, call_ids: Sequence[UUID]
    ) -> Sequence[ProxyRequest]:
        self._check()
        self.asked_at_once = max(self.asked_at_once, len(call_ids))
        return [request for request in self._open_calls(client, epoch) if UUID(request.id) in call_ids]

    async def refuse_proxies(self, client: ClientIdentity, epoch: int, call_ids: Sequence[UUID]) -> None:
        for request in await self.proxy_requests(client, epoch, call_ids):
            self.calls[UUID(request.id)].answer = ProxyAnswer(error=PROXY_UNSUPPORTED)

    async def answer_proxy(self, client: ClientIdentity, call_id: UUID, answer: ProxyAnswer) -> AnswerOutcome:
        await self.gate.wait()
        self._check()
        call = self.calls.get(call_id)
        if call is None or call.client_id != client.client_id:
            return AnswerOutcome.UNKNOWN
        if call.answer is not None:
            return AnswerOutcome.REPEATED
        if call.over:
            return AnswerOutcome.LATE
        call.answer = answer
        return AnswerOutcome.TAKEN


def a_request(call_id: UUID, **changes: object) -> ProxyRequest:
    """A call that a page could make."""
    request = ProxyRequest(
        id=str(call_id), task_id="t1", platform="openai", method="POST", url="/backend-api/conversation", body="{}"
    )
    return msgspec.structs.replace(request, **changes)


def an_interrupt(client: ClientIdentity, task_id: UUID, generation: int) -> TaskControl:
    """An order to stop."""
    return TaskControl(
        id=str(uuid4()), kind="monitor", task_id=str(task_id), target_client_id=str(client.client_id),
        control=Control.INTERRUPT_REQUESTED, reason="collect_now_preempt", interrupt_generation=generation,
        replacement_task_id=None, updated_at=datetime.now(UTC),
    )  # fmt: skip
