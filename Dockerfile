# The image that the manifests name: docker build -t fairlead:0.1.0.dev0 .
# It holds what the `run` commands and `serve` need and no more: extras webhooks, serve, redis. Nothing is
# written below its root, so it runs with a read-only one, as a user without a name.
FROM python:3.13-slim AS build
WORKDIR /src
COPY requirements/image.txt requirements/build.txt requirements/
RUN python -m venv --without-pip /venv
RUN pip --python /venv/bin/python install --require-hashes -r requirements/image.txt
RUN pip install --require-hashes -r requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /dist .
RUN pip --python /venv/bin/python install --no-deps --no-index /dist/*.whl

FROM python:3.13-slim
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
ENTRYPOINT ["fairlead"]
