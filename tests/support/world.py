"""Builds test data directly by SQL: one tenant with a workspace and a brand, and whatever a test adds to it."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from itertools import count
from typing import Any, Self
from uuid import UUID

from domain.ids import new_uuid, shard_key
from domain.lanes import Lane, default_priority
from store.database import Pool

_numbers = count(1)

BUSINESS_DATE = date(2026, 4, 20)


@dataclass(frozen=True, slots=True)
class Desktop:
    """A registered client with its device token in the clear."""

    id: UUID
    token: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its current version."""

    id: int
    version_id: int
    text: str


@dataclass(frozen=True, slots=True)
class Lease:
    """An execution task with the lease token in the clear, as the desktop has it."""

    task_id: UUID
    business_id: int
    attempt_id: UUID
    token: str


def digest(token: str) -> bytes:
    """What the database keeps of a token."""
    return sha256(token.encode()).digest()


@dataclass(slots=True)
class World:
    """One tenant's data. Every method inserts and returns ids; `set`, `execution` and `business` look and poke."""

    pool: Pool
    tenant_id: int
    workspace_id: int
    brand_id: int

    @classmethod
    async def create(cls, pool: Pool, name: str = "Acme") -> Self:
        """A tenant with a workspace and a brand."""
        tenant = await pool.fetchval("insert into tenants (name) values ($1) returning id", name)
        workspace = await pool.fetchval(
            "insert into workspaces (tenant_id, name) values ($1, 'main') returning id", tenant
        )
        brand = await pool.fetchval(
            "insert into brands (tenant_id, workspace_id, name) values ($1, $2, $3) returning id",
            tenant, workspace, name,
        )  # fmt: skip
        return cls(pool, tenant, workspace, brand)

    async def client(self, *, online: bool = True, max_concurrent: int | None = None, user_id: int = 1) -> Desktop:
        """A desktop; an online one has epoch 1 and a heartbeat now."""
        desktop = Desktop(new_uuid(), f"device-token-{next(_numbers):010d}")
        await self.pool.execute(
            "insert into desktop_clients (id, tenant_id, workspace_id, user_id, name, token_hash, online,"
            " connection_epoch, last_heartbeat_at, max_concurrent)"
            " values ($1, $2, $3, $4, $5, $6, $7::boolean, $7::boolean::int, case when $7::boolean then now() end, $8)",
            desktop.id, self.tenant_id, self.workspace_id, user_id, f"desktop {desktop.id}", digest(desktop.token),
            online, max_concurrent,
        )  # fmt: skip
        return desktop

    async def question(self, text: str | None = None) -> Question:
        """An active question with its first version."""
        text = text or f"Which brand is best? ({next(_numbers)})"
        question = await self.pool.fetchval(
            "insert into questions (tenant_id, brand_id, text) values ($1, $2, $3) returning id",
            self.tenant_id, self.brand_id, text,
        )  # fmt: skip
        version = await self.pool.fetchval(
            "insert into question_versions (tenant_id, question_id, text, text_hash) values ($1, $2, $3, $4)"
            " returning id",
            self.tenant_id, question, text, sha256(text.encode()).hexdigest(),
        )  # fmt: skip
        await self.pool.execute("update questions set current_version_id = $2 where id = $1", question, version)
        return Question(question, version, text)

    async def plan(self, *, platforms: tuple[str, ...] = ("qwen",), next_run_at: datetime | None = None) -> int:
        """An active daily desktop plan over every question of the brand."""
        plan: int = await self.pool.fetchval(
            "insert into monitoring_plans (tenant_id, workspace_id, brand_id, name, cadence, platforms, next_run_at)"
            " values ($1, $2, $3, 'daily', '0 6 * * *', $4, $5) returning id",
            self.tenant_id, self.workspace_id, self.brand_id, list(platforms), next_run_at,
        )  # fmt: skip
        return plan

    async def batch(self, *, expected: int = 10, status: str = "running") -> int:
        """A scheduled batch of a plan of its own."""
        slot = f"slot-{next(_numbers)}"
        batch: int = await self.pool.fetchval(
            "insert into scheduled_batches (tenant_id, brand_id, plan_id, business_date, slot, run_mode,"
            " collector_type, workflow_id, status, scheduled_for, cut_off_at, expected_count)"
            " values ($1, $2, $3, $4, $5, 'api_standard', 'desktop', $6, $7, now(), now() + interval '6 hours', $8)"
            " returning id",
            self.tenant_id, self.brand_id, await self.plan(), BUSINESS_DATE, slot,
            f"batch/{self.tenant_id}/{self.brand_id}/{BUSINESS_DATE}/{slot}", status, expected,
        )  # fmt: skip
        return batch

    async def request(
        self, *, client_id: UUID | None = None, generation: int = 1, tasks: int = 1, status: str = "accepted"
    ) -> UUID:
        """A collect-now request; raises the tenant's generation to its own."""
        request = new_uuid()
        await self.pool.execute(
            "insert into monitoring_collect_requests (id, tenant_id, workspace_id, brand_id, requested_by_user_id,"
            " target_client_id, scope_hash, request_scope, business_date, status, requested_task_count,"
            " interrupt_generation, ttl_expires_at, hard_deadline) values ($1, $2, $3, $4, 1, $5, $6, '{}', $7, $8, $9,"
            " $10, now() + interval '5 minutes', now() + interval '30 minutes')",
            request, self.tenant_id, self.workspace_id, self.brand_id, client_id, request.hex, BUSINESS_DATE, status,
            tasks, generation,
        )  # fmt: skip
        await self.pool.execute(
            "update tenants set interrupt_generation = greatest(interrupt_generation, $2) where id = $1",
            self.tenant_id, generation,
        )  # fmt: skip
        return request

    async def business_task(
        self,
        *,
        platform: str = "qwen",
        lane: Lane = Lane.NORMAL,
        batch_id: int | None = None,
        request_id: UUID | None = None,
        client_id: UUID | None = None,
        question: Question | None = None,
        owner: str = "desktop_tasks",
    ) -> int:
        """A pending business task, of a question of its own unless one is given."""
        question = question or await self.question()
        task: int = await self.pool.fetchval(
            "insert into monitoring_collect_tasks (tenant_id, workspace_id, brand_id, question_id,"
            " question_version_id, ai_platform_id, collector_type, run_mode, business_date, trigger_source,"
            " dispatch_lane, dispatch_priority, batch_id, collect_request_id, target_client_id, ingest_shard_key,"
            " execution_owner)"
            " values ($1, $2, $3, $4, $5, $6, 'desktop', 'api_standard', $7, $8, $9, $10, $11, $12, $13, $14, $15)"
            " returning id",
            self.tenant_id, self.workspace_id, self.brand_id, question.id, question.version_id, platform, BUSINESS_DATE,
            "manual" if request_id else "automatic", lane.value, default_priority(lane), batch_id, request_id,
            client_id, shard_key(self.tenant_id, self.brand_id, BUSINESS_DATE), owner,
        )  # fmt: skip
        return task

    async def execution_task(self, business_id: int, client_id: UUID, *, source: str = "daily_schedule") -> UUID:
        """A queued execution task without a lease, active for its business task, with that one's lane."""
        task = new_uuid()
        await self.pool.execute(
            "insert into desktop_tasks (id, tenant_id, monitor_task_id, target_client_id, ai_platform_id, priority,"
            " lane, source, scheduler_group_key, enqueued_at) select $1, tenant_id, id, $3, ai_platform_id,"
            " dispatch_priority, dispatch_lane, $4, 'qid:' || question_id, enqueued_at"
            " from monitoring_collect_tasks where id = $2",
            task, business_id, client_id, source,
        )  # fmt: skip
        await self.pool.execute(
            "update monitoring_collect_tasks set active_task_id = $2 where id = $1", business_id, task
        )
        return task

    async def leased(
        self,
        client: Desktop,
        *,
        status: str = "queued",
        platform: str = "qwen",
        lane: Lane = Lane.NORMAL,
        batch_id: int | None = None,
        request_id: UUID | None = None,
    ) -> Lease:
        """A new business task with a leased execution task (queued, or in_progress: started now) on the client."""
        business = await self.business_task(
            platform=platform,
            lane=lane,
            batch_id=batch_id,
            request_id=request_id,
            client_id=client.id if request_id else None,
        )
        task = await self.execution_task(business, client.id, source="collect_now" if request_id else "daily_schedule")
        lease = Lease(task, business, new_uuid(), f"lease-token-{next(_numbers):012d}")
        await self.pool.execute(
            "update desktop_tasks set attempt = 1, attempt_id = $2, lease_token_hash = $3, pushed_at = now(),"
            " status = $4, lease_expires_at = now() + interval '120 seconds', started_at ="
            " case when $4 <> 'queued' then now() end, phase = case when $4 <> 'queued' then 'PREPARING' end"
            " where id = $1",
            task, lease.attempt_id, digest(lease.token), status,
        )  # fmt: skip
        await self.pool.execute(
            "insert into desktop_task_attempts (id, tenant_id, task_id, monitor_task_id, client_id, attempt,"
            " token_hash, started_at) values ($1, $2, $3, $4, $5, 1, $6, case when $7 <> 'queued' then now() end)",
            lease.attempt_id, self.tenant_id, task, business, client.id, digest(lease.token), status,
        )  # fmt: skip
        return lease

    async def interrupt(self, task_id: UUID, request_id: UUID, generation: int) -> None:
        """What accept writes on a victim."""
        await self.pool.execute(
            "update desktop_tasks set interrupt_generation = $3, interrupt_reason = 'collect_now_preempt',"
            " interrupt_request_id = $2, interrupted_at = now(), control_flags = $4 where id = $1",
            task_id, request_id, generation, {"interrupt_requested": True, "interrupt_generation": generation},
        )  # fmt: skip
        await self.pool.execute(
            "update monitoring_collect_requests set interrupt_requested_count = interrupt_requested_count + 1"
            " where id = $1",
            request_id,
        )  # fmt: skip

    async def setting(self, key: str, value: Any) -> None:
        """A hot dispatch setting."""
        await self.pool.execute(
            "insert into dispatch_settings (key, value) values ($1, $2)"
            " on conflict (key) do update set value = excluded.value, version = dispatch_settings.version + 1",
            key, value,
        )  # fmt: skip

    async def platform_limit(self, platform: str, limit: int | None) -> None:
        """The platform's own concurrency limit; None: the general one."""
        await self.pool.execute(
            "insert into platform_settings (platform_id, max_concurrent) values ($1, $2)"
            " on conflict (platform_id) do update set max_concurrent = excluded.max_concurrent",
            platform, limit,
        )  # fmt: skip

    async def set(self, table: str, row_id: int | UUID, **columns: Any) -> None:
        """Overwrite columns of one row, to put it into a state that would take long to reach."""
        names = ", ".join(f"{name} = ${index}" for index, name in enumerate(columns, start=2))
        await self.pool.execute(f"update {table} set {names} where id = $1", row_id, *columns.values())

    async def row(self, table: str, row_id: int | UUID) -> dict[str, Any]:
        """One row as a dict; KeyError if it is not there."""
        found = await self.pool.fetchrow(f"select * from {table} where id = $1", row_id)
        if found is None:
            raise KeyError((table, row_id))
        return dict(found)

    async def execution(self, task_id: UUID) -> dict[str, Any]:
        """The execution task's row."""
        return await self.row("desktop_tasks", task_id)

    async def business(self, task_id: int) -> dict[str, Any]:
        """The business task's row."""
        return await self.row("monitoring_collect_tasks", task_id)

    async def attempt(self, attempt_id: UUID) -> dict[str, Any]:
        """The attempt's row."""
        return await self.row("desktop_task_attempts", attempt_id)

    async def outbox(self, kind: str) -> list[dict[str, Any]]:
        """Effects of one kind, in order."""
        rows = await self.pool.fetch("select * from outbox where kind = $1 order by id", kind)
        return [dict(row) for row in rows]


def ago(**parts: float) -> datetime:
    """A moment in the past, for columns that a test ages."""
    return datetime.now(UTC) - timedelta(**parts)
