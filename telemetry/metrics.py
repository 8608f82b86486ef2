"""Every metric a process counts, under the names of dispatch §15.1; what the source does not name begins `giveway_`.

One registry a process: counts are the process's own and are summed by Prometheus. Label values are bounded: reasons,
kinds, platforms; never a task's id. A client's id only where the source's alert asks for it.
"""

from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)

from domain.budgets import Refusal
from domain.messages import DatabaseFixes, WorkflowFixes
from telemetry.families import ExactCounter

# Their `_created` series would double what is scraped, and nobody asks for them.
disable_created_metrics()  # type: ignore[no-untyped-call]

REGISTRY: Final = CollectorRegistry()
ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)
GCCollector(registry=REGISTRY)

# Up to the request's hard end of 30 minutes, with the alert's own threshold of 180 s as an edge.
_LATENCY_MS: Final = (
    25, 50, 100, 200, 350, 500, 750, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 180_000, 300_000, 600_000,
    1_800_000,
)  # fmt: skip

collect_now_accepts: Final = ExactCounter(
    REGISTRY, "collect_now_accept_count", "Collect-now requests accepted; replays and refusals are not counted."
)
first_dispatch_latency: Final = Histogram(
    "collect_now_first_dispatch_latency_ms",
    "Milliseconds from the accept to the first frame at a desktop.",
    buckets=_LATENCY_MS,
    registry=REGISTRY,
)
first_result_latency: Final = Histogram(
    "collect_now_first_result_latency_ms",
    "Milliseconds from the accept to the first completed task of the request.",
    buckets=_LATENCY_MS,
    registry=REGISTRY,
)
ttl_expired: Final = ExactCounter(
    REGISTRY, "collect_request_ttl_expired_count", "Requests that ended with nothing dispatched within their TTL."
)
preempt_requests: Final = ExactCounter(
    REGISTRY, "monitor_preempt_request_count", "Running tasks that were asked to stop for a collect-now."
)
preempt_successes: Final = ExactCounter(
    REGISTRY,
    "monitor_preempt_success_count",
    "Tasks asked to stop that are no longer in the way: stopped, finished or given up.",
)
preempt_timeouts: Final = ExactCounter(
    REGISTRY,
    "monitor_preempt_timeout_count",
    "Tasks that did not stop by the hard timeout; their lease was revoked.",
    label="client_id",
)
preempt_induced_retries: Final = ExactCounter(
    REGISTRY,
    "collect_now_preempt_induced_retry_count",
    "Started tasks that a collect-now stopped and that have to be run again.",
)
generation_mismatches: Final = ExactCounter(
    REGISTRY, "interrupt_generation_mismatch_count", "Callbacks of desktops with an older generation; not applied."
)
dispatch_refusals: Final = ExactCounter(
    REGISTRY,
    "monitor_dispatch_reject_by_reason_count",
    "Waiting tasks that a round looked at and a budget turned away.",
    label="reason",
    known=[refusal.value for refusal in Refusal],
)
dispatches: Final = ExactCounter(
    REGISTRY, "giveway_dispatched_count", "Tasks that the coordinator gave to a desktop, over both execution paths."
)
reconcile_fixes: Final = ExactCounter(
    REGISTRY,
    "phase2_reconcile_fixed_count",
    "What reconcile mended.",
    label="kind",
    known=[*DatabaseFixes.model_fields, *WorkflowFixes.model_fields],
)
results_received: Final = ExactCounter(
    REGISTRY, "giveway_results_received_count", "Results of desktops that are safe at the broker, each attempt once."
)
resident_pauses: Final = ExactCounter(
    REGISTRY,
    "giveway_resident_pauses_count",
    "Waits of a resident loop: for a part that is away (outage), or because our own program failed (defect).",
    label="reason",
    known=("outage", "defect"),
)
parser_errors: Final = ExactCounter(
    REGISTRY,
    "giveway_parser_errors_count",
    "Answers that our own reading or parsing failed on; each is a failed run until a reparse mends it.",
)
http_requests: Final = ExactCounter(
    REGISTRY,
    "giveway_http_requests_count",
    "Answers of the REST API by class of status.",
    label="status",
    known=("2xx", "3xx", "4xx", "5xx"),
)
hub_connections: Final = Gauge(
    "giveway_hub_connections", "Desktops connected to and greeted by this hub.", registry=REGISTRY
)
hub_pending: Final = Gauge(
    "giveway_hub_pending_sockets", "Sockets of this hub that have not authenticated yet.", registry=REGISTRY
)
hub_bindings: Final = Gauge(
    "giveway_hub_bindings", "Clients that this hub's queue is bound for at the broker.", registry=REGISTRY
)
hub_tasks: Final = Gauge(
    "giveway_hub_tasks", "Tasks of the process's event loop: a few a connection and a few more.", registry=REGISTRY
)
hub_refused: Final = ExactCounter(
    REGISTRY,
    "giveway_hub_refused_handshakes_count",
    "Sockets that were not let in, by reason.",
    label="reason",
    known=("busy", "hub_full", "no_request", "header_too_large", "not_found", "token_in_url", "protocol_version",
           "unauthenticated", "authentication_timeout", "server_error"),
)  # fmt: skip
hub_closes: Final = ExactCounter(
    REGISTRY,
    "giveway_hub_closes_count",
    "Connections of known clients that ended, by the close code of whoever closed first.",
    label="code",
)
hub_frames_in: Final = ExactCounter(
    REGISTRY, "giveway_hub_frames_in_count", "Frames of known types that clients sent.", label="type"
)
hub_frames_out: Final = ExactCounter(
    REGISTRY, "giveway_hub_frames_out_count", "Frames queued for clients, by type.", label="type"
)
hub_overflows: Final = ExactCounter(
    REGISTRY, "giveway_hub_queue_overflows_count", "Clients closed as slow: their queue had passed its bound."
)
hub_greeting_latency: Final = Histogram(
    "giveway_hub_greeting_latency_ms",
    "Milliseconds from a client's TCP connection until it is online and bound; its snapshot follows.",
    buckets=(5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 15_000, 30_000),
    registry=REGISTRY,
)
hub_folded: Final = Histogram(
    "giveway_hub_folded_batch_size",
    "Reports that went to the database or the broker in one call, by kind.",
    ["kind"],
    buckets=(1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000),
    registry=REGISTRY,
)
