"""The entrypoint of the job's image: it starts a Spark driver or executor, or else the given command.

Spark on Kubernetes starts its pods with the argument `executor` (the Spark operator: `driver` and the spark-submit
arguments) and passes the rest in environment variables. The script of Spark's own image that does this is not part of
PySpark.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence

BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
OPTION = "SPARK_JAVA_OPT_"
EXECUTOR_OPTIONS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
"""The options of the executor, and the environment variables with their values."""


def command(arguments: Sequence[str], environment: Mapping[str, str], home: str) -> list[str]:
    """The command line to execute; `home` is Spark's folder. Raises KeyError for a missing variable."""
    match list(arguments):
        case ["executor", *_]:
            return _executor(environment, home)
        case ["driver", *rest]:
            address = environment["SPARK_DRIVER_BIND_ADDRESS"]
            submit = [f"{home}/bin/spark-submit", "--conf", f"spark.driver.bindAddress={address}"]
            return [*submit, "--deploy-mode", "client", *rest]
        case []:
            return [sys.executable, "-m", "waymesh_analytics", "--help"]
        case other:
            return other


def _executor(environment: Mapping[str, str], home: str) -> list[str]:
    java = {name: text for name, text in environment.items() if name.startswith(OPTION)}
    options = [java[name] for name in sorted(java, key=lambda name: int(name.removeprefix(OPTION)))]
    memory = environment["SPARK_EXECUTOR_MEMORY"]
    folders = [environment.get("SPARK_CLASSPATH", ""), environment.get("SPARK_CONF_DIR", f"{home}/conf")]
    classpath = ":".join(part for part in (*folders, f"{home}/jars/*") if part)
    named_options = [word for option, name in EXECUTOR_OPTIONS.items() for word in (option, environment[name])]
    return ["java", *options, f"-Xms{memory}", f"-Xmx{memory}", "-cp", classpath, BACKEND, *named_options]


def spark_home() -> str:
    """The folder of the installed PySpark, found without importing it."""
    found = importlib.util.find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("PySpark is not installed")
    return next(iter(found.submodule_search_locations))


if __name__ == "__main__":
    home = os.environ.setdefault("SPARK_HOME", spark_home())
    program = command(sys.argv[1:], os.environ, home)
    os.execvp(program[0], program)
