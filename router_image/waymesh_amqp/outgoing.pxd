from waymesh_amqp.link cimport Link
from waymesh_amqp.session cimport Session
from waymesh_amqp.connection cimport Connection
from waymesh_amqp.wire cimport Octets

cpdef unsigned int send_first(Link link, bint settled, bint more, Octets b, Py_ssize_t s0, Py_ssize_t e0, bytes annotations, Py_ssize_t s1, Py_ssize_t e1, unsigned int form) except? 0xffffffff
cdef write_first(Link link, unsigned int oid, bint settled, bint more, unsigned int form, Py_ssize_t payload)
cdef split(Link link, bint more, Octets b, Py_ssize_t start, Py_ssize_t end, Py_ssize_t room)
cdef conn_put(Connection conn, Octets b, Py_ssize_t start, Py_ssize_t end)
cdef send_more(Link link, bint more, Octets b, Py_ssize_t start, Py_ssize_t end)
cdef keep_back(object kept, Octets b, Py_ssize_t start, Py_ssize_t end, Py_ssize_t room)
cdef write_more(Link link, bint more, bint aborted, Py_ssize_t payload)
cdef abort(Link link)
cdef flush_backlog(Link link)
cdef void write_first_header(Connection conn, Py_ssize_t p, int channel, unsigned int handle, unsigned int oid, unsigned int form, Py_ssize_t size) noexcept
