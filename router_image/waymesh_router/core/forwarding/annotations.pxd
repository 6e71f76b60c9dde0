from waymesh_amqp.wire cimport Octets

cdef class Annotations:
    cdef public bytes client
    cdef public bytes transit
    cdef public str ingress
    cdef public tuple trace
    cdef public tuple stamps
    cdef public tuple exchanges
    cdef public object to
    cdef public str phase
    cdef public object address
    cdef public bint plain
    cdef public bint here
    cdef public dict meant
    cdef public object original
    cdef public long long sid
    cdef public double weight
    cdef public bytes unmarked

cpdef bytes transit_section(Annotations a)
cdef bint _begins_with(Octets b, Py_ssize_t p, Py_ssize_t end, bytes prefix) except -1
