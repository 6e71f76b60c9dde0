"""Builds the management agent of a router from the adapters of all its entity types.

Types without an adapter have no entities; a CREATE of them is answered with 501.
"""

from __future__ import annotations

import sys

from waymesh_router.management.agent import Agent
from waymesh_router.management.changes import change_report
from waymesh_router.management.configured import configured
from waymesh_router.management.dispatch_rows import dispatch_rows
from waymesh_router.management.policies import policies
from waymesh_router.management.tables import tables
from waymesh_router.management.tenant_view import tenant_adapters
from waymesh_router.management.view import CoreView, RouterView

__all__ = ["CoreView", "RouterView", "build_agent"]


def build_agent(view: RouterView) -> Agent:
    """The management agent of a router. `Agent.configure` takes the entities of the configuration file."""
    adapters = [*configured(view), *policies(view), *tables(view)]
    by_name = {adapter.entity_type.name: adapter for adapter in adapters}
    log = view.core.log
    return Agent(
        by_name | dispatch_rows(view.core),
        log=lambda level, text: log("AGENT", level, text),
        changed=change_report(view.core),
        recent_log=lambda limit: view.recent_log(sys.maxsize if limit is None else limit),
        check_policy=view.check_policy,
        for_tenant=lambda tenant: tenant_adapters(view, by_name, tenant),
    )
