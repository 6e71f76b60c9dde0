from libc.string cimport memcmp, memcpy

ctypedef const unsigned char* Octets
ctypedef unsigned char* WritableOctets

# Functions that are called several times for each message are inlined. Interpreted, wire.py has the same functions.
cdef inline Octets octets(bytes data) noexcept:
    return data

cdef inline bytes to_bytes(Octets b, Py_ssize_t p, Py_ssize_t end):
    return b[p:end]

cdef inline unsigned int read_u32(Octets b, Py_ssize_t p) noexcept:
    cdef const unsigned char* at = &b[p]
    return <unsigned int>at[0] << 24 | <unsigned int>at[1] << 16 | <unsigned int>at[2] << 8 | at[3]

cdef inline void write_u32(WritableOctets b, Py_ssize_t p, unsigned int v) noexcept:
    cdef unsigned char* at = &b[p]
    at[0] = v >> 24 & 255
    at[1] = v >> 16 & 255
    at[2] = v >> 8 & 255
    at[3] = v & 255

cdef inline void frame_start(WritableOctets o, Py_ssize_t p, Py_ssize_t size, int channel, int code) noexcept:
    write_u32(o, p, <unsigned int>size)
    write_u32(o, p + 4, 0x02000000 | <unsigned int>channel)
    o[p + 8] = 0
    o[p + 9] = 0x53
    o[p + 10] = code

cdef inline int serial_gap(unsigned int a, unsigned int b) noexcept:
    return <int>(a - b)

cdef inline unsigned int serial_add(unsigned int a, unsigned int n) noexcept:
    return a + n

cdef inline void copy(WritableOctets dst, Py_ssize_t d, Octets src, Py_ssize_t s, Py_ssize_t n) noexcept:
    if n > 0:
        memcpy(&dst[d], &src[s], n)

cdef inline bint equal(Octets a, Py_ssize_t p, Octets b, Py_ssize_t q, Py_ssize_t n) noexcept:
    return memcmp(&a[p], &b[q], n) == 0

cdef bint same(Octets b, Py_ssize_t p, Py_ssize_t end, bytes what) noexcept
