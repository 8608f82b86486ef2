"""What a collect-now asks for, resolved against the brand's plans and questions (1-dispatch §1.5)."""

from dataclasses import dataclass
from datetime import date

from domain.dispatch_settings import DispatchSettings
from domain.errors import EmptyScope, InvalidInput, NoDesktopPlan, NotFound, ScopeTooLarge
from domain.ids import shard_key
from domain.legacy import ExecutionOwner
from domain.messages import AcceptCommand
from store.database import Connection
from store.settings import PlatformLimits
from store.statements import statements

SQL = statements("accept_scope")

MAX_TASKS = 500


@dataclass(frozen=True, slots=True)
class BrandPlans:
    """The brand's active desktop plans taken together. `business_date`: today in the first plan's time zone."""

    workspace_id: int
    run_modes: tuple[str, ...]
    platforms: tuple[str, ...]
    business_date: date


@dataclass(frozen=True, slots=True)
class Facts:
    """What the transaction read first and does not change."""

    settings: DispatchSettings
    platforms: dict[str, PlatformLimits]
    plans: BrandPlans
    hash: str


@dataclass(frozen=True, slots=True)
class ResolvedScope:
    """Question and platform pairs, in the order in which everybody inserts business tasks."""

    questions: tuple[int, ...]
    pair_platforms: tuple[str, ...]
    run_modes: tuple[str, ...]

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms named, once each."""
        return tuple(sorted(set(self.pair_platforms)))

    async def create_missing(
        self, connection: Connection, command: AcceptCommand, plans: BrandPlans, path: ExecutionOwner
    ) -> list[int]:
        """Create today's missing business tasks, on this path; returns the ids of all in the scope, ascending."""
        arguments = (
            command.tenant_id,
            command.brand_id,
            plans.business_date,
            list(self.questions),
            list(self.pair_platforms),
            list(self.run_modes),
        )
        key = shard_key(command.tenant_id, command.brand_id, plans.business_date)
        await connection.execute(SQL["create_missing"], *arguments, plans.workspace_id, key, path)
        rows = await connection.fetch(SQL["find_scope_tasks"], *arguments)
        return [row["id"] for row in rows]


async def read_brand_plans(connection: Connection, command: AcceptCommand) -> BrandPlans:
    """NotFound for a brand that is missing or not the caller's, NoDesktopPlan for one without a desktop plan."""
    row = await connection.fetchrow(
        SQL["read_brand_plans"], command.tenant_id, command.brand_id, list(command.workspace_ids)
    )
    if row is None:
        raise NotFound(f"no brand {command.brand_id}")
    if not row["run_modes"]:
        raise NoDesktopPlan(f"brand {command.brand_id} has no active desktop plan; create one first")
    return BrandPlans(row["workspace_id"], tuple(row["run_modes"]), tuple(row["platforms"]), row["business_date"])


async def resolve_scope(connection: Connection, command: AcceptCommand, plans: BrandPlans) -> ResolvedScope:
    """The pairs asked for; NotFound, InvalidInput, EmptyScope or ScopeTooLarge where the scope can't be followed."""
    await _check_named(connection, command)
    rows = await connection.fetch(
        SQL["resolve_pairs"],
        command.tenant_id,
        command.brand_id,
        command.scope.keyword_id,
        None if command.scope.question_ids is None else list(command.scope.question_ids),
        list(plans.platforms if command.scope.platforms is None else command.scope.platforms),
        list(plans.run_modes),
    )
    if not rows:
        raise EmptyScope("the scope names no active question on any platform; widen it or add questions")
    if len(rows) > MAX_TASKS:
        raise ScopeTooLarge(f"the scope has over {MAX_TASKS} tasks; narrow it by keyword, questions or platforms")
    return ResolvedScope(
        tuple(row["question_id"] for row in rows),
        tuple(row["platform"] for row in rows),
        tuple(row["run_mode"] for row in rows),
    )


async def _check_named(connection: Connection, command: AcceptCommand) -> None:
    scope = command.scope
    row = await connection.fetchrow(
        SQL["check_named"],
        command.tenant_id,
        command.brand_id,
        scope.keyword_id,
        list(scope.question_ids or ()),
        list(scope.platforms or ()),
    )
    assert row is not None
    if not row["keyword_known"]:
        raise NotFound(f"no keyword {scope.keyword_id}")
    if row["unknown_questions"]:
        raise NotFound(f"no question {', '.join(map(str, row['unknown_questions'][:10]))}")
    if row["unknown_platforms"]:
        raise InvalidInput(f"unknown platform {', '.join(row['unknown_platforms'][:10])}")
