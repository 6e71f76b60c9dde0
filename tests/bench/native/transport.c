#include "transport.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifdef BENCH_TLS
#include <openssl/ssl.h>
#endif

#include "options.h"
#include "report.h"

enum { READ_SIZE = 1 << 20, RECORD_SIZE = 1 << 14 };
static uint8_t *shared;            // one receive buffer for all connections
static size_t shared_cap;
static int epoll_fd = -1;
static bool no_pwait2;             // kernel before 5.11: whole milliseconds then
double next_due_s = INFINITY;

#ifdef BENCH_TLS
static void start_tls(transport *t) {
  static SSL_CTX *context;
  if (!context) context = SSL_CTX_new(TLS_client_method());
  SSL *ssl = SSL_new(context);
  SSL_set_fd(ssl, t->fd);
  SSL_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (SSL_connect(ssl) != 1) fail(EXIT_CONNECT, "TLS handshake failed");
  t->ssl = ssl;
}
static ssize_t tls_result(SSL *ssl, int r) {
  if (r > 0) return r;
  int e = SSL_get_error(ssl, r);
  errno = e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE ? EAGAIN : ECONNRESET;
  return e == SSL_ERROR_ZERO_RETURN ? 0 : -1;
}
#endif

static ssize_t write_some(transport *t, const uint8_t *p, size_t n) {
#ifdef BENCH_TLS
  if (t->ssl) return tls_result(t->ssl, SSL_write(t->ssl, p, n > 1 << 30 ? 1 << 30 : (int)n));
#endif
  return send(t->fd, p, n, MSG_NOSIGNAL);
}

static ssize_t read_one(transport *t, uint8_t *p) {
#ifdef BENCH_TLS
  if (t->ssl) return tls_result(t->ssl, SSL_read(t->ssl, p, 1));
#endif
  return recv(t->fd, p, 1, 0);
}

static ssize_t read_some(transport *t, uint8_t *p, size_t n) {
#ifdef BENCH_TLS
  if (t->ssl) {  // whole records, as many as there is room for: bytes inside OpenSSL raise no further event
    size_t total = 0;
    ssize_t k = 0;
    while (n - total >= RECORD_SIZE && (k = tls_result(t->ssl, SSL_read(t->ssl, p + total, (int)(n - total)))) > 0)
      total += (size_t)k;
    return total ? (ssize_t)total : k;
  }
#endif
  return recv(t->fd, p, n, 0);
}

// Blocking, octet by octet: what follows the answer is AMQP already.
static void upgrade(transport *t, int port) {
  char text[WS_MAX_ANSWER];
  size_t n = ws_request(text, sizeof text, opt.host, port), have = 0;
  if (n >= sizeof text || write_some(t, (uint8_t *)text, n) != (ssize_t)n) fail(EXIT_CONNECT, "WebSocket: not sent");
  do {
    if (have == sizeof text - 1 || read_one(t, (uint8_t *)text + have) != 1)
      fail(EXIT_CONNECT, "WebSocket: no whole answer");
    text[++have] = 0;
  } while (have < 4 || memcmp(text + have - 4, "\r\n\r\n", 4));
  if (!ws_accepted(text)) fail(EXIT_CONNECT, "WebSocket refused: %.*s", (int)strcspn(text, "\r"), text);
}

static int connect_once(const struct addrinfo *a) {
  int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0) return fd;
  int saved = errno;
  if (fd >= 0) close(fd);
  errno = saved;
  return -1;
}

void transport_connect(transport *t, int port, double timeout_s) {
  char service[16];
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
  snprintf(service, sizeof service, "%d", port);
  int e = getaddrinfo(opt.host, service, &hints, &found);
  if (e) fail(EXIT_CONNECT, "%s: %s", opt.host, gai_strerror(e));
  double deadline = now_s() + timeout_s;
  memset(t, 0, sizeof *t);
  while ((t->fd = connect_once(found)) < 0) {
    if (errno != ECONNREFUSED || now_s() > deadline) fail(EXIT_CONNECT, "%s:%d: %s", opt.host, port, strerror(errno));
    nanosleep(&(struct timespec){0, 2000000}, NULL);
  }
  freeaddrinfo(found);
  int one = 1;
  setsockopt(t->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
#ifdef BENCH_TLS
  if (opt.tls) start_tls(t);
#endif
  if (opt.ws) upgrade(t, port);
}

void transport_watch(transport *t, uint32_t id) {
  if (epoll_fd < 0) {
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    prctl(PR_SET_TIMERSLACK, 1000UL);  // wake up within 1 us of the time asked for, not 50
  }
  fcntl(t->fd, F_SETFL, O_NONBLOCK);
  struct epoll_event e = {.events = EPOLLIN, .data.u32 = id};
  epoll_ctl(epoll_fd, EPOLL_CTL_ADD, t->fd, &e);
  t->id = id;
}

void transport_close(transport *t) {
#ifdef BENCH_TLS
  if (t->ssl) SSL_free(t->ssl);
  t->ssl = NULL;
#endif
  if (t->fd >= 0) close(t->fd);  // leaves the epoll set by itself
  t->fd = -1;
  t->closed = true;
  free(t->out);
  free(t->tail);
  t->out = t->tail = NULL;
  t->out_off = t->out_len = t->out_cap = t->framed = t->tail_len = t->tail_cap = 0;
}

uint8_t *out_room(transport *t, size_t n) {
  if (t->out_len + n > t->out_cap) {
    size_t cap = t->out_cap ? t->out_cap : 1024;
    while (cap < t->out_len + n) cap *= 2;
    t->out = realloc(t->out, cap);
    if (!t->out) fail(EXIT_CONNECT, "out of memory");
    t->out_cap = cap;
  }
  return t->out + t->out_len;
}

static void want_write(transport *t, bool on) {
  if (t->blocked == on) return;
  struct epoll_event e = {.events = on ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.u32 = t->id};
  epoll_ctl(epoll_fd, EPOLL_CTL_MOD, t->fd, &e);
  t->blocked = on;
}

// One WebSocket frame of all that was put since the last one.
static void frame_new(transport *t) {
  size_t n = t->out_len - t->framed, head = ws_head_size(n);
  if (!n) return;
  out_room(t, head);
  memmove(t->out + t->framed + head, t->out + t->framed, n);
  ws_frame(t->out + t->framed, n);
  t->framed = t->out_len += head;
}

void transport_flush(transport *t) {
  if (t->closed || t->out_off == t->out_len) return;
  if (opt.ws) frame_new(t);
  while (t->out_off < t->out_len) {
    ssize_t k = write_some(t, t->out + t->out_off, t->out_len - t->out_off);
    if (k <= 0) {
      if (errno == EAGAIN) want_write(t, true);
      else t->closed = true;  // the next read says so, after what the peer may have said before
      return;
    }
    t->out_off += (size_t)k;
  }
  t->out_off = t->out_len = t->framed = 0;
  t->written_at = now_s();
  want_write(t, false);
}

uint8_t *transport_read(transport *t, size_t *n) {
  if (shared_cap < t->tail_len + READ_SIZE) {
    shared_cap = t->tail_len + READ_SIZE;
    free(shared);
    shared = malloc(shared_cap);
    if (!shared) fail(EXIT_CONNECT, "out of memory");
  }
  ssize_t k = read_some(t, shared + t->tail_len, READ_SIZE);
  if (k < 0 && (errno == EAGAIN || errno == EINTR)) return NULL;
  if (k <= 0) { t->closed = true; return NULL; }
  if (opt.ws && !(k = (ssize_t)ws_unframe(&t->ws, shared + t->tail_len, (size_t)k))) return NULL;
  if (t->tail_len) memcpy(shared, t->tail, t->tail_len);
  *n = t->tail_len + (size_t)k;
  t->tail_len = 0;
  return shared;
}

void keep_tail(transport *t, const uint8_t *from, size_t n) {
  if (n > t->tail_cap) {
    free(t->tail);
    t->tail = malloc(n);
    if (!t->tail) fail(EXIT_CONNECT, "out of memory");
    t->tail_cap = n;
  }
  if (n) memcpy(t->tail, from, n);
  t->tail_len = n;
}

int wait_ready(ready *list, int room, double timeout_s) {
  struct epoll_event events[64];
  double due = next_due_s - now_s();
  if (due < timeout_s) timeout_s = due;
  if (timeout_s < 0) timeout_s = 0;
  if (room > 64) room = 64;
  struct timespec ts = {(time_t)timeout_s, (long)((timeout_s - floor(timeout_s)) * 1e9)};
  int n = no_pwait2 ? -1 : epoll_pwait2(epoll_fd, events, room, &ts, NULL);
  if (n < 0 && errno == ENOSYS) no_pwait2 = true;
  if (no_pwait2) n = epoll_wait(epoll_fd, events, room, (int)(timeout_s * 1000));
  for (int i = 0; i < n; i++) {
    uint32_t e = events[i].events;
    list[i] = (ready){events[i].data.u32, e & (EPOLLIN | EPOLLHUP | EPOLLERR), e & EPOLLOUT};
  }
  return n < 0 ? 0 : n;
}
