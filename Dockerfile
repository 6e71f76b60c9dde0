# The images of the operator and of the analytics job. In the repository's root:
#   docker build --target operator -t waymesh-operator .
#   docker build --target analytics -t waymesh-analytics .
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev libssl-dev pkg-config
WORKDIR /src
COPY constraints.txt ./
RUN pip install --no-cache-dir -c constraints.txt setuptools wheel cython
# By itself, because it takes longest and changes seldom.
RUN pip install --no-cache-dir -c constraints.txt --prefix=/made python-qpid-proton
COPY pyproject.toml setup.py MANIFEST.in README.md LICENSE CHANGELOG.md ./
COPY tools/build_engine.py tools/
COPY router_image router_image
COPY operator operator
COPY crds crds
COPY examples examples

FROM build AS build-operator
RUN PYTHONPATH=$(echo /made/lib/python*/site-packages) \
    pip install --no-cache-dir -c constraints.txt --no-build-isolation --prefix=/made ".[operator]"

FROM build AS build-analytics
RUN PYTHONPATH=$(echo /made/lib/python*/site-packages) \
    pip install --no-cache-dir -c constraints.txt --no-build-isolation --prefix=/made ".[analytics]"

FROM python:${PYTHON}-slim AS analytics
# Spark is a Java program.
RUN apt-get update && apt-get install -y --no-install-recommends default-jre-headless && rm -rf /var/lib/apt/lists/*
COPY --from=build-analytics /made /usr/local
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
ENTRYPOINT ["spark-submit"]

# The last one, so that it is built when no target is named.
FROM python:${PYTHON}-slim AS operator
COPY --from=build-operator /made /usr/local
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
EXPOSE 8080
CMD ["python", "-m", "waymesh_operator", "run"]
