"""Management errors: a status code of AMQP Management (draft 9) and a text for the person who asked."""

from __future__ import annotations

from typing import Final

OK: Final = 200
CREATED: Final = 201
NO_CONTENT: Final = 204
BAD_REQUEST: Final = 400
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
INTERNAL_ERROR: Final = 500
NOT_IMPLEMENTED: Final = 501

STATUS_TEXT: Final = {
    OK: "OK",
    CREATED: "Created",
    NO_CONTENT: "No Content",
    BAD_REQUEST: "Bad Request",
    FORBIDDEN: "Forbidden",
    NOT_FOUND: "Not Found",
    INTERNAL_ERROR: "Internal Server Error",
    NOT_IMPLEMENTED: "Not Implemented",
}


class ManagementError(Exception):
    """A request that cannot be fulfilled; becomes `statusCode` and `statusDescription` of the reply."""

    def __init__(self, status: int, description: str) -> None:
        super().__init__(description)
        self.status = status
        self.description = description


def bad_request(description: str) -> ManagementError:
    """The request itself is wrong: an unknown attribute, a bad value, a duplicate, a missing property."""
    return ManagementError(BAD_REQUEST, description)


def forbidden(description: str) -> ManagementError:
    """The operation exists but this entity type or entity does not allow it."""
    return ManagementError(FORBIDDEN, description)


def not_found(description: str) -> ManagementError:
    """No such entity, or no such attribute in a QUERY."""
    return ManagementError(NOT_FOUND, description)


def not_implemented(description: str) -> ManagementError:
    """An operation nobody knows, or an entity type or setting that this router does not have."""
    return ManagementError(NOT_IMPLEMENTED, description)
