"""What must not leave a system: passwords, tokens, keys and names of users are replaced in data and in text.

Pure. A user has the same replacement everywhere in one bundle, and another in the next, as each has its own salt.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

HIDDEN: Final = "(redacted)"
_SECRET_KEY: Final = re.compile(
    "pass|secret|token|credential|authori[sz]ation|private_?key|stringdata|binarydata|api_?key", re.IGNORECASE
)
"""Texts of keys that contain one of these are hidden. References to Secrets (`secretRef: {name: …}`) stay."""
_NAMES: Final = frozenset({"secretName", "tokenProfile"})
_USER_KEY: Final = re.compile(r"(user|userId|users|userName|blockedUsers|saslUsername|principal|peerNames)", re.I)
_IN_TEXT: Final = (
    re.compile(r"-----BEGIN [A-Z ]+-----.*?-----END [A-Z ]+-----", re.DOTALL),
    re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]*"),  # JSON Web Token
    re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"),  # user:password@host
    re.compile(r"(?i)(?<=bearer )[\w.~+/=-]+"),
    re.compile(r"(?i)(?<=password[=:] )\S+|(?<=password[=:])[^\s\"',]+"),
    re.compile(r"\{SCRAM-SHA-\d+\}\S+"),
)
_KEEP: Final = frozenset({"", "*", "anonymous", "None", "none"})
_SHORTEST: Final = 3
"""Shorter names of users are only replaced where they are values, not in text, where they would be part of words."""


class Redaction:
    """Replaces what must not be shown. `salt`: random bytes of one bundle."""

    def __init__(self, salt: bytes) -> None:
        self._salt = salt
        self._users: dict[str, str] = {}

    def data(self, value: Any, key: str = "") -> Any:
        """A copy of JSON-like data. Names of users that it has are replaced in all later texts, too."""
        if isinstance(value, Mapping):
            named = str(value.get("name", ""))  # of an environment variable: {name: PASSWORD, value: …}
            return {name: self.data(inner, named if name == "value" else str(name)) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.data(inner, key) for inner in value]
        if isinstance(value, str):
            if value and _SECRET_KEY.search(key) and key not in _NAMES:
                return HIDDEN
            if _USER_KEY.fullmatch(key):
                return ", ".join(self._user(name.strip()) for name in value.split(","))
            return self.text(value)
        return value

    def text(self, text: str) -> str:
        """A text without passwords, keys, tokens, and the names of users that were seen so far."""
        for pattern in _IN_TEXT:
            text = pattern.sub(HIDDEN, text)
        named = [name for name in self._users if len(name) >= _SHORTEST and name in text]
        for name in sorted(named, key=len, reverse=True):
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", self._users[name], text)
        return text

    def _user(self, name: str) -> str:
        if name in _KEEP:
            return name
        digest = hashlib.sha256(self._salt + name.encode()).hexdigest()[:8]
        return self._users.setdefault(name, f"user-{digest}")
