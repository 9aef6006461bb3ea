# One image for all roles: the arguments of the container are those of manage.py.

FROM python:3.13.16-slim-trixie AS build
WORKDIR /app
RUN python -m venv /venv
COPY requirements.txt constraints.txt ./
# A private index comes as a secret, which leaves no trace: `--secret id=pip,src=pip.conf`.
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    /venv/bin/python -m pip install --no-cache-dir --disable-pip-version-check \
        --only-binary :all: -r requirements.txt \
    && /venv/bin/python -m pip uninstall --yes pip
COPY . .
# The root file system is read-only: what is not compiled here would be compiled at every start.
RUN chmod -R a+rX . && /venv/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash /venv/lib .


FROM python:3.13.16-slim-trixie
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Chronos" \
      org.opencontainers.image.description="A durable, distributed job scheduler" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="docker.io/library/python:3.13.16-slim-trixie"
# The base brings pip, and a wheel of it for ensurepip. Nothing here shall install anything.
RUN find / -xdev -depth \( -name pip -o -name 'pip[0-9]*' -o -name 'pip-[0-9]*' -o -name ensurepip \) \
        -exec rm -rf {} +
RUN groupadd --gid 10001 chronos \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp \
        --shell /usr/sbin/nologin chronos
COPY --from=build /venv /venv
COPY --from=build /app /app
ENV PATH=/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    API_HOST=0.0.0.0 \
    METRICS_HOST=0.0.0.0
WORKDIR /app
# By number, so that Kubernetes can see that it is not root.
USER 10001:10001
EXPOSE 8080 9100
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-m", "chronos_site.healthcheck"]
ENTRYPOINT ["python", "manage.py"]
