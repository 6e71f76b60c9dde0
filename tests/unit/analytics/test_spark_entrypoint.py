"""Entry point of the job's image: a Spark executor or driver, or a given command."""

from __future__ import annotations

import sys

import pytest

from waymesh_analytics.entrypoint import command

pytestmark = pytest.mark.engine_independent

TOLD = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.1:7078",
    "SPARK_EXECUTOR_ID": "1",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.2",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "exec-1",
    "SPARK_EXECUTOR_MEMORY": "512m",
    "SPARK_CONF_DIR": "/opt/spark/conf",
    **{f"SPARK_JAVA_OPT_{number}": f"-Dn={number}" for number in range(11)},
}


def test_an_executor_gets_its_options_in_their_order() -> None:
    words = command(["executor"], TOLD, "/spark")
    assert words[0] == "java"
    assert words[1:12] == [f"-Dn={number}" for number in range(11)]
    assert words[12:16] == ["-Xms512m", "-Xmx512m", "-cp", "/opt/spark/conf:/spark/jars/*"]
    assert words[-4:] == ["--resourceProfileId", "0", "--podName", "exec-1"]


def test_a_driver_is_submitted_where_it_is() -> None:
    words = command(["driver", "local:///job.py", "a"], {"SPARK_DRIVER_BIND_ADDRESS": "10.0.0.1"}, "/spark")
    assert words == [
        "/spark/bin/spark-submit", "--conf", "spark.driver.bindAddress=10.0.0.1", "--deploy-mode", "client",
        "local:///job.py", "a",
    ]  # fmt: skip


def test_other_words_are_a_program() -> None:
    assert command(["python", "-m", "waymesh_analytics", "/input"], {}, "/spark")[2] == "waymesh_analytics"
    assert command([], {}, "/spark") == [sys.executable, "-m", "waymesh_analytics", "--help"]
