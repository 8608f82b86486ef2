"""The API's composition root: `create_app(settings)`; everybody is known here, nobody imports it but `cli.py`.

Start uvicorn without its access log (`access_log=False`): a query string is not for logs.
"""

import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from api import (
    badcases,
    batches,
    brands,
    clients,
    collect_requests,
    dashboard,
    health,
    metrics,
    ops,
    plans,
    questions,
    tasks,
)
from api.access_log import AccessLog
from api.body_guard import BodyGuard
from api.desktop import desktop_router
from api.openapi import install_openapi, operation_id
from api.problems import install_problem_handlers
from api.state import AppState, open_state, state_of
from settings import Settings


def create_app(settings: Settings, resources: AppState | None = None) -> FastAPI:
    """The application. Given `resources` are used and left open; else the lifespan opens its own and closes them."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        if resources is not None:
            yield {"giveway": resources}
            return
        async with open_state(settings) as opened:
            yield {"giveway": opened}

    app = FastAPI(
        title="giveway",
        version=_version(),
        description="Durable dispatch for AI-brand monitoring: scheduled work gives way to a person's collect-now.",
        lifespan=lifespan,
        redirect_slashes=False,
        generate_unique_id_function=operation_id,
    )
    _mount(app)
    install_problem_handlers(app)
    install_openapi(app)
    app.add_middleware(BodyGuard)
    app.add_middleware(AccessLog)
    return app


def _mount(app: FastAPI) -> None:
    catalog = (brands, questions, plans, batches)
    for module in (health, metrics, *catalog, collect_requests, dashboard, badcases, clients, tasks, ops):
        app.include_router(module.router)
    app.include_router(
        desktop_router(lambda request: state_of(request).pool, lambda request: state_of(request).publish)
    )


def _version() -> str:
    """The project's version, where the clone says it."""
    project = Path(__file__).resolve().parent.parent / "pyproject.toml"
    version: str = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"]
    return version
