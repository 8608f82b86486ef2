"""`giveway clients` on a real database: for people, and with --json for machines."""

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner, Result

from cli import app
from domain.errors import InvalidInput, NotFound
from store.client_history import ClientEvent, note_event
from store.clients import authenticate_device
from store.database import Pool, open_pool, transaction
from tests.support.world import Desktop, World, ago

Run = Callable[..., Result]


@pytest.fixture
def run(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command in this process, on the test's database."""
    settings = SimpleNamespace(database_url=database_url)
    monkeypatch.setattr("commands.connections.running_settings", lambda: settings)

    def invoke(*arguments: str, **given: Any) -> Result:
        return CliRunner().invoke(app, ["clients", *arguments], **given)

    return invoke


def machine(result: Result) -> Any:
    assert result.exit_code == 0, (result.output, result.exception)
    return orjson.loads(result.stdout.splitlines()[-1])


def on(url: str, work: Callable[[Pool], Coroutine[Any, Any, Any]]) -> Any:
    async def go() -> Any:
        pool = await open_pool(url, size=1)
        try:
            return await work(pool)
        finally:
            await pool.close()

    return asyncio.run(go())


@pytest.fixture
def desktops(database_url: str) -> list[Desktop]:
    """A busy one whose login is broken, a silent one, a revoked one."""

    async def seed(pool: Pool) -> list[Desktop]:
        world = await World.create(pool)
        busy, silent, revoked = [await world.client(max_concurrent=2) for _ in range(3)]
        lease = await world.leased(busy, status="in_progress")
        await world.set("desktop_tasks", lease.task_id, phase="WAITING")
        await world.set(
            "desktop_clients", busy.id, name="front [desk]", version="1.4",
            platform_sessions={"qwen": "login_required"}, reported_running=0, reported_queued=0,
        )  # fmt: skip
        await world.set("desktop_clients", silent.id, last_heartbeat_at=ago(hours=3), lost_at=ago(hours=3))
        await world.set("desktop_clients", revoked.id, revoked_at=ago(hours=1), online=False)
        return [busy, silent, revoked]

    found: list[Desktop] = on(database_url, seed)
    return found


def test_the_list_shows_state_slots_phase_login_and_what_the_desktop_says_otherwise(
    run: Run, desktops: list[Desktop]
) -> None:
    busy, silent, revoked = desktops
    [line] = [line for line in run("list").stdout.splitlines() if str(busy.id)[-12:] in line]
    for shown in ("front [desk]", "online", "1/2 (says 0)", "waiting", "qwen:login_required", "1.4"):
        assert shown in line
    assert str(revoked.id)[-12:] not in run("list").stdout
    assert str(revoked.id)[-12:] in run("list", "--all").stdout
    assert [each["id"] for each in machine(run("list", "--sort", "silence", "--json"))["clients"]] == [
        str(silent.id), str(busy.id),
    ]  # fmt: skip


def test_the_list_is_filtered(run: Run, desktops: list[Desktop]) -> None:
    busy, silent, revoked = desktops
    for words, expected in (
        (("--state", "lost"), silent),
        (("--state", "revoked"), revoked),
        (("--login", "qwen=login_required"), busy),
        (("--login", "login_required"), busy),
    ):
        found = machine(run("list", *words, "--json"))["clients"]
        assert [each["id"] for each in found] == [str(expected.id)], words
    assert machine(run("list", "--tenant", "999", "--json"))["clients"] == []
    assert "no desktops" in run("list", "--tenant", "999").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--state", "asleep"), "online, paused, offline, lost, revoked"),
        (("--sort", "name"), "newest, abort_rate, queue_depth, silence"),
        (("--login", "qwen="), "PLATFORM=HEALTH"),
    ],
)
def test_a_wrong_word_is_wrong_usage_and_names_the_right_ones(run: Run, words: tuple[str, ...], said: str) -> None:
    refused = run("list", *words)
    assert refused.exit_code == 2
    assert said in " ".join(refused.output.replace("│", " ").split())


def test_one_desktop_is_shown_by_the_end_of_its_id(run: Run, desktops: list[Desktop]) -> None:
    busy = desktops[0]
    told = run("show", str(busy.id)[-12:]).stdout
    for shown in (str(busy.id), "1 of 2 (from the desktop)", "WAITING", "the server counts otherwise", "no events"):
        assert shown in told
    found = machine(run("show", str(busy.id), "--json"))
    assert (found["state"], found["tasks"][0]["phase"]) == ("online", "WAITING")
    assert isinstance(run("show", "f" * 12).exception, NotFound)
    assert isinstance(run("show", "desk").exception, InvalidInput)


def test_totals_are_for_people_and_machines(run: Run, desktops: list[Desktop]) -> None:
    found = machine(run("totals", "--json"))
    assert found["states"] == {"online": 1, "paused": 0, "offline": 0, "lost": 1, "revoked": 1}
    assert (found["slots_used"], found["slots_total"], found["phases"]) == (1, 2, {"WAITING": 1})
    told = run("totals").stdout
    assert "login_required" in told
    assert "slots used" in told


def test_what_a_desktop_says_of_itself_cannot_steer_the_terminal(
    run: Run, database_url: str, desktops: list[Desktop]
) -> None:
    busy, evil = desktops[0], "\x1b[2J\r\n\x9b"
    said = {"version": evil, "protocol": evil, "platform_sessions": {evil: evil}, "name": evil, "hub": evil}

    async def spoil(pool: Pool) -> None:
        sets = ", ".join(f"{name} = ${number}" for number, name in enumerate(said, 2))
        await pool.execute(f"update desktop_clients set {sets} where id = $1", busy.id, *said.values())
        await pool.execute("update desktop_task_attempts set ended_at = now(), error = $1", evil)
        async with transaction(pool) as connection:
            await note_event(connection, busy.id, ClientEvent.SESSIONS_CHANGED, {evil: evil})

    on(database_url, spoil)
    for command in (("list",), ("show", str(busy.id)), ("totals",)):
        shown = run(*command)
        assert shown.exit_code == 0, shown.exception
        assert not {"\x1b", "\r", "\x9b"} & set(shown.stdout), command


def test_pausing_and_resuming_twice_says_so(run: Run, desktops: list[Desktop]) -> None:
    busy = str(desktops[0].id)
    assert machine(run("pause", busy, "--json"))["changed"] is True
    assert machine(run("list", "--state", "paused", "--json"))["clients"][0]["id"] == busy
    assert "already" in run("pause", busy).stdout
    assert machine(run("resume", busy, "--json"))["changed"] is True
    assert "was not paused" in run("resume", busy).stdout


def test_who_is_asked_sees_which_desktop_it_is_and_may_say_no(
    run: Run, desktops: list[Desktop], monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = str(desktops[0].id)
    monkeypatch.setattr("commands.clients.sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    for order in ("revoke", "rotate"):
        refused = run(order, busy[-12:], input="n\n")
        assert (refused.exit_code, "front [desk]" in refused.output, busy in refused.output) == (1, True, True)
        assert isinstance(run(order, "0" * 12, input="y\n").exception, NotFound)
    assert machine(run("show", busy, "--json"))["history"] == []
    assert run("revoke", busy, input="y\n").exit_code == 0
    assert machine(run("show", busy, "--json"))["state"] == "revoked"


def test_revoking_and_rotating_ask_first_and_take_force(run: Run, desktops: list[Desktop], database_url: str) -> None:
    busy = desktops[0]
    for order in ("revoke", "rotate"):
        refused = run(order, str(busy.id), input="y\n")
        assert (refused.exit_code, "--force" in refused.output) == (2, True)
    token = machine(run("rotate", str(busy.id), "--force", "--json"))["token"]
    assert on(database_url, lambda pool: authenticate_device(pool, busy.token)) is None
    assert on(database_url, lambda pool: authenticate_device(pool, token)).client_id == busy.id
    assert machine(run("revoke", str(busy.id)[-12:], "--force", "--json"))["revoked"] is True
    assert on(database_url, lambda pool: authenticate_device(pool, token)) is None
    actors = on(database_url, lambda pool: pool.fetch("select actor from audit_events order by id"))
    assert {row["actor"].split(":")[0] for row in actors} == {"cli"}


def test_watching_reads_again_until_interrupted(
    run: Run, desktops: list[Desktop], monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = iter(range(2))

    async def pause() -> None:
        if next(rounds, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr("commands.clients._pause", pause)
    told = run("list", "--watch", "--json")
    assert told.exit_code == 130
    lines = [orjson.loads(line) for line in told.stdout.splitlines() if line.startswith("{")]
    assert [len(line["clients"]) for line in lines] == [2, 2, 2]
