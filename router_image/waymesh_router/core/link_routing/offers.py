"""Capabilities that containers offer in their opens, for clients that reach them over link routes.

JMS clients check them before they use shared subscriptions, delayed delivery or anonymous producers. Routers announce
them with the addresses of link routes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from waymesh_amqp.codec_values import Symbol

if TYPE_CHECKING:
    from waymesh_amqp.performatives import Open
    from waymesh_amqp.settings import ConnectionSettings

NAMING = ("queue-prefix", "topic-prefix")
"""Properties of a container's open that its clients use; the others describe the container itself."""


@dataclass(frozen=True, slots=True)
class ContainerCapabilities:
    """Capabilities of a container, and its properties NAMING."""

    capabilities: tuple[str, ...] = ()
    naming: Mapping[str, str] = field(default_factory=dict)

    def as_map(self) -> dict[str, object]:
        """For the announcement to other routers."""
        return {"capabilities": list(self.capabilities), "naming": dict(self.naming)}


def capabilities_of(opened: Open) -> ContainerCapabilities:
    """The capabilities in a container's open."""
    properties = opened.properties if isinstance(opened.properties, dict) else {}
    return _offer(opened.offered_capabilities or (), properties)


def read_offer(announced: Mapping[str, object]) -> ContainerCapabilities:
    """The capabilities announced by another router, without invalid values."""
    capabilities, naming = announced.get("capabilities"), announced.get("naming")
    texts = capabilities if isinstance(capabilities, list | tuple) else ()
    return _offer([text for text in texts if isinstance(text, str)], naming if isinstance(naming, Mapping) else {})


def _offer(capabilities: Iterable[str], properties: Mapping[str, object]) -> ContainerCapabilities:
    naming = {name: str(properties[name]) for name in NAMING if isinstance(properties.get(name), str)}
    return ContainerCapabilities(tuple(str(c) for c in capabilities), naming)


def common_capabilities(offers: list[ContainerCapabilities]) -> ContainerCapabilities | None:
    """The capabilities that all of several containers have; None without containers."""
    if not offers:
        return None
    first, *others = offers
    capabilities = tuple(c for c in first.capabilities if all(c in other.capabilities for other in others))
    naming = {k: v for k, v in first.naming.items() if all(other.naming.get(k) == v for other in others)}
    return ContainerCapabilities(capabilities, naming)


def pass_on(settings: ConnectionSettings, own: Iterable[str], offer: ContainerCapabilities | None) -> None:
    """Add the listener's configured capabilities and those of its containers to a client's open."""
    offer = offer or ContainerCapabilities()
    for name, value in offer.naming.items():
        settings.properties.setdefault(Symbol(name), value)
    for capability in (*own, *offer.capabilities):
        if capability not in settings.offered_capabilities:
            settings.offered_capabilities.append(Symbol(capability))
