# The interface of tls_thread.c, see tls_thread.h.
from libc.stdint cimport intptr_t, uint8_t

cdef extern from "tls_thread.h" nogil:
    int TLS_ROOM
    int TLS_FLUSHED
    int TLS_LENGTH
    int TLS_SEEN
    int TLS_LEFT
    int TLS_WITHOUT_DATA
    int TLS_DATA
    int TLS_HELD
    int TLS_UNSENT
    int tls_find_functions(const char *path)
    intptr_t tls_of_object(intptr_t object, intptr_t context)
    long tls_in_memory(intptr_t ssl, int output)
    intptr_t tls_start()
    void tls_stop(intptr_t thread)
    int tls_descriptor(intptr_t thread)
    int tls_next(intptr_t thread)
    intptr_t tls_lend(
        intptr_t thread, intptr_t ssl, int fd, const uint8_t *held, size_t size, int length, int seen, Py_ssize_t left,
        int without_data, int urgent
    )
    Py_ssize_t tls_take(intptr_t lent, uint8_t *to, size_t room)
    size_t tls_input(intptr_t lent)
    int tls_ended(intptr_t lent)
    Py_ssize_t tls_put(intptr_t lent, const uint8_t *data, size_t size)
    int tls_slow(intptr_t lent)
    int tls_flushed(intptr_t lent)
    int tls_lost(intptr_t lent)
    int tls_error(intptr_t lent)
    const char *tls_reason(intptr_t lent)
    void tls_want(intptr_t lent, int what)
    void tls_recall(intptr_t lent)
    void tls_encrypt_rest(intptr_t lent)
    size_t tls_left(intptr_t lent, int which)
    void tls_copy_left(intptr_t lent, int which, uint8_t *to)
    Py_ssize_t tls_place(intptr_t lent, int which)
    void tls_free(intptr_t lent)
