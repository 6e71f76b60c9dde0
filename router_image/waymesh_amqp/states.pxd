# The numbers of states.py, for compiled modules.
cdef enum:
    START = 0
    HDR_RCVD = 1
    HDR_SENT = 2
    HDR_EXCH = 3
    OPEN_PIPE = 4
    OC_PIPE = 5
    OPEN_RCVD = 6
    OPEN_SENT = 7
    CLOSE_PIPE = 8
    OPENED = 9
    CLOSE_RCVD = 10
    CLOSE_SENT = 11
    END = 12

cdef enum:
    UNMAPPED = 0
    BEGIN_RCVD = 1
    BEGIN_SENT = 2
    MAPPED = 3
    END_PIPE = 4
    END_RCVD = 5
    END_SENT = 6
    ENDED = 7

cdef enum:
    DETACHED = 0
    ATTACH_RCVD = 1
    ATTACH_SENT = 2
    ATTACHED = 3
    DETACH_PIPE = 4
    DETACH_RCVD = 5
    DETACH_SENT = 6
    GONE = 7
