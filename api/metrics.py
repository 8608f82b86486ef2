"""What this process counts, for Prometheus (6-operations, Metrics). The worker has its own address for its part."""

from fastapi import APIRouter, Response

from telemetry.exposition import CONTENT_TYPE, exposition
from telemetry.metrics import REGISTRY

router = APIRouter(tags=["health"])


@router.get("/metrics", include_in_schema=False)
async def metrics() -> Response:
    """Prometheus text. Without a token, as scrapers are: counts and ids, no content. Not for the outside."""
    return Response(exposition(REGISTRY), media_type=CONTENT_TYPE)
