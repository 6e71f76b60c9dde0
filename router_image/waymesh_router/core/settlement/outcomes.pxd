from waymesh_amqp.outcomes cimport ACCEPTED_CODE, MODIFIED_CODE

cdef inline int outcome_code(bytes state) noexcept:
    cdef const unsigned char* b = state
    cdef Py_ssize_t n = len(state)
    if n >= 3 and b[1] == 0x53:
        return b[2]
    if n >= 10 and b[1] == 0x80:
        return b[9]
    return 0

cdef inline bint is_final(int code) noexcept:
    return ACCEPTED_CODE <= code <= MODIFIED_CODE
