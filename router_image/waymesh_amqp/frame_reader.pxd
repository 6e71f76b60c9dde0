from waymesh_amqp.connection cimport Connection
from waymesh_amqp.wire cimport Octets

cdef Py_ssize_t take_frames(Connection connection, Octets b, Py_ssize_t pos, Py_ssize_t n) except -1
cdef bad_frame_header(Connection connection, Py_ssize_t size, int doff)
cdef take_other(Connection connection, bytes frame, int channel)
cdef take_unusual_encoding(Connection connection, performative, bytes payload, int channel)
