"""What an operator reads about a hub is what happened there."""

from domain.protocol import CloseCode, Heartbeat, ServerAck
from telemetry.metrics import (
    REGISTRY,
    hub_closes,
    hub_frames_in,
    hub_frames_out,
    hub_overflows,
    hub_refused,
)
from tests.hub.conftest import Rig, close_code
from tests.support.broker import until


def greetings() -> float:
    return REGISTRY.get_sample_value("giveway_hub_greeting_latency_ms_count") or 0.0


async def test_frames_greetings_and_ends_are_counted_once_each_by_kind(rig: Rig) -> None:
    before = greetings(), hub_frames_in.value("heartbeat"), hub_frames_out.value("ack"), hub_closes.value("1000")
    desk = await rig.desk()
    await desk.hello()
    await desk.send(Heartbeat(id="b"))
    await desk.next(ServerAck)
    await desk.socket.close()
    await until(lambda: rig.backend.ends)
    after = greetings(), hub_frames_in.value("heartbeat"), hub_frames_out.value("ack"), hub_closes.value("1000")
    assert [new - old for new, old in zip(after, before, strict=True)] == [1, 1, 1, 1]


async def test_a_client_cannot_fill_the_metrics_with_codes_of_its_own(rig: Rig) -> None:
    before = hub_closes.value("other")
    for code in (3333, 4999):
        desk = await rig.desk()
        await desk.hello()
        await desk.socket.close(code)
    await until(lambda: hub_closes.value("other") == before + 2)
    assert hub_closes.value("3333") == hub_closes.value("4999") == 0


async def test_the_hubs_own_code_counts_and_not_the_echo(rig: Rig) -> None:
    before = hub_closes.value(str(int(CloseCode.UNKNOWN_TYPE)))
    desk = await rig.desk()
    await desk.hello()
    await desk.socket.send('{"type": "nonsense", "id": "1"}')
    await desk.closed()
    await until(lambda: hub_closes.value(str(int(CloseCode.UNKNOWN_TYPE))) == before + 1)


async def test_who_is_not_let_in_is_counted_by_reason(rig: Rig) -> None:
    before = hub_refused.value("unauthenticated"), hub_refused.value("token_in_url")
    assert await close_code(await rig.socket("nobody's")) == CloseCode.UNAUTHENTICATED
    assert await close_code(await rig.socket("nobody's", "?token=x")) == CloseCode.TOKEN_IN_URL
    assert (hub_refused.value("unauthenticated"), hub_refused.value("token_in_url")) == (before[0] + 1, before[1] + 1)


async def test_a_slow_client_is_counted_as_an_overflow(rig: Rig) -> None:
    before = hub_overflows.value()
    desk = await rig.desk()
    await desk.hello()
    desk.socket.transport.pause_reading()
    while rig.hub.connections:
        for _ in range(50):
            await rig.hint(desk.client, rig.backend.queue(desk.client, "茶" * 20_000))
    assert hub_overflows.value() == before + 1
