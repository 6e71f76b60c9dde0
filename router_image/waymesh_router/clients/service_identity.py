"""Reads user and permissions of a client from the open of the SASL service that authenticated it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waymesh_amqp.relayed import Permissions
from waymesh_amqp.sasl import ANONYMOUS_USER
from waymesh_amqp.types import Array

IDENTITY = "authenticated-identity"
ADDRESSES = "address-authz"
CAPABILITY = "ADDRESS-AUTHZ"
MAX_NAME = 255
"""Maximum number of characters of a user name."""
MAX_ADDRESSES = 1000


class IdentityError(ValueError):
    """The service sent invalid properties."""


def identity_of(properties: Any) -> tuple[str, Permissions | None]:
    """User name and permissions; None if the service leaves permissions to the policy. Raises IdentityError.

    A client without a name has the rights of an unauthenticated client.
    """
    found = {} if properties is None else properties
    if not isinstance(found, Mapping):
        raise IdentityError("the properties of its open are not a map")
    return _user(found.get(IDENTITY)), _permissions(found.get(ADDRESSES))


def _user(identity: Any) -> str:
    if identity is None:
        return ANONYMOUS_USER
    if not isinstance(identity, (Mapping, str)):
        raise IdentityError(f"{IDENTITY} is neither a map nor a string")
    name = identity if isinstance(identity, str) else identity.get("sub")
    if name is None:
        return ANONYMOUS_USER
    if not isinstance(name, str) or not name or len(name) > MAX_NAME or not name.isprintable():
        raise IdentityError(f"{IDENTITY} is not a name of up to {MAX_NAME} printable characters")
    return name


def _permissions(addresses: Any) -> Permissions | None:
    if addresses is None:
        return None
    if not isinstance(addresses, Mapping):
        raise IdentityError(f"{ADDRESSES} is not a map")
    if len(addresses) > MAX_ADDRESSES:
        raise IdentityError(f"{ADDRESSES} has more than {MAX_ADDRESSES} addresses")
    rights = {address: _rights(address, value) for address, value in addresses.items()}
    return Permissions(
        tuple(address for address, allowed in rights.items() if "send" in allowed),
        tuple(address for address, allowed in rights.items() if "recv" in allowed),
    )


def _rights(address: Any, value: Any) -> tuple[str, ...]:
    """`send`, `recv` or both; other words are reserved for later versions and allow nothing."""
    words = value.values if isinstance(value, Array) else value if isinstance(value, list) else [value]
    texts = tuple(word for word in words if isinstance(word, str))
    if not isinstance(address, str) or len(texts) != len(words):
        raise IdentityError(f"{ADDRESSES} does not map addresses to arrays of strings")
    return texts
