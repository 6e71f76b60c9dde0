/* What a thread does for a connection: records in and out. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tls_parts.h"

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

void keep_unsent(struct lent *lent, const uint8_t *from, size_t size) {
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

size_t encrypt_record(struct lent *lent, size_t taken) {
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
    size_t more = encrypt_record(lent, taken);
    if (!more) break;
    taken += more;
  }
  if (!size) {
    atomic_store(&lent->slow, 0);
    return false;
  }
  size_t sent = lent->writable ? send_some(lent, thread->output, size) : 0;
  if (sent < size) keep_unsent(lent, thread->output + sent, size - sent);
  if (lent->lost) return true; /* the ring is dropped next */
  atomic_store(&lent->unsent, lent->rest_end - lent->rest_at);
  atomic_store(&lent->slow, sent < size);
  atomic_fetch_add(&lent->out.read, taken); /* last, see `tls_flushed` */
  return lent->writable && used(&lent->out);
}

bool serve(struct thread *thread, struct lent *lent) {
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
