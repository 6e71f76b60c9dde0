// Sockets, TLS, WebSocket, buffers and the epoll loop.
#ifndef TRANSPORT_H
#define TRANSPORT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "web_socket.h"

typedef struct transport {
  int fd;
  uint32_t id;               // what events of this socket carry
  void *ssl;
  uint8_t *out;              // bytes not yet written: out[out_off .. out_len)
  size_t out_off, out_len, out_cap;
  size_t framed;             // with --ws: out[0 .. framed) are WebSocket frames, what follows is AMQP yet to be framed
  ws_reader ws;
  uint8_t *tail;             // an incomplete frame
  size_t tail_len, tail_cap;
  bool blocked;              // waiting for EPOLLOUT
  bool closed;               // the peer closed or reset the connection
  double written_at;
} transport;

void transport_connect(transport *t, int port, double timeout_s);  // retries while refused; exits with EXIT_CONNECT
void transport_watch(transport *t, uint32_t id);                    // from here on non-blocking, events carry the id
void transport_close(transport *t);                                 // at once, nothing more is written
uint8_t *out_room(transport *t, size_t n);                          // n free bytes at the end; then out_len += used
void transport_flush(transport *t);

// Reads once into the shared buffer behind what is left of the last read; *n is the length. NULL: nothing to read now.
uint8_t *transport_read(transport *t, size_t *n);
void keep_tail(transport *t, const uint8_t *from, size_t n);

typedef struct ready { uint32_t id; bool readable, writable; } ready;
int wait_ready(ready *list, int room, double timeout_s);            // honours next_due_s
extern double next_due_s;   // absolute time of the next paced message, infinity when there is none
#endif
