"""Encoded outcomes for transfers and dispositions. Spec: 3.4."""

from __future__ import annotations

import cython

from waymesh_amqp.outcomes import ACCEPTED_STATE

if cython.compiled:
    from cython.cimports.waymesh_amqp.outcomes import ACCEPTED_CODE, MODIFIED_CODE, REJECTED_CODE, RELEASED_CODE
else:
    from waymesh_amqp.outcomes import ACCEPTED_CODE, MODIFIED_CODE, REJECTED_CODE, RELEASED_CODE

ACCEPTED = ACCEPTED_STATE
RELEASED = b"\x00\x53\x26\x45"
MODIFIED_FAILED = b"\x00\x53\x27\xc0\x02\x01\x41"
"""Outcome of a delivery whose consumer was lost: the consumer may have seen it. Spec: 3.4.5 delivery-failed."""

OUTCOME_NAMES = {
    ACCEPTED_CODE: "accepted",
    REJECTED_CODE: "rejected",
    RELEASED_CODE: "released",
    MODIFIED_CODE: "modified",
}

MULTICAST_RANKS = {REJECTED_CODE: 4, ACCEPTED_CODE: 3, MODIFIED_CODE: 2, RELEASED_CODE: 1}
"""Precedence of outcomes if consumers of a multicast disagree: any rejected, else any accepted, else any modified."""


MAX_STATE = 1024
"""Maximum size of a delivery state that is kept with a delivery: no budget counts it."""


def kept_state(state: bytes) -> bytes:
    """The state to keep until its delivery is settled: of a long one, the outcome without its error or annotations."""
    if len(state) <= MAX_STATE:
        return state
    code = outcome_code(state)
    return bytes((0x00, 0x53, code, 0x45)) if is_final(code) else b""


if not cython.compiled:  # compiled, outcomes.pxd has them as inline functions

    def outcome_code(state: bytes) -> int:
        """Descriptor code of an encoded delivery state; 0 for none or one without a small numeric descriptor."""
        if len(state) >= 3 and state[1] == 0x53:
            return state[2]
        if len(state) >= 10 and state[1] == 0x80:
            return state[9]
        return 0

    def is_final(code: int) -> bool:
        """Whether a delivery state with this code is a terminal outcome. Spec: 3.4."""
        final: bool = ACCEPTED_CODE <= code <= MODIFIED_CODE
        return final
