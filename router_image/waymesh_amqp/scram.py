"""SCRAM (RFC 5802, RFC 7677) with scramp. Callers do not see the exceptions and types of scramp.

scramp takes 0.1 s and some megabytes to import, so this module is imported when the first SCRAM exchange needs it.
"""

from __future__ import annotations

from collections.abc import Callable

from scramp import ScramClient, ScramException, ScramMechanism

from waymesh_amqp.credentials import MAX_ITERATIONS, ScramKeys


class ScramError(Exception):
    """The exchange failed: malformed message, or wrong nonce, proof or signature."""


def derive(mechanism: str, password: str, iterations: int, salt: bytes) -> ScramKeys:
    """Compute the stored keys of a password. Raises ScramError if SASLprep prohibits it, or for too few iterations."""
    try:
        _, stored, server, count = ScramMechanism(mechanism).make_auth_info(password, iterations, salt)
    except ScramException as error:
        raise ScramError(str(error)) from None
    return ScramKeys(count, salt, stored, server)


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ScramError("message is not UTF-8") from None


class ServerExchange:
    """The server side of one exchange. `keys_of(user)` returns the keys to check against."""

    def __init__(self, mechanism: str, keys_of: Callable[[str], ScramKeys], nonce: str) -> None:
        self.user = ""
        self._keys_of = keys_of
        self._server = ScramMechanism(mechanism).make_server(self._lookup, s_nonce=nonce)

    def _lookup(self, user: str) -> tuple[bytes, bytes, bytes, int]:
        keys = self._keys_of(user)
        self.user = user
        return keys.salt, keys.stored_key, keys.server_key, keys.iterations

    def first(self, client_first: bytes) -> bytes:
        """Handle client-first; returns server-first. Raises ScramError."""
        try:
            self._server.set_client_first(_text(client_first))
            return str(self._server.get_server_first()).encode("utf-8")
        except ScramException as error:
            raise ScramError(str(error)) from None

    def final(self, client_final: bytes) -> bytes:
        """Handle client-final; returns server-final with our signature. Raises ScramError if the proof is wrong."""
        try:
            self._server.set_client_final(_text(client_final))
            return str(self._server.get_server_final()).encode("utf-8")
        except ScramException as error:
            raise ScramError(str(error)) from None


class ClientExchange:
    """The client side of one exchange."""

    def __init__(self, mechanism: str, username: str, password: str, nonce: str) -> None:
        try:
            self._client = ScramClient([mechanism], username, password, c_nonce=nonce)
        except ScramException as error:
            raise ScramError(str(error)) from None

    def first(self) -> bytes:
        """Return client-first."""
        return str(self._client.get_client_first()).encode("utf-8")

    def final(self, server_first: bytes) -> bytes:
        """Handle server-first; returns client-final with our proof. Raises ScramError."""
        try:
            self._client.set_server_first(_text(server_first))
            if int(self._client.iterations) > MAX_ITERATIONS:
                raise ScramError(
                    f"server asks for {self._client.iterations} iterations, more than {MAX_ITERATIONS}"
                )
            return str(self._client.get_client_final()).encode("utf-8")
        except ScramException as error:
            raise ScramError(str(error)) from None

    def verify(self, server_final: bytes) -> None:
        """Check the server's signature. Raises ScramError if it is wrong: the server does not know the password."""
        try:
            self._client.set_server_final(_text(server_final))
        except ScramException as error:
            raise ScramError(str(error)) from None
