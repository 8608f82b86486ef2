"""The OpenAPI document as generators need it: problems in every operation, both security schemes, stable ids."""

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic.json_schema import models_json_schema

from api.problems import MEDIA_TYPE, FieldProblem, Problem

REFERENCE: Final = "#/components/schemas/{model}"
METHODS: Final = frozenset({"get", "put", "post", "patch", "delete"})
DEVICE_PREFIXES: Final = ("/api/desktop/tasks/", "/api/desktop/proxy/")
DEVICE_SCHEME: Final = {"type": "http", "scheme": "bearer", "description": "A desktop's device token"}


def operation_id(route: APIRoute) -> str:
    """The function's name, what a generated client calls its method; the desktop's own calls say so in front."""
    return f"desktop_{route.name}" if route.path.startswith(DEVICE_PREFIXES) else route.name


def install_openapi(app: FastAPI) -> None:
    """Build the document once, at the first need."""

    def build() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            _describe_problems(document)
            _describe_devices(document)
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = build  # type: ignore[method-assign]


def _describe_problems(document: dict[str, Any]) -> None:
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    _, made = models_json_schema([(Problem, "serialization"), (FieldProblem, "serialization")], ref_template=REFERENCE)
    schemas.update(made["$defs"])
    problem = {
        "description": "Problem (RFC 9457)",
        "content": {MEDIA_TYPE: {"schema": {"$ref": REFERENCE.format(model="Problem")}}},
    }
    for operation in operations(document):
        operation["responses"].pop("422", None)
        operation["responses"]["default"] = problem


def _describe_devices(document: dict[str, Any]) -> None:
    document["components"].setdefault("securitySchemes", {})["deviceToken"] = DEVICE_SCHEME
    for path, item in document["paths"].items():
        if path.startswith(DEVICE_PREFIXES):
            for operation in item.values():
                operation["security"] = [{"deviceToken": []}]


def operations(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Every operation of the document."""
    return [item[method] for item in document["paths"].values() for method in item if method in METHODS]
