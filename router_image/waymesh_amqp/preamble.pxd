from waymesh_amqp.connection cimport Connection
from waymesh_amqp.wire cimport Octets

cdef enum:
    HEADER
    SASL
    FRAMES
    DEAD
    WAITING

cdef start_client(Connection connection)
cdef start_amqp(Connection connection)
cdef Py_ssize_t take_preamble(Connection connection, Octets b, Py_ssize_t pos, Py_ssize_t n) except -1
cdef check_header_start(Connection connection, bytes start)
cdef take_header(Connection connection, bytes header)
cdef take_answer(Connection connection, bytes header)
cdef turn_away(Connection connection, str why)
cdef take_sasl(Connection connection, frame)
cdef end_sasl_step(Connection connection, bytes answer)
