"""Errors of the management client. All are `ClientError`; their text is for users."""

from __future__ import annotations


class ClientError(Exception):
    """Base of all errors."""


class ConnectionFailed(ClientError):
    """The connection could not be opened, or was lost."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(f"cannot reach a router at {host}:{port}: {reason}")
        self.host = host
        self.port = port
        self.reason = reason


class UnusableFile(ClientError):
    """A file with certificates or a key cannot be used; the text names it."""


class NoRoute(ClientError):
    """The management address cannot be reached, for example because there is no such router."""


class RequestTimeout(ClientError):
    """The router accepted the connection but did not reply in time."""


class BadReply(ClientError):
    """The reply does not conform to AMQP Management."""


class ManagementError(ClientError):
    """The router refused the request; `status` is the status code of the reply (400, 403, 404, 500, 501 …)."""

    def __init__(self, status: int, description: str) -> None:
        super().__init__(f"{description} ({status})")
        self.status = status
        self.description = description
