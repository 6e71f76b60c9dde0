"""What the image of the job begins with: a driver or an executor where Spark asks for one, else what it is told.

Spark on Kubernetes starts its pods with the word `executor` (or, for Spark's operator, `driver` and what to submit) and
tells the rest in the environment. The image that Spark's distribution brings for that is not in PySpark.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence

BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
OPTION = "SPARK_JAVA_OPT_"
WORDS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
"""What the executor is told, and the variable that says it."""


def command(words: Sequence[str], environment: Mapping[str, str], home: str) -> list[str]:
    """The program to become, with its arguments. `home` is Spark's folder. Raises KeyError for what Spark left out."""
    match list(words):
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
    named = {name: text for name, text in environment.items() if name.startswith(OPTION)}
    options = [named[name] for name in sorted(named, key=lambda name: int(name.removeprefix(OPTION)))]
    memory = environment["SPARK_EXECUTOR_MEMORY"]
    folders = [environment.get("SPARK_CLASSPATH", ""), environment.get("SPARK_CONF_DIR", f"{home}/conf")]
    classpath = ":".join(part for part in (*folders, f"{home}/jars/*") if part)
    told = [word for option, name in WORDS.items() for word in (option, environment[name])]
    return ["java", *options, f"-Xms{memory}", f"-Xmx{memory}", "-cp", classpath, BACKEND, *told]


def spark_home() -> str:
    """The folder of the installed PySpark, without importing it."""
    found = importlib.util.find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("PySpark is not installed")
    return next(iter(found.submodule_search_locations))


if __name__ == "__main__":
    home = os.environ.setdefault("SPARK_HOME", spark_home())
    become = command(sys.argv[1:], os.environ, home)
    os.execvp(become[0], become)
