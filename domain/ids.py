"""Identifiers and the names derived from them (1-dispatch §1.1)."""

from datetime import date
from typing import NewType
from uuid import UUID
from zlib import crc32

from uuid_utils.compat import uuid7

TenantId = NewType("TenantId", int)
WorkspaceId = NewType("WorkspaceId", int)
UserId = NewType("UserId", int)
BrandId = NewType("BrandId", int)
BusinessTaskId = NewType("BusinessTaskId", int)
BatchId = NewType("BatchId", int)
ClientId = NewType("ClientId", UUID)
RequestId = NewType("RequestId", UUID)
ExecutionTaskId = NewType("ExecutionTaskId", UUID)
AttemptId = NewType("AttemptId", UUID)


def new_uuid() -> UUID:
    """A time-ordered uuid (v7), for rows whose id the application chooses."""
    return uuid7()


def shard_key(tenant_id: int, brand_id: int, business_date: date) -> str:
    """The ingest ordering key `tenant:brand:business_date` (3-results §3.2)."""
    return f"{tenant_id}:{brand_id}:{business_date.isoformat()}"


def shard_of(key: str, shards: int) -> int:
    """`crc32(key) % shards`: the same brand-day always meets the same consumer."""
    return crc32(key.encode()) % shards
