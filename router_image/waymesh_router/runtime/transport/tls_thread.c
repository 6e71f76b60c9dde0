/* The threads, and what the routing thread calls. */
#define _GNU_SOURCE
#include "tls_thread.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tls_parts.h"

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
    if (++thread->served % TOGETHER == 0) report(thread);
  }
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
    thread->sleeping = !thread->work.first && (!thread->reports.first || thread->signalled);
    int timeout = thread->sleeping ? -1 : 0;
    pthread_mutex_unlock(&thread->lock);
    int count = epoll_wait(thread->epoll, events, EVENTS, timeout); /* -1: interrupted */
    pthread_mutex_lock(&thread->lock);
    thread->sleeping = false;
    for (int i = 0; i < count; i++) note(thread, &events[i]);
    if (thread->work.first) work(thread);
    else report(thread); /* not before everything that has arrived is read: the more, the less each costs */
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
      if (!lent->lost) keep_unsent(lent, record, (size_t)count);
    more = lent->lost ? 0 : encrypt_record(lent, 0);
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
