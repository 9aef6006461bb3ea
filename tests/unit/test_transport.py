"""TLS and users as settings: what contradicts itself is refused, and nothing secret is shown."""

from __future__ import annotations

import pytest

from chronos_site import env
from chronos_site.config import config_from
from jobs.errors import ConfigError

SASL = {
    "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
    "KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
    "KAFKA_SASL_USERNAME": "chronos",
    "KAFKA_SASL_PASSWORD": "hidden-word",
}
HERE = __file__


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({**SASL, "KAFKA_SASL_USERNAME": ""}, "KAFKA_SASL_USERNAME must be set with"),
        ({**SASL, "KAFKA_SASL_PASSWORD": ""}, "KAFKA_SASL_PASSWORD must be set with"),
        ({**SASL, "KAFKA_SASL_MECHANISM": ""}, "KAFKA_SASL_MECHANISM must be set with"),
        ({**SASL, "KAFKA_SASL_MECHANISM": "GSSAPI"}, "must be one of: PLAIN, SCRAM-SHA-256"),
        ({**SASL, "KAFKA_SECURITY_PROTOCOL": "SSL"}, "KAFKA_SASL_MECHANISM has no effect"),
        ({**SASL, "KAFKA_SECURITY_PROTOCOL": "TLS"}, "must be one of: PLAINTEXT, SSL"),
        ({"KAFKA_SASL_PASSWORD": "hidden-word"}, "KAFKA_SASL_PASSWORD has no effect"),
        ({"KAFKA_SSL_CA": HERE}, "KAFKA_SSL_CA has no effect with KAFKA_SECURITY_PROTOCOL=PLAI"),
        ({**SASL, "KAFKA_SSL_CA": "/no/ca.pem"}, "KAFKA_SSL_CA names '/no/ca.pem', which is no"),
        ({**SASL, "KAFKA_SSL_CERT": HERE}, "KAFKA_SSL_CERT and KAFKA_SSL_KEY must be set to"),
        ({**SASL, "KAFKA_SSL_KEY": HERE}, "KAFKA_SSL_CERT and KAFKA_SSL_KEY must be set to"),
        ({"ETCD_TLS_CA": "/no/ca.pem"}, "ETCD_TLS_CA names '/no/ca.pem', which is no file"),
        ({"ETCD_TLS_CERT": HERE, "ETCD_TLS_KEY": HERE}, "ETCD_TLS_CERT has no effect without"),
        ({"ETCD_TLS_CA": HERE, "ETCD_TLS_CERT": HERE}, "ETCD_TLS_CERT and ETCD_TLS_KEY must be"),
        ({"ETCD_USERNAME": "chronos"}, "ETCD_USERNAME and ETCD_PASSWORD must be set together"),
        ({"ETCD_PASSWORD": "hidden-word"}, "ETCD_USERNAME and ETCD_PASSWORD must be set together"),
        (
            {"MONGO_URI": "mongodb://u:hidden-word@h/?tls=true&tlscafile=/no/ca.pem"},
            "tlsCAFile in MONGO_URI names '/no/ca.pem'",
        ),
        (
            {"MONGO_URI": "mongodb://u:hidden-word@h/?tlsCertificateKeyFile=%2Fno%2Fcert.pem"},
            "tlsCertificateKeyFile in MONGO_URI names '/no/cert.pem'",
        ),
    ],
)
def test_a_contradiction_is_refused_at_start(variables: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        config_from(env.read(variables))

    assert sentence in str(refused.value)
    assert "hidden-word" not in str(refused.value)


def test_what_can_be_used_reaches_those_who_connect() -> None:
    config = config_from(
        env.read({**SASL, "ETCD_USERNAME": "chronos", "ETCD_PASSWORD": "hidden-word"})
    )

    assert config.broker.security.username == "chronos"
    assert config.broker.security.is_encrypted
    assert config.election.security.password == SASL["KAFKA_SASL_PASSWORD"]


def test_no_secret_is_in_the_representation_of_the_configuration() -> None:
    variables = {
        **SASL,
        "MONGO_URI": "mongodb://u:hidden-word@h/",
        "REDIS_URL": "redis://:hidden-word@h:1/0",
        "ETCD_USERNAME": "chronos",
        "ETCD_PASSWORD": "hidden-word",
    }

    assert "hidden-word" not in repr(config_from(env.read(variables)))
