/* Threads that read, decrypt, encrypt and write for connections over TLS, without a lock of Python's.
 *
 * The routing thread lends a connection to a thread, and takes it back: `tls_lend`, `tls_recall`. In between, it passes
 * data through two rings, and touches neither OpenSSL's object nor reads or writes the descriptor. Handles are 0 if
 * there is none. Decision 0105. */
#ifndef WAYMESH_TLS_THREAD_H
#define WAYMESH_TLS_THREAD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { TLS_ROOM = 1, TLS_FLUSHED = 2 }; /* for `tls_want` */

/* Find OpenSSL's functions in the library at `path` (Python's `_ssl`, which is loaded) and in what that one is linked
 * with. 0 if one is missing. */
int tls_find_functions(const char *path);
/* The `SSL *` of Python's `_ssl._SSLSocket` at this address, 0 if the object is not laid out as expected: behind the
 * head come `Socket`, `ssl` and `ctx`, the last is at `context`, and OpenSSL knows the object as that of this `SSL`. */
intptr_t tls_of_object(intptr_t object, intptr_t context);
/* Bytes in the memory BIO from which it reads (0) or to which it writes (1), -1 if it has none. */
long tls_in_memory(intptr_t ssl, int output);

intptr_t tls_start(void); /* a thread, 0 if there can be none */
void tls_stop(intptr_t thread); /* ends and frees it; everything lent was taken back before */
int tls_descriptor(intptr_t thread); /* readable when there are connections with news */
int tls_next(intptr_t thread); /* the descriptor of the next connection with news, -1 if there is none */

/* Lend a connection. `held`: received bytes that OpenSSL has not got. `length`, `seen`, `left` and `without_data`: the
 * place in the records that arrive, as in `TlsSocket`. `urgent`: little waits in the ring while the peer is slow.
 * Returns 0 if there is no memory. */
intptr_t tls_lend(intptr_t thread, intptr_t ssl, int fd, const uint8_t *held, size_t size, int length, int seen,
                  ptrdiff_t left, int without_data, int urgent);
/* Data that was received, at most `room` bytes: how many, -1 if there is none now, 0 at the end: see `tls_error`. */
ssize_t tls_take(intptr_t lent, uint8_t *to, size_t room);
size_t tls_input(intptr_t lent); /* bytes of data that `tls_take` returns */
int tls_ended(intptr_t lent); /* no more data follows */
/* Data to send: how many of the `size` bytes there is room for, -1 if the connection takes nothing more: `tls_lost`. */
ssize_t tls_put(intptr_t lent, const uint8_t *from, size_t size);
int tls_slow(intptr_t lent); /* the socket does not take all */
int tls_flushed(intptr_t lent); /* the kernel has everything */
int tls_lost(intptr_t lent); /* why the connection takes nothing more, an errno */
int tls_error(intptr_t lent); /* why the input ended, an errno, 0 if the peer closed it */
const char *tls_reason(intptr_t lent); /* OpenSSL's reason for `tls_error`, or NULL */
void tls_want(intptr_t lent, int what); /* report when there is room in the ring, or when all is flushed */
/* Take a connection back: when this returns, the thread does not know it. Waits for what the thread does for this
 * connection, at most some milliseconds, so that nobody may need Python's lock for it. */
void tls_recall(intptr_t lent);
/* After that: what is left, until `tls_free`. */
void tls_encrypt_rest(intptr_t lent); /* encrypt the data in the ring: it is unsent then */
enum { TLS_DATA, TLS_HELD, TLS_UNSENT }; /* what was not taken, received bytes that OpenSSL has not got, encrypted bytes */
size_t tls_left(intptr_t lent, int which);
void tls_copy_left(intptr_t lent, int which, uint8_t *to);
enum { TLS_LENGTH, TLS_SEEN, TLS_LEFT, TLS_WITHOUT_DATA };
ptrdiff_t tls_place(intptr_t lent, int which);
void tls_free(intptr_t lent);

#endif
