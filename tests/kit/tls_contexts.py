"""One pair of TLS contexts for all containers of python-qpid-proton in a process."""

from __future__ import annotations

import functools

import proton._reactor


def share() -> None:
    """Each container, so each client, makes two contexts (60 ms of CPU), whether it uses TLS or not. Nothing of ours
    changes them, so all containers share them."""
    proton._reactor.SSLConfig = functools.cache(proton._reactor.SSLConfig)  # type: ignore[misc, assignment]
