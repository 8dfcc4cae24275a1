# The image that the manifests name: docker build -t fairlead .
FROM python:3.13-slim AS build
WORKDIR /src
COPY requirements/run.txt requirements/
RUN python -m venv /venv && /venv/bin/pip install --no-cache-dir --require-hashes -r requirements/run.txt
COPY . .
RUN /venv/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.13-slim
COPY --from=build /venv /venv
USER 65532:65532
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1
ENTRYPOINT ["fairlead"]
