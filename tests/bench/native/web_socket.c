#include "web_socket.h"

#include <stdio.h>
#include <string.h>

enum { FINAL_BINARY = 0x82, MASKED = 0x80, SHORT = 125, LENGTH16 = 126, LENGTH64 = 127, CONTROL = 0x08 };
static const uint8_t KEY[4] = {0x37, 0xfa, 0x21, 0x3d};  // a fixed one: a server must unmask it like any other

size_t ws_request(char *to, size_t room, const char *host, int port) {
  return (size_t)snprintf(to, room,
                          "GET / HTTP/1.1\r\nHost: %s:%d\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                          "Sec-WebSocket-Key: d2F5bWVzaC1iZW5jaC1rZQ==\r\nSec-WebSocket-Version: 13\r\n"
                          "Sec-WebSocket-Protocol: amqp\r\n\r\n", host, port);
}

bool ws_accepted(const char *answer) { return !strncmp(answer, "HTTP/1.1 101 ", 13); }

size_t ws_head_size(size_t n) { return n <= SHORT ? 6 : n <= UINT16_MAX ? 8 : WS_MAX_HEAD; }

void ws_frame(uint8_t *frame, size_t n) {
  uint8_t *p = frame;
  int length_octets = n <= SHORT ? 0 : n <= UINT16_MAX ? 2 : 8;
  *p++ = FINAL_BINARY;
  *p++ = MASKED | (length_octets == 0 ? (uint8_t)n : length_octets == 2 ? LENGTH16 : LENGTH64);
  for (int i = length_octets - 1; i >= 0; i--) *p++ = (uint8_t)((uint64_t)n >> (8 * i));
  memcpy(p, KEY, sizeof KEY);
  p += sizeof KEY;
  for (size_t i = 0; i < n; i++) p[i] ^= KEY[i & 3];
}

static bool head_complete(ws_reader *r) {
  if (r->have < 2) return false;
  int length_octets = r->head[1] == LENGTH16 ? 2 : r->head[1] == LENGTH64 ? 8 : 0;  // a server masks nothing
  if (r->have < 2 + (size_t)length_octets) return false;
  r->left = length_octets ? 0 : r->head[1];
  for (int i = 0; i < length_octets; i++) r->left = r->left << 8 | r->head[2 + i];
  r->skip = r->head[0] & CONTROL;
  r->have = 0;
  return true;
}

size_t ws_unframe(ws_reader *r, uint8_t *data, size_t n) {
  size_t kept = 0;
  for (size_t at = 0; at < n;) {
    if (!r->left) {
      r->head[r->have++] = data[at++];
      head_complete(r);
      continue;
    }
    size_t part = n - at < r->left ? n - at : (size_t)r->left;
    if (!r->skip) {
      memmove(data + kept, data + at, part);
      kept += part;
    }
    at += part;
    r->left -= part;
  }
  return kept;
}
