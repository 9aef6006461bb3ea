#!/usr/bin/env bash
# Build the image and run every role from it, without a Docker engine.
#
# deploy/rehearse_image.sh                 build, run all roles, run jobs, stop in good order
# deploy/rehearse_image.sh --unit-tests    then the unit tests on the image's Python
#
# Debian's buildah builds the Dockerfile unchanged; what its FROM names is made by debootstrap,
# because no registry is asked: the same Debian, with Debian's Python of the same minor version.
# A container here is what Docker's is to a process: it is process 1 of its own PID namespace, its
# root file system is read-only, /tmp is a tmpfs, it has no capability and can gain none. Only the
# network is the host's. Needs root and, once, `make setup`.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly SUITE=trixie
readonly BASE=.devstack/image-base
readonly PATIENCE=90
readonly DRAIN_TIMEOUT=30
readonly PYTHON=.venv/bin/python

say() { printf '%6.1f s  %s\n' "$(since "$BEGAN_AT")" "$*"; }
since() { awk -v from="$1" -v to="$EPOCHREALTIME" 'BEGIN { print to - from }'; }
fail() {
    echo "rehearsal: $*" >&2
    exit 1
}

# --- what it needs, and what it leaves ---------------------------------------------------------

prepare() {
    ((EUID == 0)) || fail "chroot and mounts need root: run it with sudo."
    [[ -x $PYTHON ]] || fail "there is no .venv: run \`make setup\` once."
    local missing=()
    command -v buildah >/dev/null || missing+=(buildah)
    command -v debootstrap >/dev/null || missing+=(debootstrap debian-archive-keyring)
    if ((${#missing[@]})); then
        command -v apt-get >/dev/null || fail "install ${missing[*]}: there is no apt-get here."
        apt-get -q update
        DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "${missing[@]}"
    fi
    mkdir -p "$BASE"
    WORK=$(mktemp -d "$PWD/.devstack/rehearsal.XXXXXX")
    export BUILDAH_ISOLATION=chroot CONTAINERS_STORAGE_CONF="$WORK/storage.conf"
    # A store of its own: whatever else is built on this machine is left alone.
    printf '[storage]\ndriver = "%s"\ngraphroot = "%s"\nrunroot = "%s"\n' \
        "${STORAGE_DRIVER:-vfs}" "$WORK/images" "$WORK/run" >"$CONTAINERS_STORAGE_CONF"
    trap clean_up EXIT
    trap 'exit 130' INT TERM HUP
}

clean_up() {
    local status=$?
    trap - EXIT
    # Processes and mounts die with the process that made their namespaces.
    for pid in "${CONTAINERS[@]}"; do
        kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    if [[ -n ${SERVERS:-} ]]; then
        kill -TERM "$SERVERS" 2>/dev/null || true
        wait "$SERVERS" || true
    fi
    if ((status)); then
        for log in "$WORK"/*.log; do
            [[ -s $log ]] && echo "--- the end of $(basename "$log")" && tail -n 15 "$log"
        done >&2
    fi
    buildah umount --all >/dev/null 2>&1 || true
    buildah rm --all >/dev/null 2>&1 || true
    buildah rmi --all --force >/dev/null 2>&1 || true
    if awk '{ print $2 }' /proc/self/mounts | grep -qF "$WORK/images/"; then
        echo "rehearsal: $WORK still has mounts, and stays." >&2
        exit 1
    fi
    rm -rf "$WORK"
    exit "$status"
}

# attend NAME: waits for what was just started in the background. In the foreground a signal would
# act only when that has ended.
attend() {
    local name=$1 status=0
    CONTAINERS[$name]=$!
    wait "$!" || status=$?
    unset "CONTAINERS[$name]"
    return "$status"
}

# apart COMMAND...: in namespaces of its own, so that nothing of it outlives this script.
apart() {
    unshare --mount --pid --fork --kill-child=KILL --mount-proc "$@" &
    attend "$1"
}

# --- the image ---------------------------------------------------------------------------------

make_base() {
    local image=$1 root=$WORK/base container
    if [[ ! -s $BASE/$SUITE.tar ]]; then
        say "debootstrap makes a $SUITE with Python"
        apart debootstrap --variant=minbase --include=python3-venv,ca-certificates,netbase,tzdata \
            "$SUITE" "$root" >"$WORK/debootstrap.log"
        tar -C "$root" --exclude=./var/cache/apt --exclude=./var/lib/apt/lists \
            -cf "$BASE/$SUITE.tar.part" .
        mv "$BASE/$SUITE.tar.part" "$BASE/$SUITE.tar"
        rm -rf "$root"
    fi
    container=$(buildah from scratch)
    buildah add -q "$container" "$BASE/$SUITE.tar" / >/dev/null
    # Where the official image has it.
    buildah config --env PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin \
        "$container"
    buildah run "$container" -- ln -s /usr/bin/python3 /usr/local/bin/python
    buildah commit -q --rm "$container" "$image" >/dev/null
}

build() {
    local secret=()
    FROM=$(sed -n 's/^FROM \([^ ]*\).*/\1/p' Dockerfile | sort -u)
    [[ $FROM == python:3.*-slim-$SUITE ]] || fail "FROM names $FROM: expected one $SUITE image."
    make_base "docker.io/library/$FROM"
    say "the base is there, as $FROM"
    [[ -s /etc/pip.conf ]] && secret=(--secret "id=pip,src=/etc/pip.conf")
    # The certificates of this machine: a proxy in between may have one of its own.
    apart buildah build --format docker --pull-never --volume /etc/ssl/certs:/etc/ssl/certs:ro \
        "${secret[@]}" --tag "$IMAGE" . >"$WORK/build.log" 2>&1 || fail "the build failed."
    say "$IMAGE is built: $(buildah images --format '{{.Size}}' "$IMAGE")"
    MOUNTED=$(buildah from --pull-never "$IMAGE")
    ROOT=$(buildah mount "$MOUNTED")
    mapfile -t ENTRYPOINT < <(of_image '{{range .Docker.Config.Entrypoint}}{{println .}}{{end}}')
    mapfile -t ENVIRONMENT < <(of_image '{{range .Docker.Config.Env}}{{println .}}{{end}}')
    mapfile -t HEALTHCHECK < <(of_image '{{range .Docker.Config.Healthcheck.Test}}{{println .}}{{end}}')
    WORKDIR=$(of_image '{{.Docker.Config.WorkingDir}}')
    IDS=$(of_image '{{.Docker.Config.User}}')
    STOP_SIGNAL=$(of_image '{{.Docker.Config.StopSignal}}')
    [[ ${HEALTHCHECK[0]} == CMD ]] || fail "the health check wants a shell."
    HEALTHCHECK=("${HEALTHCHECK[@]:1}")
}

of_image() { buildah inspect --type image --format "$1" "$IMAGE" | sed '/^$/d'; }

inspect() {
    [[ $IDS == 10001:10001 ]] || fail "the image runs as $IDS."
    local extra installer
    for extra in app/tests app/.git app/docs app/.devstack usr/bin/gcc root/.cache; do
        [[ ! -e $ROOT/$extra ]] || fail "the image contains /$extra."
    done
    installer=$(find "$ROOT" \( -name pip -o -name 'pip[0-9]*' -o -name 'pip-[0-9]*' \
        -o -name ensurepip \))
    [[ -z $installer ]] || fail "the image can install packages: $installer"
    # The container's shell shall read it.
    # shellcheck disable=SC2016
    run_once isolation bash -c 'set -eu
        [[ $$ == 1 && $(id -u) == 10001 ]]
        touch /tmp/allowed
        for folder in / /app /venv /var/tmp; do ! touch "$folder/refused" 2>/dev/null; done
        [[ $(sed -n "s/^CapBnd:\t//p" /proc/self/status) == 0000000000000000 ]]
        [[ $(sed -n "s/^NoNewPrivs:\t//p" /proc/self/status) == 1 ]]' ||
        fail "the isolation is not what it should be."
    run_once version python -c 'import sys; print(sys.version.split()[0], end="")'
    say "it is process 1, user 10001, read-only, without capabilities; Python $(<"$WORK/version.log")"
}

# --- containers --------------------------------------------------------------------------------

# run NAME COMMAND...: in a container of the image; its output goes to NAME.log.
run() {
    local name=$1
    shift
    # The shell in the new namespaces shall read it.
    # shellcheck disable=SC2016
    exec unshare --mount --pid --ipc --uts --fork --kill-child=KILL bash -euc '
        root=$1 ids=$2 workdir=$3
        shift 3
        mount --bind "$root" "$root"
        mount -o remount,bind,ro "$root"
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        mount -t tmpfs -o mode=1777,nosuid,nodev,noexec tmpfs "$root/tmp"
        exec chroot "$root" setpriv --reuid="${ids%:*}" --regid="${ids#*:}" --clear-groups \
            --no-new-privs --inh-caps=-all --bounding-set=-all \
            env --chdir="$workdir" --ignore-environment "$@"' \
        container "$ROOT" "$IDS" "$WORKDIR" "${ENVIRONMENT[@]}" "${SETTINGS[@]}" "$@" \
        >"$WORK/$name.log" 2>&1
}

run_once() {
    (run "$@") &
    attend "$1"
}

# start NAME PORT ARGUMENTS...: a role, by the image's entry point.
start() {
    local name=$1 port=$2 unshared children=()
    shift 2
    (run "$name" METRICS_PORT="$port" "${ENTRYPOINT[@]}" "$@") &
    unshared=$!
    CONTAINERS[$name]=$unshared
    PORTS[$name]=$port
    until read -r -a children <<<"$(<"/proc/$unshared/task/$unshared/children")" &&
        ((${#children[@]})); do
        sleep 0.05
    done
    PROCESSES[$name]=${children[0]}
}

# healthy NAME [PATH]: what Docker's health check would find.
healthy() {
    nsenter --target "${PROCESSES[$1]}" --mount --pid --root --setuid "${IDS%:*}" \
        --setgid "${IDS#*:}" env --chdir="$WORKDIR" --ignore-environment "${ENVIRONMENT[@]}" \
        "${SETTINGS[@]}" METRICS_PORT="${PORTS[$1]}" "${HEALTHCHECK[@]}" "${@:2}"
}

wait_ready() {
    local give_up_at=$((SECONDS + PATIENCE))
    until healthy "$1" /readyz >/dev/null 2>&1; do
        kill -0 "${CONTAINERS[$1]}" 2>/dev/null || fail "$1 has ended."
        ((SECONDS < give_up_at)) || fail "$1 is not ready after $PATIENCE s."
        sleep 0.2
    done
}

stop() {
    local name=$1 status=0 asked_at=$EPOCHREALTIME give_up_at=$((SECONDS + DRAIN_TIMEOUT))
    kill -s "$STOP_SIGNAL" "${PROCESSES[$name]}"
    while kill -0 "${CONTAINERS[$name]}" 2>/dev/null; do
        ((SECONDS < give_up_at)) || fail "$name goes on $DRAIN_TIMEOUT s after $STOP_SIGNAL."
        sleep 0.05
    done
    wait "${CONTAINERS[$name]}" || status=$?
    ((status == 0)) || fail "$name ended with status $status."
    unset "CONTAINERS[$name]"
    printf -v asked_at '%.1f' "$(since "$asked_at")"
    say "$name stopped $asked_at s after $STOP_SIGNAL, with status 0"
}

# --- the rehearsal -----------------------------------------------------------------------------

free_port() { "$PYTHON" -c 'from devstack.process import free_port; print(free_port())'; }

start_servers() {
    local give_up_at=$((SECONDS + PATIENCE))
    : >"$WORK/servers.log"
    env -u MONGO_URI -u KAFKA_BROKERS -u ETCD_ENDPOINTS -u REDIS_URL -u LEADER_BACKEND \
        PYTHONUNBUFFERED=1 DEVSTACK_DIR="$WORK/servers" DEVSTACK_MONGO_PORT="$(free_port)" \
        DEVSTACK_KAFKA_PORT="$(free_port)" DEVSTACK_ETCD_PORT="$(free_port)" \
        "$PYTHON" manage.py devstack --servers-only >>"$WORK/servers.log" 2>&1 &
    SERVERS=$!
    until grep -q 'Ctrl-C stops everything' "$WORK/servers.log"; do
        kill -0 "$SERVERS" 2>/dev/null || fail "the servers did not start."
        ((SECONDS < give_up_at)) || fail "the servers are not there after $PATIENCE s."
        sleep 0.1
    done
    API_PORT=$(free_port)
    mapfile -t SETTINGS < <(sed -n 's/^export \([A-Z_]*\)="\(.*\)"$/\1=\2/p' "$WORK/servers.log")
    SETTINGS+=(API_HOST=127.0.0.1 METRICS_HOST=127.0.0.1 API_PORT="$API_PORT" DISPATCH=fanout
        DRAIN_TIMEOUT="${DRAIN_TIMEOUT}s" SECRET_KEY="$("$PYTHON" -c 'import secrets; print(secrets.token_hex(32))')")
    say "MongoDB, Kafka and etcd answer"
}

rehearse() {
    start_servers
    run_once migrate "${ENTRYPOINT[@]}" migrate || fail "migrate failed."
    say "migrate has made tables, indexes and topics"
    start api "$(free_port)" runapi --workers 2
    start scheduler "$(free_port)" runscheduler
    start fanout "$(free_port)" runfanout
    start executor "$(free_port)" runexecutor --type all
    start reaper "$(free_port)" runreaper
    for name in "${!CONTAINERS[@]}"; do wait_ready "$name"; done
    say "all five roles are ready"
    for name in "${!CONTAINERS[@]}"; do
        healthy "$name" || fail "the health check of $name fails."
    done
    # In a subshell, so that it stays a question.
    ! (PORTS[api]=1 && healthy api) 2>/dev/null || fail "the health check passes without a role."
    say "every role passes the image's health check"
    run_once loadtest "${ENTRYPOINT[@]}" loadtest --url "http://127.0.0.1:$API_PORT" \
        --rate 20 --duration 5s --wait "${PATIENCE}s" || fail "not every job was completed."
    say "jobs were submitted over HTTP and are completed:"
    sed 's/^/            /' "$WORK/loadtest.log"
    for name in api fanout executor scheduler reaper; do stop "$name"; done
}

# The suite needs more than the image has: a virtual environment of its own, on the image's base.
unit_tests() {
    local container kustomize home=$HOME passed=0
    "$PYTHON" -m tools.kustomize
    kustomize=$("$PYTHON" -c 'from tools.kustomize import find; print(find())')
    container=$(buildah from --pull-never "$FROM")
    say "the unit tests get their requirements, on the image's Python"
    # Kafka's jars are those of whoever made the checkout ready.
    [[ -z ${SUDO_USER:-} ]] || home=$(getent passwd "$SUDO_USER" | cut -d: -f6)
    mkdir -p "$home/.m2"
    apart buildah run --volume "$PWD:/src:ro" --volume /etc/ssl/certs:/etc/ssl/certs:ro \
        --volume "$home/.m2:/root/.m2:ro" --volume "$kustomize:/usr/local/bin/kustomize:ro" \
        --workingdir /src "$container" -- bash -euc '
        python -m venv /venv
        /venv/bin/pip install -q --no-cache-dir -r requirements-dev.txt
        exec /venv/bin/python -m pytest -q -p no:cacheprovider tests/unit' \
        >"$WORK/unit.log" 2>&1 || passed=$?
    tail -n 8 "$WORK/unit.log"
    ((passed == 0)) || fail "the unit tests fail on the image's Python."
}

declare -A CONTAINERS=() PROCESSES=() PORTS=()
SETTINGS=()
BEGAN_AT=$EPOCHREALTIME
IMAGE=chronos:$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
case ${1:-} in
    '' | --unit-tests) ;;
    *) fail "usage: $0 [--unit-tests]" ;;
esac
prepare
build
inspect
rehearse
[[ ${1:-} != --unit-tests ]] || unit_tests
say "the rehearsal has passed"
