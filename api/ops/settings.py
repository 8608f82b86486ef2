"""Hot settings, and the limits of a platform: in force in every process at the commit (1-dispatch §1.3)."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, Field

from api.access import Ops
from api.fields import Body, Flag
from api.ops.versions import VERSIONED, Expected, actor_of, show_version
from api.state import State
from store import ops_settings
from store.database import transaction
from store.ops_settings import PlatformChange
from store.settings import write_dispatch_setting

router = APIRouter()

# A setting's value: a number, a name, or names.
Value = int | float | str | list[Annotated[str, Field(max_length=50)]]
KeyPath = Annotated[str, Path(pattern="^[a-z_]{1,50}$")]
PlatformPath = Annotated[str, Path(pattern="^[a-z0-9][a-z0-9_-]{0,49}$")]
Milliseconds = Annotated[int, Field(strict=True, ge=1, le=3_600_000)]


class Setting(BaseModel):
    """One hot setting as it is in force. `fuse`: its ceiling; `version` 0: never set, the default is in force."""

    key: str
    value: Any
    default: Any
    fuse: float | None
    version: int
    updated_by: str | None
    updated_at: datetime | None


class Fuse(BaseModel):
    """A hard ceiling of the installation; `giveway settings fuse` changes it, this API does not."""

    key: str
    value: float
    default: float
    updated_by: str | None
    updated_at: datetime | None


class Settings(BaseModel):
    """All of them; `version` is theirs together."""

    version: int
    settings: list[Setting]
    fuses: list[Fuse]


class SettingsChange(Body):
    """Some settings by key; they are all set, or none."""

    values: Annotated[dict[str, Value], Field(min_length=1, max_length=50)]


class SettingChange(Body):
    """One setting's value."""

    value: Value


class PlatformPut(Body):
    """A platform's own limits, all of them; null: the general setting."""

    max_concurrent: Annotated[int, Field(strict=True, ge=0, le=1000)] | None
    interrupt_soft_timeout_ms: Milliseconds | None
    interrupt_hard_timeout_ms: Milliseconds | None
    paused: Flag


class Platform(BaseModel):
    """A platform with its limits; null: the general setting. A pinned timeout is left alone by the weekly retuning."""

    id: str
    name: str
    enabled: bool
    max_concurrent: int | None
    interrupt_soft_timeout_ms: int | None
    interrupt_hard_timeout_ms: int | None
    timeouts_pinned: bool
    paused: bool
    version: int
    updated_at: datetime | None


class Platforms(BaseModel):
    """Every platform."""

    items: list[Platform]


@router.get("/settings", responses=VERSIONED)
async def read_settings(state: State, _principal: Ops, response: Response) -> Settings:
    """Every hot setting, and the fuses that bound them."""
    async with state.pool.acquire() as connection:
        return await _settings(connection, response)


async def _settings(connection: Any, response: Response) -> Settings:
    settings = await ops_settings.list_settings(connection)
    version = ops_settings.collection_version(settings)
    show_version(response, version)
    return Settings(
        version=version,
        settings=[Setting.model_validate(each, from_attributes=True) for each in settings],
        fuses=[Fuse.model_validate(each, from_attributes=True) for each in await ops_settings.list_fuses(connection)],
    )


@router.put("/settings", responses=VERSIONED)
async def change_settings(
    state: State, principal: Ops, expected: Expected, body: SettingsChange, response: Response
) -> Settings:
    """Set several at once. 412 when somebody changed any of them since; 422 `over_fuse` names the fuse."""
    async with transaction(state.pool) as connection:
        await ops_settings.write_settings(connection, body.values, actor=actor_of(principal), expected=expected)
        return await _settings(connection, response)


@router.get("/settings/{key}", responses=VERSIONED)
async def read_setting(state: State, _principal: Ops, key: KeyPath, response: Response) -> Setting:
    """One hot setting."""
    async with state.pool.acquire() as connection:
        return _shown(await ops_settings.read_setting(connection, key), response)


def _shown(setting: ops_settings.Setting, response: Response) -> Setting:
    show_version(response, setting.version)
    return Setting.model_validate(setting, from_attributes=True)


@router.put("/settings/{key}", responses=VERSIONED)
async def change_setting(
    state: State, principal: Ops, key: KeyPath, expected: Expected, body: SettingChange, response: Response
) -> Setting:
    """Set one. 412 when somebody changed it since; 422 `over_fuse` names the fuse."""
    async with transaction(state.pool) as connection:
        await ops_settings.read_setting(connection, key)
        await write_dispatch_setting(connection, key, body.value, actor=actor_of(principal), expected=expected)
        return _shown(await ops_settings.read_setting(connection, key), response)


@router.get("/platforms")
async def read_platforms(state: State, _principal: Ops) -> Platforms:
    """Every platform with its limits."""
    async with state.pool.acquire() as connection:
        rows = await ops_settings.list_platforms(connection)
    return Platforms(items=[Platform(**row) for row in rows])


@router.get("/platforms/{platform}", responses=VERSIONED)
async def read_platform(state: State, _principal: Ops, platform: PlatformPath, response: Response) -> Platform:
    """One platform."""
    async with state.pool.acquire() as connection:
        row = await ops_settings.read_platform(connection, platform)
    show_version(response, row["version"])
    return Platform(**row)


@router.put("/platforms/{platform}", responses=VERSIONED)
async def change_platform(
    state: State, principal: Ops, platform: PlatformPath, expected: Expected, body: PlatformPut, response: Response
) -> Platform:
    """Replace a platform's limits. Timeouts given here are pinned."""
    change = PlatformChange(**body.model_dump())
    async with transaction(state.pool) as connection:
        row = await ops_settings.write_platform(
            connection, platform, change, actor=actor_of(principal), expected=expected
        )
    show_version(response, row["version"])
    return Platform(**row)
