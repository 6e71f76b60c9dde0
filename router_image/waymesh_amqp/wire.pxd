cimport cython

cdef int MAX_DESCRIPTOR_DEPTH

cdef unsigned int read_u32(const unsigned char[::1] b, Py_ssize_t p) noexcept
cdef void write_u32(unsigned char[::1] b, Py_ssize_t p, unsigned int v) noexcept
cdef void copy(unsigned char[::1] dst, Py_ssize_t d, const unsigned char[::1] src, Py_ssize_t s, Py_ssize_t n) noexcept
cdef bint same(const unsigned char[::1] b, Py_ssize_t p, Py_ssize_t end, bytes what) noexcept
cdef Py_ssize_t skip(const unsigned char[::1] b, Py_ssize_t p, Py_ssize_t end, int depth=*) except -1
cdef bint is_transactional(const unsigned char[::1] b, Py_ssize_t p, Py_ssize_t end) except -1
cdef long long read_uint(const unsigned char[::1] b, Py_ssize_t p, Py_ssize_t end) except -2
cdef Py_ssize_t list_count(const unsigned char[::1] b, Py_ssize_t p, Py_ssize_t end) except -1
cdef Py_ssize_t list_body(const unsigned char[::1] b, Py_ssize_t p) except -1
cdef int serial_gap(unsigned int a, unsigned int b) noexcept
cdef unsigned int serial_add(unsigned int a, unsigned int n) noexcept
cdef object truncated(str what)
