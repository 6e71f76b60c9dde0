"""The entity of TLS settings."""

from __future__ import annotations

from .model import BOOLEAN, INTEGER, PATH, STRING, configuration, reported, setting
from .password import names_place

SSL_PROFILE = configuration(
    "sslProfile",
    "TLS settings, to which listeners and connectors refer by name. An update applies to all later handshakes; open "
    "connections stay open, except as described at recheckPeers of listeners.",
    setting(
        "ciphers",
        STRING,
        "Enabled ciphers of TLS up to 1.2, in OpenSSL's notation. Those of TLS 1.3 cannot be chosen: all of them are "
        "strong.",
        update=True,
    ),
    setting(
        "protocols",
        STRING,
        "Versions, separated by blanks: TLSv1 TLSv1.1 TLSv1.2 TLSv1.3. Default: TLSv1.2 TLSv1.3. none: every "
        "handshake is refused.",
        update=True,
    ),
    setting(
        "caCertFile",
        PATH,
        "PEM file of the trusted certificate authorities.",
        update=True,
        deprecated_name="certDb",
    ),
    setting(
        "crlFile",
        PATH,
        "PEM file of certificate revocation lists, one of each authority in the chain of a peer, read again when it "
        "changes. Peers with a revoked certificate are refused, and all peers while a list is missing or expired. "
        "Needs caCertFile.",
        update=True,
    ),
    setting(
        "peersOnly",
        BOOLEAN,
        "Trust only the certificates in caCertFile themselves, not those that they issued. Needs caCertFile.",
        default=False,
        update=True,
    ),
    setting("certFile", PATH, "PEM file of the router's certificate, with its chain.", update=True),
    setting(
        "privateKeyFile",
        PATH,
        "PEM file of the private key of the certificate.",
        update=True,
        deprecated_name="keyFile",
    ),
    setting(
        "passwordFile",
        PATH,
        "File with the password of the key. Use password: file:PATH instead.",
        update=True,
        deprecated=True,
    ),
    setting(
        "password",
        STRING,
        "Password of the private key: env:NAME, file:PATH, pass:TEXT, literal:TEXT, or the plain text.",
        update=True,
        hidden=True,
        on_host=names_place,
    ),
    setting(
        "uidFormat",
        STRING,
        "Parts of a client certificate that make up the user name: any of c s l o u n (country, state, locality, "
        "organization, unit, common name) and one of 1 2 5 (SHA-1, SHA-256, SHA-512 fingerprint), joined by ;. "
        "A missing part is empty, or left out at the end; ; and \\ in values are escaped with \\.",
        update=True,
    ),
    setting(
        "uidNameMappingFile",
        PATH,
        "JSON file that maps user names made with uidFormat to display names, read again when it changes.",
        update=True,
        deprecated_name="displayNameFile",
    ),
    reported("notAfter", INTEGER, "Expiry of the certificate, in seconds since 1970; null without a certificate."),
    operations=("CREATE", "UPDATE", "DELETE"),
)
