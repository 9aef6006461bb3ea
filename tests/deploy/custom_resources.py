"""What we use of the operators' own resources, written down from their definitions.

KEDA 2.21 (github.com/kedacore/keda): config/crd/bases, and the metadata that its scalers parse,
pkg/scalers/kafka_scaler.go and prometheus_scaler.go. Prometheus operator 0.85
(github.com/prometheus-operator/prometheus-operator): example/prometheus-operator-crd.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jsonschema import Draft202012Validator


def _object(*required: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(required),
        "properties": properties,
        "additionalProperties": False,
    }


_TEXT: Final = {"type": "string", "minLength": 1}
_COUNT: Final = {"type": "integer", "minimum": 0}
_TEXTS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
_WHOLE: Final = {"type": "string", "pattern": "^[1-9][0-9]*$"}
_NUMBER: Final = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?$"}
_BOOLEAN: Final = {"enum": ["true", "false"]}
_DURATION: Final = {"type": "string", "pattern": "^[1-9][0-9]*(ms|s|m|h|d)$"}
_METADATA: Final = _object("name", name=_TEXT, namespace=_TEXT, labels=_TEXTS, annotations=_TEXTS)


def _resource(api_version: str, kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return _object(
        *("apiVersion", "kind", "metadata", "spec"),
        apiVersion={"const": api_version},
        kind={"const": kind},
        metadata=_METADATA,
        spec=spec,
    )


def _trigger(kind: str, *required: str, **metadata: Any) -> dict[str, Any]:
    return _object(
        *("type", "metadata"),
        authenticationRef=_object("name", name=_TEXT),
        type={"const": kind},
        name=_TEXT,
        metricType={"enum": ["AverageValue", "Value"]},
        metadata=_object(*required, **metadata),
    )


_KAFKA: Final = _trigger(
    "kafka",
    *("bootstrapServersFromEnv", "topic", "consumerGroup", "offsetResetPolicy", "lagThreshold"),
    bootstrapServersFromEnv=_TEXT,
    topic=_TEXT,
    consumerGroup=_TEXT,
    offsetResetPolicy={"enum": ["earliest", "latest"]},
    lagThreshold=_WHOLE,
    sasl={"enum": ["none", "plaintext", "scram_sha256", "scram_sha512"]},
    tls={"enum": ["enable", "disable"]},
)
_KAFKA_PARAMETER: Final = {"enum": ["username", "password", "ca", "cert", "key"]}
_PROMETHEUS: Final = _trigger(
    "prometheus",
    *("serverAddress", "query", "threshold"),
    serverAddress={"type": "string", "pattern": "^https?://"},
    query=_TEXT,
    threshold=_NUMBER,
    ignoreNullValues=_BOOLEAN,
)
_RULE: Final = _object(
    "expr",
    record=_TEXT,
    alert=_TEXT,
    expr=_TEXT,
    labels=_TEXTS,
    annotations=_TEXTS,
    **{"for": _DURATION},
)
_SCHEMAS: Final = {
    ("keda.sh/v1alpha1", "ScaledObject"): _object(
        *("scaleTargetRef", "triggers"),
        scaleTargetRef=_object("name", name=_TEXT),
        minReplicaCount=_COUNT,
        maxReplicaCount=_COUNT | {"minimum": 1},
        pollingInterval=_COUNT | {"minimum": 1},
        cooldownPeriod=_COUNT,
        triggers={"type": "array", "minItems": 1, "items": {"anyOf": [_KAFKA, _PROMETHEUS]}},
    ),
    ("keda.sh/v1alpha1", "TriggerAuthentication"): _object(
        env={
            "type": "array",
            "items": _object("parameter", "name", parameter=_KAFKA_PARAMETER, name=_TEXT),
        },
        secretTargetRef={
            "type": "array",
            "items": _object(
                *("parameter", "name", "key"), parameter=_KAFKA_PARAMETER, name=_TEXT, key=_TEXT
            ),
        },
    ),
    ("monitoring.coreos.com/v1", "ServiceMonitor"): _object(
        *("selector", "endpoints"),
        selector=_object("matchLabels", matchLabels=_TEXTS),
        jobLabel=_TEXT,
        endpoints={
            "type": "array",
            "minItems": 1,
            "items": _object(
                port=_TEXT,
                path=_TEXT,
                interval=_DURATION,
                relabelings={
                    "type": "array",
                    "items": _object(
                        sourceLabels={"type": "array", "items": _TEXT}, targetLabel=_TEXT
                    ),
                },
            ),
        },
    ),
    ("monitoring.coreos.com/v1", "PrometheusRule"): _object(
        groups={
            "type": "array",
            "items": _object(
                "name",
                name=_TEXT,
                interval=_DURATION,
                rules={"type": "array", "items": _RULE},
            ),
        }
    ),
}


def check_custom_resource(document: Mapping[str, Any]) -> bool:
    """Fail when one of the operators would refuse a document. False: it is none of theirs."""
    kind = (document["apiVersion"], document["kind"])
    if kind not in _SCHEMAS:
        return False
    schema = _resource(*kind, _SCHEMAS[kind])
    errors = [
        f"{error.json_path}: {error.message}"
        for error in Draft202012Validator(schema).iter_errors(document)
    ]
    assert not errors, f"{kind[1]} {document['metadata'].get('name')}: {errors}"
    return True
