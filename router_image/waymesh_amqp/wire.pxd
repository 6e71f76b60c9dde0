from libc.string cimport memcmp, memcpy

cdef int MAX_DESCRIPTOR_DEPTH

# What is called several times for each message is inlined: a memory view passed by value is a copy of 200 octets.
# Interpreted, wire.py has the same functions.
cdef inline unsigned int read_u32(const unsigned char[::1] b, Py_ssize_t p) noexcept:
    cdef const unsigned char* at = &b[p]
    return <unsigned int>at[0] << 24 | <unsigned int>at[1] << 16 | <unsigned int>at[2] << 8 | at[3]

cdef inline void write_u32(unsigned char[::1] b, Py_ssize_t p, unsigned int v) noexcept:
    cdef unsigned char* at = &b[p]
    at[0] = v >> 24 & 255
    at[1] = v >> 16 & 255
    at[2] = v >> 8 & 255
    at[3] = v & 255

cdef inline int serial_gap(unsigned int a, unsigned int b) noexcept:
    return <int>(a - b)

cdef inline unsigned int serial_add(unsigned int a, unsigned int n) noexcept:
    return a + n

cdef inline void copy(unsigned char[::1] dst, Py_ssize_t d, const unsigned char[::1] src, Py_ssize_t s, Py_ssize_t n) noexcept:
    if n > 0:
        memcpy(&dst[d], &src[s], n)

cdef bint same(const unsigned char[::1] b, Py_ssize_t p, Py_ssize_t end, bytes what) noexcept
cdef Py_ssize_t skip(const unsigned char[::1] b, Py_ssize_t p, Py_ssize_t end, int depth=*) except -1
cdef bint is_transactional(const unsigned char[::1] b, Py_ssize_t p, Py_ssize_t end) except -1
cdef long long read_uint(const unsigned char[::1] b, Py_ssize_t p, Py_ssize_t end) except -2
cdef Py_ssize_t list_count(const unsigned char[::1] b, Py_ssize_t p, Py_ssize_t end) except -1
cdef Py_ssize_t list_body(const unsigned char[::1] b, Py_ssize_t p) except -1
cdef object truncated(str what)
