"""The page of the API: HTTP, the admin included."""

from __future__ import annotations

from tools.dashboards.model import Dashboard, Kind, Panel, Query, Row, Variable
from tools.dashboards.processes import instances, last_row, of_role, server_errors

ROLE = "api"
_CHOSEN = of_role(ROLE) + ', route=~"$route"'
_BUCKETS = f"rate(api_request_seconds_bucket{{{_CHOSEN}}}[$__rate_interval])"
_COUNT = "api_request_seconds_count"


def _quantile(quantile: float, by: str = "") -> str:
    return f"histogram_quantile({quantile}, sum by (le{by}) ({_BUCKETS}))"


def _requests(by: str, status: str = "") -> str:
    return f"sum by ({by}) (rate({_COUNT}{{{_CHOSEN}{status}}}[$__rate_interval]))"


_FAILED = f'sum(rate({_COUNT}{{{_CHOSEN}, status=~"5.."}}[$__rate_interval])) or vector(0)'
_ALL = f"sum(rate({_COUNT}{{{_CHOSEN}}}[$__rate_interval]))"

API = Dashboard(
    ROLE,
    "Chronos: API",
    "How fast requests are answered, which are not, and by whom.",
    (
        Row(
            "Is work late?",
            (
                Panel(
                    "Time of a request",
                    "From arrival in Django to the answer. Waiting for a free thread comes before.",
                    "p50 below 10 ms, p99 below 100 ms; pages of the admin take longer.",
                    "s",
                    [Query(_quantile(q), f"p{100 * q:g}") for q in (0.5, 0.95, 0.99)],
                    limits=(0.5, 5),
                ),
                Panel(
                    "Slowest routes, p95",
                    "The five routes whose requests take longest.",
                    "lists and pages of the admin at the top; no route for clients among them.",
                    "s",
                    (Query(f"topk(5, {_quantile(0.95, ', route')})", "{{route}}"),),
                ),
                Panel(
                    "Times of all requests",
                    "How many requests took how long; darker is more.",
                    "one dark band at the bottom. A second one higher up: something waits.",
                    "short",
                    (
                        Query(
                            "sum by (le) (increase(api_request_seconds_bucket"
                            f"{{{_CHOSEN}}}[$__rate_interval]))",
                            "{{le}}",
                        ),
                    ),
                    kind=Kind.HEATMAP,
                ),
            ),
        ),
        Row(
            "Is it failing?",
            (
                Panel(
                    "Share of requests that fail",
                    "Answers 500 and above: ours, not the client's fault.",
                    "0. 503 means that MongoDB does not answer; clients repeat by Retry-After.",
                    "percentunit",
                    (Query(f"({_FAILED}) / {_ALL}", "failed"),),
                    alerts=("ApiErrors",),
                    limits=(0.01, 0.05),
                    highest=1,
                ),
                Panel(
                    "Refused and failed requests",
                    "Answers of 400 and above, by route and status.",
                    "some 404 and 409. Many 400 after a client's release: it sends what is"
                    " not accepted. 409 on POST /jobs: repeated keys, harmless.",
                    "reqps",
                    (
                        Query(
                            _requests("route, status", ', status=~"[45].."'),
                            "{{status}} {{route}}",
                        ),
                    ),
                    empty_because="no request was refused since the API started.",
                ),
                server_errors(ROLE, kafka=False),
            ),
        ),
        Row(
            "Where is it stuck?",
            (
                Panel(
                    "Requests at work",
                    "Requests in Django at once, on average: rate times duration.",
                    "far below the threads (`runapi --threads`, 16 for each worker). Near"
                    " them: requests wait before Django sees them; add workers.",
                    "short",
                    (
                        Query(
                            "sum by (instance) (rate(api_request_seconds_sum"
                            f"{{{_CHOSEN}}}[$__rate_interval]))",
                        ),
                    ),
                    width=12,
                    limits=(8, 14),
                ),
                Panel(
                    "Requests by route",
                    "Answered requests a second.",
                    "as usual for the hour.",
                    "reqps",
                    (Query(_requests("method, route"), "{{method}} {{route}}"),),
                    width=12,
                    stacked=True,
                ),
            ),
        ),
        last_row(
            ROLE,
            Panel(
                "Requests by process",
                "Answered requests a second.",
                "shared evenly by the load balancer.",
                "reqps",
                (Query(_requests("instance")),),
                width=24,
            ),
        ),
    ),
    (
        instances(ROLE),
        Variable("route", "Route", f"label_values({_COUNT}, route)"),
    ),
)
