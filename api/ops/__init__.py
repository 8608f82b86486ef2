"""`/api/ops/…`: what operators see and change, for the role `ops` alone (6-operations, Control)."""

from fastapi import APIRouter

from api.ops import clients, control, limits, lists, pauses, settings

router = APIRouter(prefix="/api/ops", tags=["operations"])
for module in (settings, limits, pauses, control, clients, lists):
    router.include_router(module.router)
