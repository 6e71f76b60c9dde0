// The floor: a relay that copies bytes between each two connections, in the order in which they come, with one epoll
// loop. What it costs a message is what the system calls cost; `loadgen --relay` drives it with the frames of a run.
//
// With a certificate, it does the same over TLS, by OpenSSL on each socket: what TLS costs a program in C.
//
// usage: floor SECONDS [CERTIFICATE KEY]
// prints {"event": "listening", "port": N}; ends by itself after SECONDS or when stdin ends
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef BENCH_TLS
#include <openssl/ssl.h>
static SSL_CTX *context;  // NULL: plain
#endif

enum { MAX_SIDES = 32768, BUFFER = 256 * 1024, RECORD = 16384, INPUT_ID = MAX_SIDES, LISTEN_ID };

typedef struct side {
  int fd, other;            // other: index of the side it is joined with, -1 while alone
  void *ssl;                // NULL: plain
  char *rest;               // read from this side, not yet taken by the other; only after a full socket
  size_t rest_len, rest_off;
} side;

static side sides[MAX_SIDES];
static int n_sides, epoll_fd;
static char buffer[BUFFER];

static void die(const char *what) {
  fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
  exit(3);
}

#ifdef BENCH_TLS
static void use_certificate(const char *certificate, const char *key) {
  context = SSL_CTX_new(TLS_server_method());
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF);
  if (SSL_CTX_use_certificate_chain_file(context, certificate) != 1 ||
      SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1)
    die("certificate");
}

static bool start_tls(side *s) {  // blocking: clients of a measurement begin it at once, one after the other
  if (!context) return true;
  s->ssl = SSL_new(context);
  SSL_set_fd(s->ssl, s->fd);
  return SSL_accept(s->ssl) == 1;
}

static ssize_t tls_result(SSL *ssl, int n) {
  if (n > 0) return n;
  int e = SSL_get_error(ssl, n);
  errno = e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE ? EAGAIN : ECONNRESET;
  return e == SSL_ERROR_ZERO_RETURN ? 0 : -1;
}
#else
static bool start_tls(side *s) { return s != NULL; }
#endif

static ssize_t read_some(side *s) {
#ifdef BENCH_TLS
  if (s->ssl) {  // all records that have arrived; less room than a record: the rest stays in the socket
    ssize_t total = 0, n = 0;
    while (BUFFER - total >= RECORD && (n = tls_result(s->ssl, SSL_read(s->ssl, buffer + total, RECORD))) > 0)
      total += n;
    return total ? total : n;
  }
#endif
  return recv(s->fd, buffer, sizeof buffer, 0);
}

static ssize_t write_some(side *s, const char *from, size_t n) {
#ifdef BENCH_TLS
  if (s->ssl) return tls_result(s->ssl, SSL_write(s->ssl, from, (int)n));
#endif
  return send(s->fd, from, n, MSG_NOSIGNAL);
}

static void watch(int op, int fd, uint32_t id, uint32_t events) {
  struct epoll_event e = {.events = events, .data.u32 = id};
  if (epoll_ctl(epoll_fd, op, fd, &e)) die("epoll_ctl");
}

static void release(side *s) {
#ifdef BENCH_TLS
  SSL_free(s->ssl);
#endif
  close(s->fd);
  free(s->rest);
  *s = (side){.fd = -1, .other = -1};
}

static void end_pair(int i) {
  int ends[] = {i, sides[i].other};
  for (int k = 0; k < 2; k++) {
    if (ends[k] < 0 || sides[ends[k]].fd < 0) continue;
    release(&sides[ends[k]]);
  }
}

static void accept_one(int listener) {
  int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC), one = 1;
  if (fd < 0) return;
  if (n_sides == MAX_SIDES) { close(fd); return; }
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  int i = n_sides++;
  sides[i] = (side){.fd = fd, .other = -1};
  if (!start_tls(&sides[i])) {  // the client has left
    release(&sides[i]);
    n_sides--;
    return;
  }
  fcntl(fd, F_SETFL, O_NONBLOCK);
  if (i % 2 == 0) return;   // bytes wait in the socket until its partner is there
  sides[i].other = i - 1;
  sides[i - 1].other = i;
  watch(EPOLL_CTL_ADD, sides[i - 1].fd, (uint32_t)(i - 1), EPOLLIN);
  watch(EPOLL_CTL_ADD, fd, (uint32_t)i, EPOLLIN);
}

static void set_events(int i) {  // read unless what was read last is still here; write if the other side has a rest
  const side *s = &sides[i];
  watch(EPOLL_CTL_MOD, s->fd, (uint32_t)i, (s->rest ? 0u : EPOLLIN) | (sides[s->other].rest ? EPOLLOUT : 0u));
}

static void pass(int i) {
  side *s = &sides[i], *to = &sides[s->other];
  ssize_t n = read_some(s), sent = 0;
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0) { end_pair(i); return; }
  while (sent < n) {
    ssize_t k = write_some(to, buffer + sent, (size_t)(n - sent));
    if (k > 0) { sent += k; continue; }
    if (errno != EAGAIN) { end_pair(i); return; }
    s->rest_len = (size_t)(n - sent);
    s->rest_off = 0;
    s->rest = malloc(s->rest_len);
    if (!s->rest) die("malloc");
    memcpy(s->rest, buffer + sent, s->rest_len);
    set_events(i);
    set_events(s->other);
    return;
  }
}

static void pass_rest(int to) {  // `to` can be written again
  int from = sides[to].other;
  side *s = &sides[from];
  while (s->rest && s->rest_off < s->rest_len) {
    ssize_t k = write_some(&sides[to], s->rest + s->rest_off, s->rest_len - s->rest_off);
    if (k <= 0 && errno == EAGAIN) return;
    if (k <= 0) { end_pair(to); return; }
    s->rest_off += (size_t)k;
  }
  free(s->rest);
  s->rest = NULL;
  set_events(from);
  set_events(to);
}

static int listen_any(void) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t n = sizeof a;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&a, n) || listen(fd, 1024) ||
      getsockname(fd, (struct sockaddr *)&a, &n))
    die("listen");
  printf("{\"event\": \"listening\", \"port\": %d}\n", ntohs(a.sin_port));
  fflush(stdout);
  return fd;
}

static void serve(int listener, int id, uint32_t events) {
  char byte;
  if (id == LISTEN_ID) { accept_one(listener); return; }
  if (id == INPUT_ID) { if (read(STDIN_FILENO, &byte, 1) <= 0) exit(0); return; }
  if (events & EPOLLOUT && sides[id].fd >= 0) pass_rest(id);
  if (events & (EPOLLIN | EPOLLHUP | EPOLLERR) && sides[id].fd >= 0) pass(id);
}

int main(int argc, char **argv) {
  int seconds = argc == 2 || argc == 4 ? atoi(argv[1]) : 0;
  if (seconds < 1 || seconds > 600) {
    fprintf(stderr, "usage: floor SECONDS (1 ... 600) [CERTIFICATE KEY]\n");
    return 2;
  }
  if (argc == 4) {
#ifdef BENCH_TLS
    use_certificate(argv[2], argv[3]);
#else
    fprintf(stderr, "floor: built without OpenSSL\n");
    return 2;
#endif
  }
  signal(SIGPIPE, SIG_IGN);
  alarm((unsigned)seconds);
  epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  int listener = listen_any();
  watch(EPOLL_CTL_ADD, listener, LISTEN_ID, EPOLLIN);
  struct epoll_event on_input = {.events = EPOLLIN, .data.u32 = INPUT_ID};
  // A file or /dev/null cannot be watched: then only time ends it.
  epoll_ctl(epoll_fd, EPOLL_CTL_ADD, STDIN_FILENO, &on_input);
  for (;;) {
    struct epoll_event events[64];
    int n = epoll_wait(epoll_fd, events, 64, -1);
    for (int i = 0; i < n; i++) serve(listener, (int)events[i].data.u32, events[i].events);
  }
}
