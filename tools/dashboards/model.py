"""What a dashboard consists of here, and the JSON that Grafana wants for it.

A panel has a title, what it shows, what is normal, a unit and queries, or it cannot be made.
Colours are blue, orange and dark red, and limits are drawn as lines or told in words too, so that
nothing hangs on telling red from green.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

SCHEMA_VERSION: Final = 41
"""Of Grafana 11.6. Later ones read it, and migrate it by themselves."""
DATASOURCE: Final = {"type": "prometheus", "uid": "prometheus"}
"""As `deploy/grafana/provisioning/datasources` names it."""
TAG: Final = "chronos"
RUNBOOK: Final = "${runbook:raw}"
"""A variable of each dashboard: a site that serves the docs elsewhere changes it in one place."""
RUNBOOK_URL: Final = "https://chronos.example.com/docs/runbook.md"

_GRID: Final = 24
_GOOD, _ODD, _BAD = "blue", "orange", "dark-red"

Json = dict[str, Any]


class Kind(StrEnum):
    """Grafana's panel types."""

    STAT = "stat"
    LINES = "timeseries"
    HEATMAP = "heatmap"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Query:
    """PromQL, and how its series are called: `{{label}}` is replaced by a label's value."""

    expression: str
    legend: str = "{{instance}}"


@dataclass(frozen=True, slots=True)
class Panel:
    """One question and its answer.

    Args:
        title: the question, or what is counted.
        shows: what the numbers are.
        normal: what they are while all is well.
        unit: Grafana's id of it, such as `s`; `suffix: jobs/s` is one too.
        queries: at least one.
        kind: how it is drawn.
        width: of 24 columns; more where its line has room left.
        limits: from where on a value is bad; of two, from where on it is odd, and then bad.
        high_is_good: whether values below the limits are the bad ones.
        words: what is written instead of a value.
        stacked: whether lines lie on top of each other, since their sum means something.
        highest: end of the axis; None: what the values need.
        empty_because: why there may be nothing to draw while all is well; None: there always is.
        alerts: those that watch over the same; the panel links their sections of the runbook.
    """

    title: str
    shows: str
    normal: str
    unit: str
    queries: Sequence[Query]
    kind: Kind = Kind.LINES
    width: int = 8
    limits: Sequence[float] = ()
    high_is_good: bool = False
    words: Mapping[float, str] = field(default_factory=dict)
    stacked: bool = False
    highest: float | None = None
    empty_because: str | None = None
    alerts: Sequence[str] = ()

    @property
    def height(self) -> int:
        return 4 if self.kind is Kind.STAT else 8

    @property
    def description(self) -> str:
        """Shown when one points at the panel's corner."""
        parts = [self.shows, f"Normal: {self.normal}"]
        if self.empty_because:
            parts.append(f"No data: {self.empty_because}")
        return "\n\n".join(parts)

    def document(self, number: int, place: Mapping[str, int]) -> Json:
        """Grafana's JSON for it.

        Args:
            number: unique in the dashboard.
            place: `x` and `y` of the upper left corner, `w` and `h`, in the dashboard's grid.
        """
        is_table = self.kind is Kind.TABLE
        return {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.description,
            "datasource": DATASOURCE,
            "gridPos": place,
            "targets": [
                {
                    "refId": chr(ord("A") + place),
                    "datasource": DATASOURCE,
                    "expr": query.expression,
                    "legendFormat": query.legend,
                    "range": not is_table,
                    "instant": is_table,
                    "format": _FORMATS.get(self.kind, "time_series"),
                }
                for place, query in enumerate(self.queries)
            ],
            "fieldConfig": {"defaults": self._field(), "overrides": []},
            "options": _OPTIONS[self.kind],
            "links": [
                {
                    "title": f"Runbook: {alert}",
                    "type": "link",
                    "url": f"{RUNBOOK}#{alert.lower()}",
                    "targetBlank": True,
                }
                for alert in self.alerts
            ],
        }

    def _field(self) -> Json:
        colours = {0: [_GOOD], 1: [_GOOD, _BAD], 2: [_GOOD, _ODD, _BAD]}[len(self.limits)]
        if self.high_is_good:
            colours.reverse()
        steps = zip((None, *self.limits), colours, strict=True)
        defaults: Json = {
            "unit": self.unit,
            "min": 0,
            "noValue": "none" if self.empty_because else "no data",
            "thresholds": {
                "mode": "absolute",
                "steps": [{"value": value, "color": colour} for value, colour in steps],
            },
            "mappings": [
                {
                    "type": "value",
                    "options": {f"{value:g}": {"text": text} for value, text in self.words.items()},
                }
            ]
            if self.words
            else [],
        }
        if self.highest is not None:
            defaults["max"] = self.highest
        match self.kind:
            case Kind.STAT:
                defaults["color"] = {"mode": "thresholds"}
            case Kind.LINES:
                defaults["color"] = {"mode": "palette-classic-by-name"}
                defaults["custom"] = {
                    "lineWidth": 2,
                    "fillOpacity": 20 if self.stacked else 0,
                    "showPoints": "never",
                    "stacking": {"mode": "normal" if self.stacked else "none", "group": "A"},
                    "thresholdsStyle": {"mode": "dashed" if self.limits else "off"},
                }
        return defaults


_FORMATS: Final = {Kind.TABLE: "table", Kind.HEATMAP: "heatmap"}
_LAST: Final = {"calcs": ["lastNotNull"], "fields": "", "values": False}
_OPTIONS: Final[Mapping[Kind, Json]] = {
    Kind.STAT: {
        "reduceOptions": _LAST,
        "colorMode": "value",
        "graphMode": "area",
        "textMode": "auto",
        "justifyMode": "auto",
        "orientation": "auto",
    },
    Kind.LINES: {
        "legend": {
            "showLegend": True,
            "displayMode": "table",
            "placement": "bottom",
            "calcs": ["lastNotNull", "max"],
        },
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    Kind.HEATMAP: {
        "calculate": False,
        "color": {
            "mode": "scheme",
            "scheme": "Blues",
            "steps": 64,
            "exponent": 0.5,
            "fill": "blue",
        },
        "cellGap": 1,
        "yAxis": {"unit": "s"},
        "legend": {"show": True},
        "tooltip": {"mode": "single", "yHistogram": False, "showColorScale": False},
    },
    Kind.TABLE: {"showHeader": True, "cellHeight": "sm"},
}


@dataclass(frozen=True, slots=True)
class Row:
    """Panels that answer the same question of whoever is on call."""

    question: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True)
class Variable:
    """Something to choose at the top of the dashboard; several values, or all."""

    name: str
    label: str
    query: str
    """PromQL-like, such as `label_values(up, instance)`."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One page."""

    name: str
    """Of the file, and the last part of the uid."""
    title: str
    description: str
    rows: Sequence[Row]
    variables: Sequence[Variable] = ()

    @property
    def uid(self) -> str:
        return f"chronos-{self.name}"

    @property
    def panels(self) -> Iterator[Panel]:
        for row in self.rows:
            yield from row.panels

    def document(self) -> Json:
        """What Grafana loads."""
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.description,
            "tags": [TAG],
            "timezone": "browser",
            "editable": False,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": "now-1h", "to": "now"},
            "schemaVersion": SCHEMA_VERSION,
            "links": [
                {
                    "type": "dashboards",
                    "title": "Chronos",
                    "tags": [TAG],
                    "asDropdown": False,
                    "includeVars": False,
                    "keepTime": True,
                },
                {
                    "type": "link",
                    "title": "Runbook",
                    "icon": "doc",
                    "url": RUNBOOK,
                    "targetBlank": True,
                },
            ],
            "templating": {"list": [*map(_chosen, self.variables), _RUNBOOK_VARIABLE]},
            "annotations": {"list": [_ALERTS]},
            "panels": list(self._placed()),
        }

    def _placed(self) -> Iterator[Json]:
        """Rows below each other; in each, lines of panels that are equally high and fill it."""
        number = y = 0
        for row in self.rows:
            number += 1
            yield {
                "id": number,
                "type": "row",
                "title": row.question,
                "collapsed": False,
                "gridPos": {"x": 0, "y": y, "w": _GRID, "h": 1},
                "panels": [],
            }
            y += 1
            for line in _lines(row.panels):
                height = max(panel.height for panel in line)
                asked = sum(panel.width for panel in line)
                x = 0
                for panel in line:
                    number += 1
                    width = panel.width * _GRID // asked
                    yield panel.document(number, {"x": x, "y": y, "w": width, "h": height})
                    x += width
                y += height


def _lines(panels: Sequence[Panel]) -> Iterator[list[Panel]]:
    """Panels side by side, as many as there is room for."""
    line: list[Panel] = []
    for panel in panels:
        if sum(each.width for each in line) + panel.width > _GRID:
            yield line
            line = []
        line.append(panel)
    yield line


def _chosen(variable: Variable) -> Json:
    return {
        "type": "query",
        "name": variable.name,
        "label": variable.label,
        "datasource": DATASOURCE,
        "query": {"query": variable.query, "refId": variable.name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


_RUNBOOK_VARIABLE: Final = {"type": "constant", "name": "runbook", "hide": 2, "query": RUNBOOK_URL}
_ALERTS: Final = {
    "name": "Alerts",
    "enable": True,
    "datasource": DATASOURCE,
    "expr": 'ALERTS{alertstate="firing", severity!="none"}',
    "iconColor": "orange",
    "titleFormat": "{{alertname}}",
}
