"""Issuer and public keys of the cluster's ServiceAccount tokens, read from the API server for all meshes."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace

from waymesh_operator.errors import KubeError
from waymesh_operator.kube import KubeClient
from waymesh_operator.router_entities.tokens import UNKNOWN, ServiceAccountKeys, service_account_keys

log = logging.getLogger(__name__)
CONFIGURATION, KEYS = "/.well-known/openid-configuration", "/openid/v1/jwks"
"""Paths of the API server. The JWKS is read here, even if the configuration names another URL."""
EVERY_S = 60.0


@dataclass(slots=True)
class ServiceAccounts:
    """Reads both documents again when they are EVERY_S old. After a failure, the earlier ones stay in use."""

    _known: ServiceAccountKeys = UNKNOWN
    _read_at: float = float("-inf")

    async def read(self, kube: KubeClient, now: float, live: bytes) -> ServiceAccountKeys:
        """Return the current issuer and keys; `error`: why they are unknown or out of date.

        `live`: the routers' file (`ServiceAccountKeys.file`), for an operator that has not read the documents yet.
        """
        if now - self._read_at < EVERY_S:
            return self._known
        try:
            configuration = await kube.document(CONFIGURATION)
            keys = await kube.document(KEYS)
            self._known = service_account_keys(configuration.get("issuer"), keys.get("keys"))
        except (KubeError, ValueError) as error:
            log.warning("cannot read the keys of ServiceAccount tokens: %s", error)
            return replace(self._known if self._known.issuer else _parsed(live), error=str(error))
        self._read_at = now
        return self._known


def _parsed(live: bytes) -> ServiceAccountKeys:
    """Parse a file; empty if there is none, or it is not one of ours."""
    try:
        found = json.loads(live)
        return service_account_keys(found.get("issuer"), found.get("keys"))
    except (ValueError, AttributeError):
        return UNKNOWN
