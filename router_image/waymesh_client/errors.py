"""Errors of the management client; all are `ClientError`, and their text is fit for a person."""

from __future__ import annotations


class ClientError(Exception):
    """Anything that went wrong between us and a router."""


class ConnectionFailed(ClientError):
    """No connection to the router, or it broke."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(f"cannot reach a router at {host}:{port}: {reason}")
        self.host = host
        self.port = port
        self.reason = reason


class NoRoute(ClientError):
    """The management address cannot be reached: no such router in the network, say."""


class RequestTimeout(ClientError):
    """The router took the connection but did not answer in time."""


class BadReply(ClientError):
    """The answer is not a reply of AMQP Management."""


class ManagementError(ClientError):
    """The router refused the request; `status` is the status code of the reply (400, 403, 404, 500, 501 …)."""

    def __init__(self, status: int, description: str) -> None:
        super().__init__(f"{description} ({status})")
        self.status = status
        self.description = description
