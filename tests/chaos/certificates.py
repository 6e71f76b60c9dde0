"""The certificates of a run over TLS: renewed, expired, and of another authority, while all is in use."""

from __future__ import annotations

import itertools
from pathlib import Path

from tests.chaos.schedule import ALL, Planned
from tests.kit.certificates import LASTS_S, Authority, KeyPair
from tests.kit.files import replace_file
from tests.kit.process import section

PROFILE = "chaos"
HOSTS = ("127.0.0.1", "localhost")
EXPIRED_S = -60.0


class Certificates:
    """A certificate of each router for listeners and connectors, and `trusted`, the authorities for all routers and
    clients. Files are replaced one by one, as by whoever renews certificates."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)
        self._authority = self._new_authority()
        self._pairs: dict[str, KeyPair] = {}
        self._new: dict[str, KeyPair] = {}
        """Those of which only the key has been put in place."""
        self._next: Authority | None = None
        self.trusted = folder / "trusted.pem"
        self._trust(self._authority.certificate())

    def configuration(self, router: str) -> str:
        """The profile of a router, whose files it makes."""
        self._pairs[router] = KeyPair(self._folder / f"{router}.pem", self._folder / f"{router}.key")
        self._issue(router)
        pair = self._pairs[router]
        return section(
            "sslProfile", name=PROFILE, certFile=pair.cert, privateKeyFile=pair.key, caCertFile=self.trusted
        )

    def begin(self, fault: Planned) -> None:
        """Bring a fault about."""
        match fault.kind, fault.target:
            case "renew", router:
                self._renew_key(router)
            case "expire", target if target == ALL:
                self._trust(self._authority.certificate(EXPIRED_S))
            case "expire", router:
                self._issue(router, EXPIRED_S)
            case "authority", _:
                self._next = self._new_authority()
                self._trust(self._authority.certificate() + self._next.certificate())

    def end(self, fault: Planned) -> None:
        """Take it back, or do what follows."""
        match fault.kind, fault.target:
            case "renew", router:
                replace_file(self._pairs[router].cert, self._new.pop(router).cert.read_bytes())
            case "expire", target if target == ALL:
                self._trust(self._authority.certificate())
            case "expire", router:
                self._issue(router)
            case "authority", _:
                assert self._next is not None
                self._authority, self._next = self._next, None
                for router in self._pairs:
                    (self._renew_key if router in self._new else self._issue)(router)
                self._trust(self._authority.certificate())

    def _trust(self, authorities: bytes) -> None:
        replace_file(self.trusted, authorities)

    def _renew_key(self, router: str) -> None:
        """Until its certificate is there, too, the two do not fit."""
        self._new[router] = self._make(router)
        replace_file(self._pairs[router].key, self._new[router].key.read_bytes())

    def _issue(self, router: str, lasts_s: float = LASTS_S) -> None:
        made, pair = self._make(router, lasts_s), self._pairs[router]
        replace_file(pair.key, made.key.read_bytes())
        replace_file(pair.cert, made.cert.read_bytes())

    def _make(self, router: str, lasts_s: float = LASTS_S) -> KeyPair:
        return self._authority.issue(f"{router}-{next(self._numbers)}", {"CN": router}, HOSTS, lasts_s=lasts_s)

    def _new_authority(self) -> Authority:
        number = next(self._numbers)
        folder = self._folder / f"authority-{number}"
        folder.mkdir(parents=True)
        return Authority(folder, f"Authority {number}")
