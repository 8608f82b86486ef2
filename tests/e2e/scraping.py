"""What operators read of a running installation, and that it fits what happened (dispatch §15.1, 6-operations)."""

from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from api.auth import Role, issue_development_token
from tests.e2e.installation import Installation

# Every name of dispatch §15.1, as it is spelt there.
PROMISED = frozenset({
    "collect_now_accept_count", "collect_now_first_dispatch_latency_ms", "collect_now_first_result_latency_ms",
    "monitor_dispatch_high_backlog", "monitor_dispatch_normal_backlog", "monitor_result_ingest_lag_ms",
    "monitor_projection_rebuild_lag_ms", "monitor_preempt_request_count", "monitor_preempt_success_count",
    "monitor_preempt_timeout_count", "desktop_client_monitor_queue_depth", "monitoring_pg_write_qps",
    "collect_now_preempt_induced_retry_count", "monitor_normal_starvation_age_p99", "safe_point_interval_ms_p95",
    "monitor_dispatch_reject_by_reason_count", "interrupt_generation_mismatch_count",
    "collect_request_ttl_expired_count", "execution_owner_legacy_count", "execution_owner_desktop_tasks_count",
    "phase2_reconcile_fixed_count", "monitor_dispatch_high_oldest_age_ms", "tenant_monitor_normal_backlog",
})  # fmt: skip

Samples = dict[tuple[str, str], float]


async def scrape(installation: Installation) -> tuple[set[str], Samples]:
    """The families that the two processes show, and the sum of each series (name, label values) over both."""
    port = installation.server.settings.worker_metrics_port
    names: set[str] = set()
    samples: Samples = {}
    async with httpx.AsyncClient(timeout=30) as http:
        for url in (f"{installation.server.api_url}/metrics", f"http://127.0.0.1:{port}/metrics"):
            answer = await http.get(url)
            assert answer.status_code == 200, url
            for family in text_string_to_metric_families(answer.text):
                names.add(family.name)
                for sample in family.samples:
                    # The parser calls every counter's sample `…_total`, as OpenMetrics would have it.
                    name = family.name if family.type == "counter" else sample.name
                    key = (name, ",".join(sample.labels.values()))
                    samples[key] = samples.get(key, 0.0) + sample.value
    return names, samples


async def check_metrics(installation: Installation, outcome: dict[str, Any]) -> None:
    """All promised names are there, and the numbers are those of one batch that gave way to one click."""
    names, samples = await scrape(installation)
    assert names >= PROMISED, PROMISED - names

    def value(name: str, labels: str = "") -> float:
        return samples[name, labels]

    assert value("collect_now_accept_count") == 1
    for name in ("collect_now_first_dispatch_latency_ms", "collect_now_first_result_latency_ms"):
        assert value(f"{name}_count") == 1
        assert value(f"{name}_sum") >= 0
    assert value("monitor_preempt_request_count") == value("monitor_preempt_success_count") >= outcome["preempted"]
    assert value("collect_now_preempt_induced_retry_count") >= 1
    assert value("giveway_dispatched_count") >= outcome["batch_expected"]
    assert value("giveway_results_received_count") >= outcome["batch_completed"]
    assert value("collect_request_ttl_expired_count") == value("interrupt_generation_mismatch_count") == 0
    for name in (
        "monitor_dispatch_high_backlog",
        "monitor_dispatch_normal_backlog",
        "monitor_dispatch_high_oldest_age_ms",
    ):
        assert value(name) == 0, name
    assert value("execution_owner_desktop_tasks_count") == value("execution_owner_legacy_count") == 0
    assert value("desktop_client_monitor_queue_depth", "max") == 0
    assert value("process_resident_memory_bytes") > 10**7


async def check_operations(installation: Installation) -> None:
    """An operator sees the residents, and can have reconcile and the retuning run now."""
    token = issue_development_token(installation.server.settings, 1, [], role=Role.OPS)
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=installation.server.api_url, headers=headers, timeout=30) as http:
        residents = (await http.get("/api/ops/residents")).json()["items"]
        assert {"coordinator/0", "outbox-pump/0", "presence/0"} <= {each["name"] for each in residents}
        for what in ("reconcile", "tune"):
            assert (await http.post(f"/api/ops/{what}")).status_code == 202, what
