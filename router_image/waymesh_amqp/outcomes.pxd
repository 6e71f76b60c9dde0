# The numbers of outcomes.py, for compiled modules.
cdef enum:
    RECEIVED_CODE = 0x23
    ACCEPTED_CODE = 0x24
    REJECTED_CODE = 0x25
    RELEASED_CODE = 0x26
    MODIFIED_CODE = 0x27
