cimport cython
cdef class TlsConnectionIO
from waymesh_router.runtime.tls.sockets cimport TlsSocket
from waymesh_router.runtime.transport.connection_io cimport ConnectionIO

cdef class TlsConnectionIO(ConnectionIO):
    cdef readonly TlsSocket tls
