# The images of the operator and of the analytics job. In the repository's root:
#   docker build --target operator -t waymesh-operator .
#   docker build --target analytics -t waymesh-analytics .
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev libssl-dev pkg-config
WORKDIR /src
COPY constraints.txt ./
RUN pip install --no-cache-dir -c constraints.txt setuptools wheel cython
# Its packages are not among those that it lists.
RUN python -m venv /sbom && /sbom/bin/pip install --no-cache-dir -c constraints.txt cyclonedx-bom
# By itself, because it takes longest and changes seldom.
RUN pip install --no-cache-dir -c constraints.txt --prefix=/made python-qpid-proton
COPY pyproject.toml setup.py MANIFEST.in README.md LICENSE CHANGELOG.md ./
COPY tools/build_engine.py tools/
COPY router_image router_image
COPY operator operator
COPY spark spark
COPY crds crds
COPY examples examples

FROM build AS build-operator
RUN PYTHONPATH=$(echo /made/lib/python*/site-packages) \
    pip install --no-cache-dir -c constraints.txt --no-build-isolation --prefix=/made ".[operator]"
# A command whose packages are not here; it belongs to the router's image.
RUN rm /made/bin/waymesh-upload
RUN mkdir -p /made/share/waymesh && PYTHONPATH=$(echo /made/lib/python*/site-packages) /sbom/bin/cyclonedx-py environment \
    -S --pyproject pyproject.toml --output-reproducible -o /made/share/waymesh/sbom.cdx.json python

FROM build AS build-analytics
RUN PYTHONPATH=$(echo /made/lib/python*/site-packages) \
    pip install --no-cache-dir -c constraints.txt --no-build-isolation --prefix=/made ".[analytics]"
# Commands whose packages are not here; they belong to the other images.
RUN rm /made/bin/kubectl-waymesh /made/bin/waymesh /made/bin/waymesh-router /made/bin/waymesh-upload
RUN mkdir -p /made/share/waymesh && PYTHONPATH=$(echo /made/lib/python*/site-packages) /sbom/bin/cyclonedx-py environment \
    -S --pyproject pyproject.toml --output-reproducible -o /made/share/waymesh/sbom.cdx.json python

# Half of PySpark is for what the job does not do.
RUN cd /made/lib/python*/site-packages/pyspark && xargs -I{} sh -c 'rm -r {}' < /src/spark/left_out.txt

# What s3a:// addresses need.
FROM maven:3-eclipse-temurin-17 AS jars
COPY spark/s3a/pom.xml /jars/
RUN mvn -q -B -ntp -f /jars/pom.xml dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=/jars/made

FROM python:${PYTHON}-slim AS analytics
ARG PYTHON
LABEL org.opencontainers.image.title="Waymesh analytics job" \
    org.opencontainers.image.description="Reports on what AMQP 1.0 routers of Waymesh exported, by Spark" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.base.name="docker.io/library/python:${PYTHON}-slim"
# Spark is a Java program. Hadoop must find the user by name.
RUN apt-get update && apt-get install -y --no-install-recommends default-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* && useradd --uid 10001 --home-dir /tmp --no-create-home waymesh
COPY --from=build-analytics /made /usr/local
COPY --from=jars /jars/made /tmp/jars
COPY spark/analyze.py /opt/waymesh/
RUN mv /tmp/jars/*.jar "$(python -c 'import pyspark; print(*pyspark.__path__)')/jars" && rmdir /tmp/jars
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 WAYMESH_SPARK_ARCHIVE=/opt/waymesh/spark.jsa
# A run leaves an archive of Spark's classes, which Java writes when Python has ended: later ones start in half the time.
COPY examples/telemetry /tmp/telemetry
RUN python -m waymesh_analytics /tmp/telemetry --out /tmp/report --quiet \
    && while pgrep -x java > /dev/null; do sleep 1; done \
    && chmod a+r "$WAYMESH_SPARK_ARCHIVE" && rm -r /tmp/report /tmp/telemetry
USER 10001:10001
ENTRYPOINT ["python", "-m", "waymesh_analytics.entrypoint"]

# The last one, so that it is built when no target is named.
FROM python:${PYTHON}-slim AS operator
ARG PYTHON
LABEL org.opencontainers.image.title="Waymesh operator" \
    org.opencontainers.image.description="Runs AMQP 1.0 router meshes on Kubernetes" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.base.name="docker.io/library/python:${PYTHON}-slim"
COPY --from=build-operator /made /usr/local
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
EXPOSE 8080
CMD ["python", "-m", "waymesh_operator", "run"]
