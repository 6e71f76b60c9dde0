#define _GNU_SOURCE
#include "tls_thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

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

/* ---- OpenSSL: only functions whose types are the same in all versions since 1.1 */
static int (*ssl_read)(void *, void *, int);
static int (*ssl_write)(void *, const void *, int);
static int (*ssl_error)(const void *, int);
static void *(*ssl_rbio)(const void *);
static void *(*ssl_wbio)(const void *);
static void *(*ssl_ex_data)(const void *, int);
static int (*bio_read)(void *, void *, int);
static int (*bio_write)(void *, const void *, int);
static long (*bio_ctrl)(void *, int, long, void *);
static void (*err_clear)(void);
static unsigned long (*err_get)(void);
static const char *(*err_reason)(unsigned long);
enum { WANT_READ = 2, WANT_WRITE = 3, ZERO_RETURN = 6, PENDING = 10 };

int tls_find_functions(const char *path) {
  static const struct {
    void *to;
    const char *name;
  } wanted[] = {
      {&ssl_read, "SSL_read"},       {&ssl_write, "SSL_write"},          {&ssl_error, "SSL_get_error"},
      {&ssl_rbio, "SSL_get_rbio"},   {&ssl_wbio, "SSL_get_wbio"},        {&ssl_ex_data, "SSL_get_ex_data"},
      {&bio_read, "BIO_read"},       {&bio_write, "BIO_write"},          {&bio_ctrl, "BIO_ctrl"},
      {&err_clear, "ERR_clear_error"}, {&err_get, "ERR_get_error"},      {&err_reason, "ERR_reason_error_string"},
  };
  void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (!library) return 0;
  int found = 1;
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    void *function = dlsym(library, wanted[i].name);
    memcpy(wanted[i].to, &function, sizeof function);
    if (!function) found = 0;
  }
  dlclose(library); /* Python keeps it */
  return found;
}

intptr_t tls_of_object(intptr_t object, intptr_t context) {
  struct {
    intptr_t references, type, socket, ssl, context;
  } head;
  memcpy(&head, (const void *)object, sizeof head);
  if (head.context != context || head.socket || !head.ssl) return 0;
  return ssl_ex_data((const void *)head.ssl, 0) == (void *)object ? head.ssl : 0;
}

long tls_in_memory(intptr_t ssl, int output) {
  void *bio = output ? ssl_wbio((const void *)ssl) : ssl_rbio((const void *)ssl);
  return bio ? bio_ctrl(bio, PENDING, 0, NULL) : -1;
}

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
};

#define LENT(handle) ((struct lent *)(handle))
#define THREAD(handle) ((struct thread *)(handle))

static size_t smaller(size_t one, size_t other) { return one < other ? one : other; }

static void signal_descriptor(int fd) {
  uint64_t one = 1;
  if (write(fd, &one, sizeof one) < 0) return; /* it is set already */
}

static void clear_descriptor(int fd) {
  uint64_t count;
  if (read(fd, &count, sizeof count) < 0) return;
}

/* ---- queues, under the lock */
static void add_work(struct thread *thread, struct lent *lent) {
  if (lent->queued) return;
  lent->queued = true;
  lent->next = NULL;
  if (thread->work.last) thread->work.last->next = lent;
  else thread->work.first = lent;
  thread->work.last = lent;
}

static void add_report(struct thread *thread, struct lent *lent) {
  if (lent->reported) return;
  lent->reported = true;
  lent->next_reported = NULL;
  if (thread->reports.last) thread->reports.last->next_reported = lent;
  else thread->reports.first = lent;
  thread->reports.last = lent;
}

static struct lent *next_work(struct thread *thread) {
  struct lent *lent = thread->work.first;
  if (!lent) return NULL;
  thread->work.first = lent->next;
  if (!lent->next) thread->work.last = NULL;
  lent->queued = false;
  return lent;
}

static struct lent *next_report(struct thread *thread) {
  struct lent *lent = thread->reports.first;
  if (!lent) return NULL;
  thread->reports.first = lent->next_reported;
  if (!lent->next_reported) thread->reports.last = NULL;
  lent->reported = false;
  return lent;
}

static void forget(struct thread *thread, struct lent *lent) {
  queue kept = thread->work;
  thread->work = (queue){NULL, NULL};
  for (struct lent *each = kept.first, *next; each; each = next) {
    next = each->next;
    each->queued = false;
    if (each != lent) add_work(thread, each);
  }
  kept = thread->reports;
  thread->reports = (queue){NULL, NULL};
  for (struct lent *each = kept.first, *next; each; each = next) {
    next = each->next_reported;
    each->reported = false;
    if (each != lent) add_report(thread, each);
  }
}

/* Let the thread look at the connection. */
static void tell(struct lent *lent) {
  struct thread *thread = lent->thread;
  if (!thread) return;
  pthread_mutex_lock(&thread->lock);
  add_work(thread, lent);
  bool wake = thread->sleeping;
  thread->sleeping = false;
  pthread_mutex_unlock(&thread->lock);
  if (wake) signal_descriptor(thread->wake);
}

/* ---- rings */
static size_t used(ring *ring) { return atomic_load(&ring->written) - atomic_load(&ring->read); }

static size_t limit(struct lent *lent) {
  if (!lent->urgent) return OUT_BYTES;
  return atomic_load(&lent->slow) ? URGENT_SLOW_BYTES : URGENT_BYTES;
}

ssize_t tls_take(intptr_t handle, uint8_t *to, size_t room) {
  struct lent *lent = LENT(handle);
  ring *in = &lent->in;
  bool ended = atomic_load(&lent->ended);
  size_t size = smaller(used(in), room);
  if (!size) return ended ? 0 : -1;
  size_t at = in->read & (in->size - 1), first = smaller(size, in->size - at);
  memcpy(to, in->octets + at, first);
  memcpy(to + first, in->octets, size - first);
  atomic_fetch_add(&in->read, size);
  if (atomic_load(&lent->in_full) && used(in) <= in->size / 2) {
    atomic_store(&lent->in_full, 0);
    tell(lent);
  }
  return (ssize_t)size;
}

size_t tls_input(intptr_t handle) { return used(&LENT(handle)->in); }
int tls_ended(intptr_t handle) { return atomic_load(&LENT(handle)->ended); }

ssize_t tls_put(intptr_t handle, const uint8_t *from, size_t size) {
  struct lent *lent = LENT(handle);
  ring *out = &lent->out;
  if (atomic_load(&lent->lost)) return -1;
  size_t most = limit(lent), waiting = used(out);
  size = waiting < most ? smaller(size, most - waiting) : 0;
  if (!size) return 0;
  size_t at = out->written & (out->size - 1), first = smaller(size, out->size - at);
  memcpy(out->octets + at, from, first);
  memcpy(out->octets, from + first, size - first);
  atomic_fetch_add(&out->written, size);
  tell(lent);
  return (ssize_t)size;
}

int tls_slow(intptr_t handle) { return atomic_load(&LENT(handle)->slow); }
int tls_flushed(intptr_t handle) { return !used(&LENT(handle)->out) && !atomic_load(&LENT(handle)->unsent); }
int tls_lost(intptr_t handle) { return atomic_load(&LENT(handle)->lost); }
int tls_error(intptr_t handle) { return LENT(handle)->error; }
const char *tls_reason(intptr_t handle) {
  return LENT(handle)->reason ? err_reason(LENT(handle)->reason) : NULL;
}

void tls_want(intptr_t handle, int what) {
  if (atomic_exchange(&LENT(handle)->wanted, what) != what) tell(LENT(handle));
}

/* ---- input, in the thread */
static void end(struct lent *lent, int error, unsigned long reason) {
  lent->error = error;
  lent->reason = reason;
  atomic_store(&lent->ended, 1); /* after all data */
  lent->news = true;
}

/* The part of the next record in at[:size]; `complete`: its end is there. As `TlsSocket._next`. */
static size_t record_part(place *place, const uint8_t *at, size_t size, bool *complete) {
  size_t count = 0;
  *complete = false;
  while (!place->left) {
    if (count == size) return count;
    place->length = (place->length << 8 | at[count++]) & 0xFFFF;
    if (++place->seen < HEADER) continue;
    place->seen = 0;
    place->left = place->length < MAX_RECORD - HEADER + 1 ? place->length : 0; /* else OpenSSL refuses it now */
    break;
  }
  size_t part = smaller((size_t)place->left, size - count);
  place->left -= (ptrdiff_t)part;
  *complete = !place->left;
  return count + part;
}

/* Read the data of the record that OpenSSL has into the ring, which has room for it. Whether there was any. */
static bool read_record(struct thread *thread, struct lent *lent) {
  ring *in = &lent->in;
  size_t at = in->written & (in->size - 1), flat = in->size - at;
  uint8_t *to = flat < RECORD ? thread->output : in->octets + at;
  err_clear();
  int count = ssl_read(lent->ssl, to, RECORD);
  if (count > 0) {
    if (to == thread->output) {
      size_t first = smaller((size_t)count, flat);
      memcpy(in->octets + at, to, first);
      memcpy(in->octets, to + first, (size_t)count - first);
    }
    atomic_fetch_add(&in->written, (size_t)count);
    lent->news = true;
    return true;
  }
  int why = ssl_error(lent->ssl, count);
  if (why == ZERO_RETURN) end(lent, 0, 0);
  else if (why != WANT_READ && why != WANT_WRITE) end(lent, EPROTO, err_get());
  return false;
}

static void decrypt(struct thread *thread, struct lent *lent, const uint8_t *at, size_t size) {
  int empty = 0;
  while (size && !lent->ended) {
    bool complete;
    size_t part = record_part(&lent->place, at, size, &complete);
    bio_write(lent->rbio, at, (int)part);
    at += part;
    size -= part;
    if (!complete) continue;
    if (read_record(thread, lent)) {
      lent->place.without_data = 0;
    } else {
      empty++;
      if (++lent->place.without_data > MAX_WITHOUT_DATA && !lent->ended) end(lent, ENOMSG, 0);
    }
  }
  lent->many_empty = empty > MANY_EMPTY;
}

/* Whether there may be more to read now. */
static bool read_input(struct thread *thread, struct lent *lent) {
  if (lent->ended) return false;
  bool held = lent->held_at < lent->held_end;
  if (!held && !lent->readable) return false;
  if (lent->in.size - used(&lent->in) < 2 * MAX_RECORD) {
    atomic_store(&lent->in_full, 1);
    if (lent->in.size - used(&lent->in) < 2 * MAX_RECORD) return false;
    atomic_store(&lent->in_full, 0);
  }
  /* The data of these bytes, and that of a record of which OpenSSL has a part. */
  size_t most = smaller(lent->many_empty ? FEW_BYTES : READ_BYTES, lent->in.size - used(&lent->in) - MAX_RECORD);
  if (held) {
    size_t size = smaller(most, lent->held_end - lent->held_at);
    decrypt(thread, lent, lent->held + lent->held_at, size);
    lent->held_at += size;
    return true;
  }
  ssize_t count = recv(lent->fd, thread->input, most, 0);
  if (count > 0) {
    if ((size_t)count < most && !lent->hung_up) lent->readable = false;
    decrypt(thread, lent, thread->input, (size_t)count);
    return lent->readable;
  }
  if (count < 0 && errno == EINTR) return true;
  lent->readable = false;
  if (count == 0) end(lent, 0, 0);
  else if (errno != EAGAIN && errno != EWOULDBLOCK) end(lent, errno, 0);
  return false;
}

/* ---- output, in the thread */
static void lose(struct lent *lent, int error) {
  atomic_store(&lent->lost, error);
  lent->rest_at = lent->rest_end = 0;
  atomic_store(&lent->unsent, 0);
  lent->news = true;
}

/* Send, and return how many bytes the socket took, all if the connection is lost. */
static size_t send_some(struct lent *lent, const uint8_t *from, size_t size) {
  ssize_t count = send(lent->fd, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count >= 0) {
    if ((size_t)count < size) lent->writable = false;
    return (size_t)count;
  }
  if (errno == EINTR) return 0;
  if (errno == EAGAIN || errno == EWOULDBLOCK) {
    lent->writable = false;
    return 0;
  }
  lose(lent, errno);
  return size;
}

/* Keep bytes that the socket did not take behind those that are kept. */
static void keep(struct lent *lent, const uint8_t *from, size_t size) {
  uint8_t *grown = realloc(lent->rest, lent->rest_end + size);
  if (!grown) {
    lose(lent, ENOMEM);
    return;
  }
  lent->rest = grown;
  memcpy(grown + lent->rest_end, from, size);
  lent->rest_end += size;
}

static void drop_rest(struct lent *lent) {
  free(lent->rest);
  lent->rest = NULL;
  lent->rest_at = lent->rest_end = 0;
}

/* Encrypt the next record of the ring's data from `taken` on. Returns how much, 0 if there is none or not now. */
static size_t encrypt(struct lent *lent, size_t taken) {
  ring *out = &lent->out;
  size_t at = (out->read + taken) & (out->size - 1);
  size_t size = smaller(smaller(used(out) - taken, out->size - at), RECORD);
  if (!size) return 0;
  err_clear();
  int count = ssl_write(lent->ssl, out->octets + at, (int)size);
  if (count > 0) return (size_t)count;
  int why = ssl_error(lent->ssl, count);
  if (why != WANT_READ && why != WANT_WRITE) lose(lent, EPROTO); /* else the peer must answer first */
  return 0;
}

/* Send what is unsent, then a few records. Whether there is more to send now. */
static bool write_output(struct thread *thread, struct lent *lent) {
  if (lent->rest_at < lent->rest_end) {
    if (!lent->writable) return false;
    lent->rest_at += send_some(lent, lent->rest + lent->rest_at, lent->rest_end - lent->rest_at);
    if (!lent->lost && lent->rest_at < lent->rest_end) {
      atomic_store(&lent->unsent, lent->rest_end - lent->rest_at);
      return lent->writable;
    }
    drop_rest(lent);
    atomic_store(&lent->unsent, 0);
  }
  if (lent->lost) {
    atomic_store(&lent->out.read, lent->out.written);
    return false;
  }
  size_t size = 0, taken = 0;
  int count;
  for (;;) {
    while (size < SENT_BYTES && (count = bio_read(lent->wbio, thread->output + size, (int)(SENT_BYTES - size))) > 0)
      size += (size_t)count;
    if (SENT_BYTES - size < RECORD + 512) break;
    size_t more = encrypt(lent, taken);
    if (!more) break;
    taken += more;
  }
  if (!size) {
    atomic_store(&lent->slow, 0);
    return false;
  }
  size_t sent = lent->writable ? send_some(lent, thread->output, size) : 0;
  if (sent < size) keep(lent, thread->output + sent, size - sent);
  if (lent->lost) return true; /* the ring is dropped next */
  atomic_store(&lent->unsent, lent->rest_end - lent->rest_at);
  atomic_store(&lent->slow, sent < size);
  atomic_fetch_add(&lent->out.read, taken); /* last, see `tls_flushed` */
  return lent->writable && used(&lent->out);
}

/* ---- the work for a connection. Whether there is more now. */
static bool serve(struct thread *thread, struct lent *lent) {
  bool more = write_output(thread, lent);
  if (read_input(thread, lent)) more = true;
  if (bio_ctrl(lent->wbio, PENDING, 0, NULL) || used(&lent->out)) { /* an answer, or what waited for the input */
    if (write_output(thread, lent)) more = true;
    if (bio_ctrl(lent->wbio, PENDING, 0, NULL) + (long)lent->unsent > MAX_UNSENT && !lent->ended) end(lent, ENOBUFS, 0);
  }
  int wanted = atomic_load(&lent->wanted);
  if ((wanted == TLS_ROOM && used(&lent->out) <= limit(lent) / 2) ||
      (wanted == TLS_FLUSHED && tls_flushed((intptr_t)lent))) {
    atomic_store(&lent->wanted, 0);
    lent->news = true;
  }
  return more;
}

/* ---- the thread */
static void report(struct thread *thread) { /* under the lock, which it gives up for a moment */
  if (!thread->reports.first || thread->signalled) return;
  thread->signalled = true;
  pthread_mutex_unlock(&thread->lock);
  signal_descriptor(thread->news);
  pthread_mutex_lock(&thread->lock);
}

static void work(struct thread *thread) {
  struct lent *lent;
  for (int count = 1; count <= EVENTS && (lent = next_work(thread)); count++) {
    thread->current = lent;
    pthread_mutex_unlock(&thread->lock);
    bool more = serve(thread, lent);
    pthread_mutex_lock(&thread->lock);
    if (more) add_work(thread, lent);
    if (lent->news) add_report(thread, lent);
    lent->news = false;
    thread->current = NULL;
    if (thread->awaited) pthread_cond_signal(&thread->done);
    if (count % TOGETHER == 0) report(thread);
  }
  report(thread);
}

static void note(struct thread *thread, const struct epoll_event *event) {
  int fd = event->data.fd;
  if (fd == thread->wake) {
    clear_descriptor(fd);
    return;
  }
  struct lent *lent = (size_t)fd < thread->fds ? thread->by_fd[fd] : NULL;
  if (!lent) return; /* taken back meanwhile */
  uint32_t closed = event->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR);
  if (event->events & EPOLLIN || closed) lent->readable = true;
  if (closed) lent->hung_up = true;
  if (event->events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) lent->writable = true;
  add_work(thread, lent);
}

static void *run(void *argument) {
  struct thread *thread = argument;
  struct epoll_event events[EVENTS];
  pthread_mutex_lock(&thread->lock);
  while (!thread->stopping) {
    thread->sleeping = !thread->work.first;
    int timeout = thread->sleeping ? -1 : 0;
    pthread_mutex_unlock(&thread->lock);
    int count = epoll_wait(thread->epoll, events, EVENTS, timeout); /* -1: interrupted */
    pthread_mutex_lock(&thread->lock);
    thread->sleeping = false;
    for (int i = 0; i < count; i++) note(thread, &events[i]);
    work(thread);
  }
  pthread_mutex_unlock(&thread->lock);
  return NULL;
}

intptr_t tls_start(void) {
  struct thread *thread = calloc(1, sizeof *thread);
  if (!thread) return 0;
  pthread_mutex_init(&thread->lock, NULL);
  pthread_cond_init(&thread->done, NULL);
  thread->epoll = epoll_create1(EPOLL_CLOEXEC);
  thread->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  thread->news = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  struct epoll_event event = {.events = EPOLLIN, .data.fd = thread->wake};
  bool ready = thread->epoll >= 0 && thread->wake >= 0 && thread->news >= 0 &&
               !epoll_ctl(thread->epoll, EPOLL_CTL_ADD, thread->wake, &event);
  if (ready) { /* signals are for Python's main thread */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    ready = !pthread_create(&thread->id, NULL, run, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
  }
  if (ready) {
    pthread_setname_np(thread->id, "tls");
    return (intptr_t)thread;
  }
  if (thread->epoll >= 0) close(thread->epoll);
  if (thread->wake >= 0) close(thread->wake);
  if (thread->news >= 0) close(thread->news);
  free(thread);
  return 0;
}

void tls_stop(intptr_t handle) {
  struct thread *thread = THREAD(handle);
  pthread_mutex_lock(&thread->lock);
  thread->stopping = true;
  pthread_mutex_unlock(&thread->lock);
  signal_descriptor(thread->wake);
  pthread_join(thread->id, NULL);
  close(thread->epoll);
  close(thread->wake);
  close(thread->news);
  pthread_mutex_destroy(&thread->lock);
  pthread_cond_destroy(&thread->done);
  free(thread->by_fd);
  free(thread);
}

/* ---- the routing thread */
int tls_descriptor(intptr_t thread) { return THREAD(thread)->news; }

int tls_next(intptr_t handle) {
  struct thread *thread = THREAD(handle);
  pthread_mutex_lock(&thread->lock);
  struct lent *lent = next_report(thread);
  if (!lent && thread->signalled) {
    clear_descriptor(thread->news);
    thread->signalled = false;
  }
  int fd = lent ? lent->fd : -1;
  pthread_mutex_unlock(&thread->lock);
  return fd;
}

static bool make_room(struct thread *thread, size_t fd) {
  if (fd < thread->fds) return true;
  size_t size = 2 * (fd + 1);
  struct lent **grown = realloc(thread->by_fd, size * sizeof *grown);
  if (!grown) return false;
  memset(grown + thread->fds, 0, (size - thread->fds) * sizeof *grown);
  thread->by_fd = grown;
  thread->fds = size;
  return true;
}

intptr_t tls_lend(intptr_t handle, intptr_t ssl, int fd, const uint8_t *held, size_t size, int length, int seen,
                  ptrdiff_t left, int without_data, int urgent) {
  struct thread *thread = THREAD(handle);
  struct lent *lent = aligned_alloc(64, (sizeof *lent + 63) / 64 * 64);
  if (!lent) return 0;
  memset(lent, 0, sizeof *lent);
  /* Not from malloc, which might keep it. */
  void *rings = mmap(NULL, IN_BYTES + OUT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  lent->held = size ? malloc(size) : NULL;
  if (rings == MAP_FAILED || (size && !lent->held)) {
    if (rings != MAP_FAILED) munmap(rings, IN_BYTES + OUT_BYTES);
    free(lent->held);
    free(lent);
    return 0;
  }
  lent->in.octets = rings;
  lent->in.size = IN_BYTES;
  lent->out.octets = lent->in.octets + IN_BYTES;
  lent->out.size = OUT_BYTES;
  if (size) memcpy(lent->held, held, size);
  lent->held_end = size;
  lent->place = (place){length, seen, without_data, left};
  lent->thread = thread;
  lent->ssl = (void *)ssl;
  lent->rbio = ssl_rbio(lent->ssl);
  lent->wbio = ssl_wbio(lent->ssl);
  lent->fd = fd;
  lent->urgent = urgent;
  lent->readable = lent->writable = true;
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.fd = fd};
  pthread_mutex_lock(&thread->lock);
  bool known = make_room(thread, (size_t)fd);
  if (known) thread->by_fd[fd] = lent;
  pthread_mutex_unlock(&thread->lock);
  if (!known || epoll_ctl(thread->epoll, EPOLL_CTL_ADD, fd, &event)) {
    if (known) tls_recall((intptr_t)lent);
    tls_free((intptr_t)lent);
    return 0;
  }
  tell(lent);
  return (intptr_t)lent;
}

void tls_recall(intptr_t handle) {
  struct lent *lent = LENT(handle);
  struct thread *thread = lent->thread;
  epoll_ctl(thread->epoll, EPOLL_CTL_DEL, lent->fd, NULL);
  pthread_mutex_lock(&thread->lock);
  thread->by_fd[lent->fd] = NULL;
  thread->awaited = true;
  while (thread->current == lent) pthread_cond_wait(&thread->done, &thread->lock);
  thread->awaited = false;
  forget(thread, lent);
  pthread_mutex_unlock(&thread->lock);
  lent->thread = NULL; /* who takes what is left tells nobody */
}

void tls_encrypt_rest(intptr_t handle) {
  struct lent *lent = LENT(handle);
  uint8_t record[RECORD + 512];
  size_t more = 0;
  int count;
  do {
    atomic_fetch_add(&lent->out.read, more);
    while ((count = bio_read(lent->wbio, record, sizeof record)) > 0)
      if (!lent->lost) keep(lent, record, (size_t)count);
    more = lent->lost ? 0 : encrypt(lent, 0);
  } while (more);
}

size_t tls_left(intptr_t handle, int which) {
  struct lent *lent = LENT(handle);
  if (which == TLS_DATA) return used(&lent->in);
  return which == TLS_HELD ? lent->held_end - lent->held_at : lent->rest_end - lent->rest_at;
}

void tls_copy_left(intptr_t handle, int which, uint8_t *to) {
  struct lent *lent = LENT(handle);
  size_t size = tls_left(handle, which);
  if (which == TLS_DATA) tls_take(handle, to, size);
  else if (size) memcpy(to, which == TLS_HELD ? lent->held + lent->held_at : lent->rest + lent->rest_at, size);
}

ptrdiff_t tls_place(intptr_t handle, int which) {
  const place *at = &LENT(handle)->place;
  return which == TLS_LENGTH ? at->length : which == TLS_SEEN ? at->seen : which == TLS_LEFT ? at->left : at->without_data;
}

void tls_free(intptr_t handle) {
  munmap(LENT(handle)->in.octets, IN_BYTES + OUT_BYTES);
  free(LENT(handle)->held);
  free(LENT(handle)->rest);
  free(LENT(handle));
}
