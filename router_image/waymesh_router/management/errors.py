"""Management errors: a status code of AMQP Management (draft 9) and a description."""

from __future__ import annotations

from typing import Final

OK: Final = 200
CREATED: Final = 201
NO_CONTENT: Final = 204
BAD_REQUEST: Final = 400
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
NOT_ALLOWED: Final = 405
CONFLICT: Final = 409
INTERNAL_ERROR: Final = 500
NOT_IMPLEMENTED: Final = 501
UNAVAILABLE: Final = 503

STATUS_TEXT: Final = {
    OK: "OK",
    CREATED: "Created",
    NO_CONTENT: "No Content",
    BAD_REQUEST: "Bad Request",
    FORBIDDEN: "Forbidden",
    NOT_FOUND: "Not Found",
    NOT_ALLOWED: "Method Not Allowed",
    CONFLICT: "Conflict",
    INTERNAL_ERROR: "Internal Server Error",
    NOT_IMPLEMENTED: "Not Implemented",
    UNAVAILABLE: "Service Unavailable",
}


class ManagementError(Exception):
    """A request that cannot be fulfilled; becomes `statusCode` and `statusDescription` of the reply."""

    def __init__(self, status: int, description: str) -> None:
        super().__init__(description)
        self.status = status
        self.description = description


def bad_request(description: str) -> ManagementError:
    """The request itself is wrong: an unknown attribute, a bad value, a missing property."""
    return ManagementError(BAD_REQUEST, description)


def forbidden(description: str) -> ManagementError:
    """The operation exists for the type, but not for this entity or this client."""
    return ManagementError(FORBIDDEN, description)


def not_found(description: str) -> ManagementError:
    """No such entity, no entities of the type in this router, or no such attribute in a QUERY."""
    return ManagementError(NOT_FOUND, description)


def unknown(description: str, bad: bool) -> ManagementError:
    """No entity has the identity or name. The texts are those of Dispatch; with `bad`, its status is 400."""
    status = BAD_REQUEST if bad else NOT_FOUND
    return ManagementError(status, f"{STATUS_TEXT[status]}: {description}")


def not_allowed(description: str) -> ManagementError:
    """The entity type does not have the operation."""
    return ManagementError(NOT_ALLOWED, description)


def conflict(description: str) -> ManagementError:
    """An entity with the same name, or another value that must be unique, exists already."""
    return ManagementError(CONFLICT, description)


def not_implemented(description: str) -> ManagementError:
    """An unknown operation, or an entity type or setting that this router does not support."""
    return ManagementError(NOT_IMPLEMENTED, description)


def unavailable(description: str) -> ManagementError:
    """The router is too busy for this request now."""
    return ManagementError(UNAVAILABLE, description)
