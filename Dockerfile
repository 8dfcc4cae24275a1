# The image that the manifests name: docker build -t fairlead:0.2.0 .
# It holds what the `run` commands and `serve` need and no more: extras webhooks, serve, redis. Nothing is
# written below its root, so it runs with a read-only one, as a user without a name.
# The base is Python 3.13.15 on Debian 13, by its digest: the same for each build until it is raised.
FROM python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b AS build
WORKDIR /src
COPY requirements/image.txt requirements/build.txt requirements/
RUN python -m venv --without-pip /venv
RUN pip --python /venv/bin/python install --require-hashes -r requirements/image.txt
RUN pip install --require-hashes -r requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /dist .
RUN pip --python /venv/bin/python install --no-deps --no-index /dist/*.whl

FROM python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
ENTRYPOINT ["fairlead"]
