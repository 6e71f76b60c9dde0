cdef int outcome_code(bytes state) except -1
