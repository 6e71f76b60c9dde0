"""Which routers of several files form a network: those that connectors join."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from .source import Entity, Source

_ALL_ADDRESSES = ("", "0.0.0.0", "::")
_LOOPBACK = re.compile(r"localhost|127\..*|::1")
_PORTS = {"": "5672", "amqp": "5672", "amqps": "5671"}


def networks(sources: Sequence[Source]) -> list[list[Source]]:
    """The sources by network, in their order. Edge routers with the same interior routers form a Router of their own,
    and a standalone router is alone."""
    network = list(range(len(sources)))
    for index, source in enumerate(sources):
        for peer in _peers(source, sources):
            old, new = network[position(peer, sources)], network[index]
            network = [new if item == old else item for item in network]
    return [[source for source, item in zip(sources, network) if item == one] for one in dict.fromkeys(network)]


def position(source: Source, sources: Sequence[Source]) -> int:
    """Its index; another one may be equal, as a file may be given twice."""
    return next(index for index, one in enumerate(sources) if one is source)


def targets(connector: Entity, own: Source, sources: Sequence[Source]) -> list[Source]:
    """The routers among the sources to which a connector of role inter-router may lead: those that its host names, else
    all that listen on its port at all their addresses."""
    found = [source for source in sources if source is not own and any(_listens(source, connector))]
    return [source for source in found if _named(connector.text("host"), source)] or found


def _peers(source: Source, sources: Sequence[Source]) -> list[Source]:
    """The other routers that are in the same Router."""
    mode = source.router.text("mode")
    if mode == "edge":
        above = _uplinks(source)
        return [one for one in sources if above and one.router.text("mode") == "edge" and _uplinks(one) == above]
    if mode != "interior":
        return []
    return [peer for connector in inter_router(source) for peer in targets(connector, source, sources)]


def inter_router(source: Source) -> Iterator[Entity]:
    """The connectors to other routers of the network."""
    return (connector for connector in source.of("connector") if connector.text("role") == "inter-router")


def _uplinks(source: Source) -> set[tuple[str, str]]:
    edge = (connector for connector in source.of("connector") if connector.text("role") == "edge")
    return {(connector.text("host"), _port(connector)) for connector in edge}


def _listens(source: Source, connector: Entity) -> Iterator[bool]:
    host = connector.text("host") or "127.0.0.1"
    for listener in source.of("listener"):
        if listener.text("role") == "inter-router" and _port(listener) == _port(connector):
            bound = listener.text("host")
            here = _LOOPBACK.fullmatch(bound) and _LOOPBACK.fullmatch(host)
            yield bool(bound in _ALL_ADDRESSES or bound == host or here)


def _named(host: str, source: Source) -> bool:
    """Whether a host name is that of the router, or of its file."""
    names = {source.router.text("id").lower(), Path(source.place).name.partition(".")[0].lower()}
    bound = {listener.text("host") for listener in source.of("listener")} - {*_ALL_ADDRESSES}
    return bool(host) and (host.lower() in names or host.lower().partition(".")[0] in names or host in bound)


def _port(entity: Entity) -> str:
    text = entity.text("port")
    return _PORTS.get(text, text)
