"""Clicks, rounds and desktop work as tests need them, through the real store: no hub, no broker, no Temporal."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

from activities.coordinator import Coordinator
from domain.dispatch_settings import PreemptPolicy
from domain.hub_port import ClientIdentity
from domain.ids import new_uuid, shard_key
from domain.lanes import Lane
from domain.messages import AcceptCommand, AcceptOutcome, AcceptResult, CollectNowAnswer
from domain.protocol import TaskAvailable
from domain.scope import canonical_scope
from store import leases, residents
from store.accept import accept_collect_now
from store.audit import Integrity, check_integrity
from store.database import Pool, transaction
from store.hub_backend import StoreHubBackend
from store.listen import Listener
from store.settlement import Ending, settle
from store.snapshots import mark_pushed
from tests.support.granting import grant
from tests.support.world import Desktop, Question, World

WHOLE = Integrity(lost=0, duplicated=0, miscounted=0, overhanging=0)


def command(world: World, **more: Any) -> AcceptCommand:
    """A click of user 1 on the world's brand; scope parts by name, the other fields as they are called."""
    scope = {name: more.pop(name, None) for name in ("keyword_id", "question_ids", "platforms")}
    fields = {
        "request_id": new_uuid(),
        "tenant_id": world.tenant_id,
        "workspace_ids": (world.workspace_id,),
        "user_id": 1,
        "brand_id": world.brand_id,
        "scope": canonical_scope(**scope),
        "deadline": datetime.now(UTC) + timedelta(seconds=5),
    }
    return AcceptCommand(**{**fields, **more})


async def click(world: World, **more: Any) -> AcceptResult:
    """Run the accept, whatever it says."""
    return await accept_collect_now(world.pool, command(world, **more))


async def accepted(world: World, **more: Any) -> CollectNowAnswer:
    """Run the accept, which must be a new request."""
    result = await click(world, **more)
    assert result.outcome is AcceptOutcome.ACCEPTED, result
    assert result.answer is not None
    return result.answer


async def today(world: World) -> date:
    """The business date a click has: today where the plans' time zone is."""
    found: date = await world.pool.fetchval("select (now() at time zone 'Asia/Shanghai')::date")
    return found


async def task_of_today(world: World, **more: Any) -> int:
    """A business task that a click would find."""
    task = await world.business_task(**more)
    day = await today(world)
    key = shard_key(world.tenant_id, world.brand_id, day)
    await world.set("monitoring_collect_tasks", task, business_date=day, ingest_shard_key=key)
    return task


async def scheduled(
    world: World, client: Desktop, *, status: str = "in_progress", question: Question | None = None, **more: Any
) -> UUID:
    """A scheduled task of today on the client: queued, or in_progress with a lease. Returns the execution task."""
    business = await task_of_today(world, question=question, **more)
    task = await world.execution_task(business, client.id)
    if status == "in_progress":
        await world.set("desktop_tasks", task, status=status, started_at=datetime.now(UTC), phase="NAVIGATING")
    return task


async def rounds(pool: Pool, name: str = "resident/coordinator/0") -> int:
    """Coordinate until nothing more is dispatched; returns how many were."""
    epoch = await residents.take(pool, name, "test")
    coordinator, total = Coordinator(pool, Listener("unused")), 0
    await coordinator.bind(name, epoch)
    while (await coordinator.round(name, epoch))[0]:
        total += 1
    return total


@dataclass(slots=True)
class Hands:
    """One desktop's side of the work."""

    world: World
    desktop: Desktop

    @property
    def identity(self) -> ClientIdentity:
        return ClientIdentity(self.desktop.id, self.world.tenant_id)

    async def take(self) -> list[TaskAvailable]:
        """Lease and push everything that waits here."""
        rows = await self.world.pool.fetch(
            "select id from desktop_tasks where target_client_id = $1 and status = 'queued' and kind = 'monitor'",
            self.desktop.id,
        )
        epoch = (await self.world.row("desktop_clients", self.desktop.id))["connection_epoch"]
        hub = StoreHubBackend(self.world.pool)
        frames = await grant(hub, self.identity, epoch, [row["id"] for row in rows])
        await mark_pushed(self.world.pool, [UUID(frame.task_id) for frame in frames])
        return frames

    async def start(self, frame: TaskAvailable) -> None:
        """Begin a leased task."""
        await leases.start(self.world.pool, self.lease(frame))

    def lease(self, frame: TaskAvailable) -> leases.LeaseRef:
        """The frame's lease."""
        return leases.LeaseRef(self.identity, UUID(frame.task_id), frame.lease_token)

    async def run(self, frame: TaskAvailable, *, succeeded: bool = True) -> None:
        """Start and finish a leased task; a success leaves its run behind."""
        await self.start(frame)
        await finish(self.world, frame.attempt_id, succeeded=succeeded)


async def finish(world: World, attempt: UUID | str, *, succeeded: bool = True) -> None:
    """Settle an attempt as ingest does, with the run of a success in the same transaction."""
    attempt_id = UUID(str(attempt))
    async with transaction(world.pool) as connection:
        await settle(connection, [Ending(attempt_id, succeeded)])
        if succeeded:
            await connection.execute(
                "insert into question_monitor_runs (tenant_id, brand_id, question_id, question_version_id,"
                " ai_platform_id, collector_type, run_mode, business_date, status, attempt_id)"
                " select t.tenant_id, brand_id, question_id, t.question_version_id, ai_platform_id, collector_type,"
                " run_mode, business_date, 'succeeded', a.id from monitoring_collect_tasks t"
                " join desktop_task_attempts a on a.monitor_task_id = t.id where a.id = $1"
                " on conflict on constraint uk_monitor_run_idempotent do update set attempt_id = excluded.attempt_id,"
                " status = 'succeeded'",
                attempt_id,
            )


async def whole(world: World) -> bool:
    """Nothing lost, doubled, miscounted or left over."""
    found = await check_integrity(world.pool, world.tenant_id)
    assert found == WHOLE, found
    return True


async def lanes_of(world: World, request_id: UUID | None = None) -> dict[str, int]:
    """How many pending tasks each lane holds (of the request, or of all)."""
    rows = await world.pool.fetch(
        "select dispatch_lane, count(*) as n from monitoring_collect_tasks where tenant_id = $1 and status = 'pending'"
        " and ($2::uuid is null or collect_request_id = $2) group by 1",
        world.tenant_id, request_id,
    )  # fmt: skip
    return {str(Lane(row["dispatch_lane"])): row["n"] for row in rows}


async def policy_needed(world: World) -> None:
    """Interrupt no more than the high tasks lack."""
    await world.setting("preempt_policy", PreemptPolicy.NEEDED.value)
