"""`GET /metrics` of the API's process."""

import httpx

from telemetry.metrics import http_requests


async def test_the_api_shows_its_metrics_without_a_token_and_without_the_suffix(http: httpx.AsyncClient) -> None:
    before = http_requests.value("4xx")
    assert (await http.get("/nothing")).status_code == 404
    answer = await http.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = answer.text.splitlines()
    assert f'giveway_http_requests_count{{status="4xx"}} {before + 1}' in lines
    assert "# TYPE giveway_http_requests_count counter" in lines
    assert any(line.startswith("process_cpu_seconds_total ") for line in lines)
