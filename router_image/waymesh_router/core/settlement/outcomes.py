"""Outcomes as they are encoded in transfers and dispositions. Spec: 3.4."""

from __future__ import annotations

import cython

ACCEPTED = b"\x00\x53\x24\x45"
REJECTED = b"\x00\x53\x25\x45"
RELEASED = b"\x00\x53\x26\x45"
MODIFIED_FAILED = b"\x00\x53\x27\xc0\x02\x01\x41"
"""The outcome of a delivery whose consumer was lost: it may have been seen. Spec: 3.4.5 delivery-failed."""

ACCEPTED_CODE = 0x24
REJECTED_CODE = 0x25
RELEASED_CODE = 0x26
MODIFIED_CODE = 0x27

OUTCOME_NAMES = {
    ACCEPTED_CODE: "accepted",
    REJECTED_CODE: "rejected",
    RELEASED_CODE: "released",
    MODIFIED_CODE: "modified",
}

MULTICAST_RANKS = {REJECTED_CODE: 4, ACCEPTED_CODE: 3, MODIFIED_CODE: 2, RELEASED_CODE: 1}
"""Which outcome wins where consumers of a multicast disagree: any rejected, else any accepted, else any modified."""


def outcome_code(state: bytes) -> cython.int:
    """Descriptor code of an encoded delivery state; 0 for none or one without a small numeric descriptor."""
    n: cython.Py_ssize_t = len(state)
    if n >= 3 and state[1] == 0x53:
        return state[2]
    if n >= 10 and state[1] == 0x80:
        return state[9]
    return 0
