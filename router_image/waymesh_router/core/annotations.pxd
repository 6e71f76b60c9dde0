cdef class Annotations:
    cdef public bytes client
    cdef public bytes transit
    cdef public str ingress
    cdef public tuple trace
    cdef public object to
    cdef public str phase
    cdef public object address
    cdef public bint plain
