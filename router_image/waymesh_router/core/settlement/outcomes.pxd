from waymesh_amqp.outcomes cimport ACCEPTED_CODE, MODIFIED_CODE

cdef int outcome_code(bytes state) except -1

cdef inline bint is_final(int code) noexcept:
    return ACCEPTED_CODE <= code <= MODIFIED_CODE
