from waymesh_amqp.connection cimport Connection

cdef take_open(Connection connection, performative)
cdef take_close(Connection connection, performative)
cdef take_begin(Connection connection, performative, int channel)
cdef take_end(Connection connection, performative, int channel)
