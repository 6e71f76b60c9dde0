"""Entities for authentication: profiles of bearer tokens, and services that decide on SASL exchanges."""

from __future__ import annotations

from .model import BOOLEAN, INTEGER, PATH, PORT, STRING, configuration, setting

TOKEN_PROFILE = configuration(
    "tokenProfile",
    "Which bearer tokens (signed JWTs) are accepted; listeners refer to it by name. An extension of Waymesh; needs "
    "the Python package PyJWT (extra `oauth`).",
    setting("keysFile", PATH, "File with the public keys: a JWKS, or PEM. It is read again when it has changed."),
    setting(
        "keysUrl",
        STRING,
        "URL of a JWKS, https, or http on a loopback address. One of keysFile and keysUrl is needed. Redirects are not "
        "followed.",
    ),
    setting("caCertFile", PATH, "PEM file of the authorities for keysUrl. Default: the system's."),
    setting(
        "keysTokenFile",
        PATH,
        "File with a bearer token for the requests to keysUrl, read for each of them; only with https.",
    ),
    setting("audience", STRING, "A token must be for this audience (claim aud).", required=True),
    setting("issuer", STRING, "A token must come from this issuer (claim iss).", required=True),
    setting(
        "algorithms",
        STRING,
        "Accepted signature algorithms, separated by blanks: RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 "
        "EdDSA.",
        default="RS256 ES256",
    ),
    setting("userClaim", STRING, "Claim with the user name.", default="sub"),
    setting(
        "groupsClaim",
        STRING,
        "Claim with the groups of the user: a string or a list of strings. Unless a vhost lists the user, the user "
        "group of the vhost with one of these names applies. Default: no groups.",
    ),
    setting(
        "clockSkewSeconds",
        INTEGER,
        "Seconds by which the clocks of router and issuer may differ.",
        default=30,
        minimum=0,
        maximum=600,
    ),
    setting(
        "allowNoExpiry", BOOLEAN, "Accept tokens without expiry (claim exp); connections stay open.", default=False
    ),
    setting("refreshSeconds", INTEGER, "Seconds after which keysUrl is read again.", default=300, minimum=10),
    setting(
        "minRefreshSeconds",
        INTEGER,
        "Minimum seconds between two reads of keysUrl. An unknown key id and a failed read cause one before "
        "refreshSeconds have passed.",
        default=30,
        minimum=1,
    ),
    setting(
        "keepKeysSeconds",
        INTEGER,
        "Seconds for which keys stay in use while keysFile or keysUrl cannot be read; then all tokens are refused.",
        default=3600,
        minimum=0,
    ),
    operations=("CREATE", "DELETE"),
)

AUTH_SERVICE_PLUGIN = configuration(
    "authServicePlugin",
    "An AMQP server that decides on the SASL exchanges of clients; listeners refer to it by name (saslPlugin).",
    setting("authService", STRING, "host:port of the service. Use host and port instead.", deprecated=True),
    setting("host", STRING, "Host of the service. One of host and authService is required.", default=""),
    setting("port", PORT, "Port of the service.", default="amqp"),
    setting("realm", STRING, "Host name in the SASL init.", deprecated_name="saslInitHostname"),
    setting(
        "sslProfile",
        STRING,
        "Name of the sslProfile for the connections to the service; without it, they do not use TLS.",
        deprecated_name="authSslProfile",
    ),
    operations=("CREATE", "DELETE"),
)
