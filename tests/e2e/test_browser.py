"""A collect-now on the running system preempts a question in a real Chromium, and its answer arrives (issue 5)."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from desktop.browser.chromium import NAMES
from desktop.browser.driver import browser_driver
from desktop.browser.options import BrowserOptions
from desktop.config import DesktopConfig
from desktop.events import DesktopEvent, EventKind
from desktop.fleet import run_fleet
from desktop.practice_site.answers import SOURCES
from desktop.practice_site.serve import served
from desktop.practice_site.site import PracticeSite, Session
from desktop.recorded import RecordedAnswers
from devstack.demo.material import Material, Question
from devstack.demo.rest import TenantApi
from devstack.demo.seed import Seeded, new_tenant, seed
from domain.lanes import Lane
from domain.phases import Phase, SafePoint
from store.audit import check_integrity
from store.database import Pool
from tests.desktop.browser.practice import adapter
from tests.desktop.waiting import Record
from tests.e2e.installation import Installation

pytestmark = pytest.mark.timeout(240)

PLATFORM = "practice"
SCHEDULED = (
    "Which note app do small teams praise most, and which of them also works without a network? Answer for a team of"
    " five that writes every day, meets twice a week, and does not want to pay for more than it uses; name sources."
)
CLICKED = "Is Nimbus good?"
MATERIAL = Material(
    answers=RecordedAnswers(()),
    brand={"name": "Nimbus", "aliases": [], "domains": ["example.com"]},
    competitors=[{"name": "Moye", "aliases": [], "domains": []}],
    questions=(Question(SCHEDULED, None),),
    platforms=(PLATFORM,),
)


@dataclass(frozen=True, slots=True)
class Office:
    """A signed-in user, one desktop with a Chromium, and the site that it asks."""

    api: TenantApi
    seeded: Seeded
    record: Record
    site: Session
    hurry: Callable[[], None]

    def of(self, lane: Lane, kind: EventKind) -> list[DesktopEvent]:
        return [event for event in self.record.of(kind) if event.lane == lane]

    async def question(self, text: str) -> int:
        body = {"questions": [{"text": text}]}
        created = await self.api.post(f"/brands/{self.seeded.brand_id}/questions/bulk", body)
        return int(created["items"][0]["id"])

    async def click(self, question_id: int) -> Any:
        body = {"question_ids": [question_id], "target_client_id": self.seeded.desks[0].client_id}
        return await self.api.click(self.seeded.brand_id, body)


@asynccontextmanager
async def office(installation: Installation, pool: Pool, state: Path) -> AsyncIterator[Office]:
    if not any(map(shutil.which, NAMES)):
        pytest.skip("no Chromium: make test installs it as root on Debian, else see devstack/setup.sh browser")
    tenant_id, workspace_id, token = await new_tenant(pool, installation.server.settings, MATERIAL)
    practice, record = PracticeSite(), Record()
    async with TenantApi(installation.server.api_url, token) as api, served(practice) as url:
        seeded = await seed(api, tenant_id, workspace_id, MATERIAL, desks=1)
        # So slowly that nobody finishes it before a click has come through, however busy the machine is.
        slowly = adapter(f"{url}/office/", input={"how": "type", "delay_ms": 250}, timeouts={"input": 300.0})
        sites = {PLATFORM: slowly}

        def hurry() -> None:
            """What begins from now on is typed at once."""
            sites[PLATFORM] = adapter(f"{url}/office/")

        async with desktop(installation, seeded, BrowserOptions(sites=sites, state_dir=state), record):
            yield Office(api, seeded, record, practice.session("office"), hurry)


@asynccontextmanager
async def desktop(
    installation: Installation, seeded: Seeded, options: BrowserOptions, record: Record
) -> AsyncIterator[None]:
    """The reference desktop with one slot, connected."""
    [desk], stop = seeded.desks, asyncio.Event()
    async with browser_driver(options) as driver_for:
        config = DesktopConfig(
            client_id=desk.client_id,
            token=desk.token,
            ws_url=desk.ws_url,
            api_url=installation.server.api_url,
            state_dir=options.state_dir,
            driver=driver_for(desk.client_id),
            max_concurrent=1,
        )
        running = asyncio.create_task(run_fleet([config], record, stop=stop))
        try:
            await record.seen(EventKind.CONNECTED)
            yield
        finally:
            stop.set()
            await running


async def test_a_click_stops_a_question_in_chromium_at_a_safe_point_and_its_own_answer_arrives(
    installation: Installation, pool: Pool, tmp_path: Path
) -> None:
    async with office(installation, pool, tmp_path / "desktops") as here:
        await here.api.post(f"/plans/{here.seeded.plan_id}/run")
        victim = await typing_of_the_scheduled_question(here)
        here.hurry()
        request = await here.click(await here.question(CLICKED))
        await settled(pool, here.seeded.tenant_id, runs=2)

        [gave_way] = here.of(Lane.NORMAL, EventKind.GAVE_WAY)
        assert (gave_way.task_id, gave_way.phase) == (victim.task_id, Phase.INPUTTING)
        assert gave_way.safe_point is SafePoint.BEFORE_SUBMIT
        # Stopped before it was sent: the site heard of it only afterwards, once, behind the click's question.
        assert here.site.questions == [CLICKED, SCHEDULED]
        assert here.site.answered == 2
        assert here.of(Lane.HIGH, EventKind.GAVE_WAY) == []

        shown = await here.api.get(f"/collect-requests/{request['request_id']}")
        assert (shown["status"], shown["completed_task_count"]) == ("succeeded", 1)
        await check_answers(pool, here.seeded.tenant_id)


async def typing_of_the_scheduled_question(here: Office) -> DesktopEvent:
    async with asyncio.timeout(90):
        while not (typing := [e for e in here.record.of(EventKind.PHASE_ENTERED) if e.phase is Phase.INPUTTING]):
            await asyncio.sleep(0.02)
    assert typing[0].lane == Lane.NORMAL
    return typing[0]


async def settled(pool: Pool, tenant_id: int, runs: int) -> None:
    """Until so many answers are in, and no task is under way."""
    answers = "select count(*) from question_monitor_runs where tenant_id = $1 and status = 'succeeded'"
    open_tasks = "select count(*) from desktop_tasks where tenant_id = $1 and status in ('queued', 'in_progress')"
    async with asyncio.timeout(120):
        while await pool.fetchval(answers, tenant_id) < runs or await pool.fetchval(open_tasks, tenant_id):
            await asyncio.sleep(0.1)


async def check_answers(pool: Pool, tenant_id: int) -> None:
    """Both answers are in the database with the site's text, sources and mention; nothing is lost or doubled."""
    rows = await pool.fetch(
        "select r.id, r.wire, r.provider_model, r.request_id, r.answer_chars, p.brand_mentioned"
        " from question_monitor_runs r join question_monitor_parse_results p on p.run_id = r.id"
        " where r.tenant_id = $1 order by r.id",
        tenant_id,
    )
    assert [(row["wire"], row["provider_model"]) for row in rows] == [("html", "practice-1")] * 2
    assert all(row["brand_mentioned"] and row["answer_chars"] > 100 for row in rows)
    for row in rows:
        cited = await pool.fetch(
            "select page_url, owner from monitoring_citation_facts where run_id = $1 order by ordinal", row["id"]
        )
        assert [(fact["page_url"], fact["owner"]) for fact in cited] == [
            (SOURCES[0][1], "own"),
            (SOURCES[1][1], "other"),
        ]
    integrity = await check_integrity(pool, tenant_id)
    assert (integrity.lost, integrity.duplicated) == (0, 0)
