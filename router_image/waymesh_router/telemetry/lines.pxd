cimport cython

@cython.final
cdef class LineWriter:
    cdef str _head
    cdef list _names
    cdef list _forms
    cdef list _recurring
    cdef list _varying
    cdef list _added
    cdef dict _layouts

    cpdef add(self, long long seq, long long ts_us, long long mono_us, object values)
    cpdef bytes take(self)
    cdef list _new_layout(self, object values)

cdef str _text(int form, object value)
