"""Protocol headers, and SASL frames for server and client. Spec: 2.2, 5.3."""

from __future__ import annotations

import math

from waymesh_amqp.credentials import SCRAM_MECHANISMS
from waymesh_amqp.errors import AmqpError
from waymesh_amqp.limits import MIN_MAX_FRAME
from waymesh_amqp.performatives import (
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslPerformative,
    SaslResponse,
    encode_frame,
)
from waymesh_amqp.sasl import Challenge, SaslClient, SaslServer, SaslStep

AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
TOO_MANY = "too many peers log in at the same time"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"


class SaslServerExchange:
    """The server side: `start()` and `on_frame()` return the bytes to send; `failed` or `succeeded` has the result."""

    def __init__(self, sasl: SaslServer) -> None:
        self.sasl = sasl
        self.max_frame = sasl.max_frame
        self.succeeded = False
        self.failed = ""
        self.user: str | None = None
        self.groups: tuple[str, ...] = ()
        self.expires_at = math.inf
        self.mechanism = ""

    def start(self) -> bytes:
        """The frame with the offered mechanisms."""
        return encode_frame(0, SaslMechanisms(sasl_server_mechanisms=self.sasl.offer()))

    def hashes(self, frame: SaslPerformative) -> bool:
        """Whether `on_frame` may take long for this frame: it computes PBKDF2 or checks a token."""
        return self.sasl.hashes(frame.mechanism if isinstance(frame, SaslInit) else self.mechanism)

    def overloaded(self) -> bytes:
        """Refuse the client because too many are logging in. Spec: 5.3.3.6 sys-temp."""
        self.failed = TOO_MANY
        return encode_frame(0, SaslOutcome(code=4))

    def on_frame(self, frame: SaslPerformative) -> bytes:
        """Answer a frame of the client; the exchange fails on an unexpected one."""
        if isinstance(frame, SaslInit) and not self.mechanism:
            self.mechanism = frame.mechanism
            return self._answer(self.sasl.init(frame.mechanism, frame.initial_response, frame.hostname))
        if isinstance(frame, SaslResponse) and self.mechanism:
            return self._answer(self.sasl.response(frame.response))
        self.failed = f"unexpected {type(frame).__name__} in the SASL exchange"
        return encode_frame(0, SaslOutcome(code=1))

    def _answer(self, step: SaslStep) -> bytes:
        if isinstance(step, Challenge):
            return encode_frame(0, SaslChallenge(challenge=step.data))
        if step.code == 0:
            self.succeeded = True
            self.user = step.user
            self.groups = step.groups
            self.expires_at = step.expires_at
        else:
            self.failed = f"SASL {self.mechanism} authentication failed"
        return encode_frame(0, SaslOutcome(code=step.code, additional_data=step.data))


class SaslClientExchange:
    """The client side, with the same methods."""

    def __init__(self, sasl: SaslClient, hostname: str | None) -> None:
        self.sasl = sasl
        self.hostname = hostname
        self.max_frame = MIN_MAX_FRAME
        self.succeeded = False
        self.failed = ""
        self.user: str | None = None
        self.groups: tuple[str, ...] = ()
        self.expires_at = math.inf
        self.mechanism = ""

    def hashes(self, frame: SaslPerformative) -> bool:
        """Whether `on_frame` may compute PBKDF2 for this frame, with the number of iterations that the server sends."""
        return isinstance(frame, SaslChallenge) and self.mechanism in SCRAM_MECHANISMS

    def overloaded(self) -> bytes:
        """Fail because too many peers are logging in."""
        self.failed = TOO_MANY
        return b""

    def on_frame(self, frame: SaslPerformative) -> bytes:
        """Answer a frame of the server; the exchange fails on a refusal or an unexpected frame."""
        try:
            if isinstance(frame, SaslMechanisms) and not self.mechanism:
                self.mechanism, response = self.sasl.select(frame.sasl_server_mechanisms)
                init = SaslInit(mechanism=self.mechanism, initial_response=response, hostname=self.hostname)
                return encode_frame(0, init)
            if isinstance(frame, SaslChallenge) and self.mechanism:
                return encode_frame(0, SaslResponse(response=self.sasl.challenge(frame.challenge)))
            if isinstance(frame, SaslOutcome) and self.mechanism:
                self.sasl.outcome(frame.code, frame.additional_data)
                self.succeeded = True
                return b""
            self.failed = f"unexpected {type(frame).__name__} in the SASL exchange"
        except AmqpError as e:
            self.failed = e.description
        return b""
