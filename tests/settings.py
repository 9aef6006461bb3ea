"""Django's settings for the tests: the project's, whatever the caller's environment says."""

import os

from chronos_site import env

KEPT = {"MONGOD_BIN", "ETCD_BIN", "REDIS_BIN", "KAFKA_HOME", "JAVA_HOME", "CHROMIUM_BIN"}
"""What to start is the caller's choice; how the project is set up is each test's."""

for name in env.VARIABLES.keys() - KEPT:
    os.environ.pop(name, None)

from chronos_site.settings import *  # noqa: E402, F403 (only now is the environment clean)
