"""`waymesh run`: the operator of a cluster."""

from __future__ import annotations

import asyncio
import logging
import sys

from waymesh_operator.cluster.monitoring import Metrics, set_up
from waymesh_operator.cluster.operator import Operator, Options
from waymesh_operator.kube import DynamicKube, find_cluster

log = logging.getLogger(__name__)

SWITCH_S = 0.0005
"""Thread switch interval. A management request acquires the interpreter lock several times; with Python's default of
5 ms, it would wait 20 ms and more while watches deliver events."""


def run_operator(options: Options, context: str | None, log_format: str, log_level: str) -> int:
    """Run until SIGTERM or SIGINT. Returns the exit code. Raises WaymeshError when there is no cluster."""
    set_up(log_format, log_level)
    sys.setswitchinterval(SWITCH_S)
    asyncio.run(_run(options, context))
    return 0


async def _run(options: Options, context: str | None) -> None:
    cluster = await find_cluster(context=context)
    metrics = Metrics()
    kube = DynamicKube(cluster.configuration, metrics.asked)
    log.info(
        "operator of %s",
        ", ".join(options.namespaces) or "all namespaces",
        extra={"server": cluster.configuration.host},
    )
    try:
        await Operator(options, cluster, kube, metrics).run()
    finally:
        await kube.close()
