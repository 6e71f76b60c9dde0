/* What the parts of the TLS threads share; see tls_thread.h. */
#ifndef WAYMESH_TLS_PARTS_H
#define WAYMESH_TLS_PARTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "tls_thread.h"

#pragma GCC visibility push(hidden)

enum {
  IN_BYTES = 1 << 18,
  OUT_BYTES = 1 << 19,
  URGENT_BYTES = 1 << 17,      /* of an urgent connection's output in the ring */
  URGENT_SLOW_BYTES = 1 << 15, /* and while its peer is slow */
  RECORD = 16384,              /* data in a record */
  MAX_RECORD = 18437,          /* with its header, in TLS 1.2 */
  HEADER = 5,
  READ_BYTES = 65536, /* at once */
  FEW_BYTES = 2048,   /* at once, of a peer that sends many records without data: a millisecond of key updates */
  MANY_EMPTY = 16,
  MAX_WITHOUT_DATA = 1024, /* as in `TlsSocket` */
  SENT_BYTES = 4 * (RECORD + 512), /* at once */
  MAX_UNSENT = 2 * 65536 + SENT_BYTES, /* with answers of OpenSSL, for a peer that does not read them */
  EVENTS = 64,
  TOGETHER = 8 /* connections after which the routing thread hears of them */
};

/* ---- OpenSSL (tls_openssl.c): only functions whose types are the same in all versions since 1.1 */
extern int (*ssl_read)(void *, void *, int);
extern int (*ssl_write)(void *, const void *, int);
extern int (*ssl_error)(const void *, int);
extern void *(*ssl_rbio)(const void *);
extern void *(*ssl_wbio)(const void *);
extern void *(*ssl_ex_data)(const void *, int);
extern int (*bio_read)(void *, void *, int);
extern int (*bio_write)(void *, const void *, int);
extern long (*bio_ctrl)(void *, int, long, void *);
extern void (*err_clear)(void);
extern unsigned long (*err_get)(void);
extern const char *(*err_reason)(unsigned long);
enum { WANT_READ = 2, WANT_WRITE = 3, ZERO_RETURN = 6, PENDING = 10 };

/* ---- the objects */
typedef struct {
  int length, seen, without_data;
  ptrdiff_t left;
} place; /* in the records that arrive */

typedef struct { /* one side writes, the other one reads */
  uint8_t *octets;
  size_t size; /* a power of two */
  _Alignas(64) _Atomic size_t written;
  _Alignas(64) _Atomic size_t read;
} ring;

struct thread;
struct lent {
  struct thread *thread; /* NULL after `tls_recall` */
  void *ssl, *rbio, *wbio;
  int fd;
  bool urgent;
  ring in, out;
  _Atomic int wanted;  /* TLS_ROOM or TLS_FLUSHED: the routing thread waits for it */
  _Atomic int in_full; /* the thread waits for room for input */
  _Atomic int slow, lost, ended;
  _Atomic size_t unsent; /* encrypted bytes that the socket did not take */
  int error;             /* with `ended` */
  unsigned long reason;
  bool queued, reported; /* under the thread's lock: in its queue, in that of the routing thread */
  struct lent *next, *next_reported;
  /* Of whoever has the connection: the thread while it works for it, else the routing thread. */
  bool readable, writable, hung_up, many_empty, news;
  place place;
  uint8_t *held, *rest; /* `rest`: what is unsent */
  size_t held_at, held_end, rest_at, rest_end;
};

typedef struct {
  struct lent *first, *last;
} queue;

struct thread {
  pthread_t id;
  int epoll, wake, news; /* descriptors: `wake` wakes this thread, `news` the routing one */
  uint8_t input[READ_BYTES], output[SENT_BYTES];
  pthread_mutex_t lock; /* protects what follows */
  pthread_cond_t done;  /* the work for `current` */
  struct lent *current;
  struct lent **by_fd;
  size_t fds;
  queue work, reports;
  bool sleeping, signalled, stopping, awaited;
  unsigned served; /* connections so far */
};

#define LENT(handle) ((struct lent *)(handle))
#define THREAD(handle) ((struct thread *)(handle))

static inline size_t smaller(size_t one, size_t other) { return one < other ? one : other; }
static inline size_t used(ring *ring) { return atomic_load(&ring->written) - atomic_load(&ring->read); }

/* Bytes of output that may wait in the ring. */
static inline size_t limit(struct lent *lent) {
  if (!lent->urgent) return OUT_BYTES;
  return atomic_load(&lent->slow) ? URGENT_SLOW_BYTES : URGENT_BYTES;
}

/* Read, decrypt, encrypt and write for a connection, a little of each (tls_records.c). Whether there is more now. */
bool serve(struct thread *thread, struct lent *lent);
/* Encrypt a record of the ring's data from `taken` on. Returns how much, 0 if there is none or not now. */
size_t encrypt_record(struct lent *lent, size_t taken);
/* Keep bytes that the socket did not take behind those that are kept. */
void keep_unsent(struct lent *lent, const uint8_t *from, size_t size);

#pragma GCC visibility pop

#endif
