// The client's side of AMQP over WebSocket (RFC 6455): headers of frames, and the octets that a server's frames carry.
#ifndef WEB_SOCKET_H
#define WEB_SOCKET_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WS_MAX_HEAD = 14, WS_MAX_ANSWER = 4096 };

typedef struct ws_reader {
  uint8_t head[10];          // of the frame that begins: what has come of its header
  size_t have;
  uint64_t left;             // octets of its payload to come
  bool skip;                 // a control frame: its payload is not AMQP
} ws_reader;

size_t ws_request(char *to, size_t room, const char *host, int port);  // the upgrade; the length
bool ws_accepted(const char *answer);                     // whether the server answered it with 101
size_t ws_head_size(size_t n);                            // of a masked frame with n octets
void ws_frame(uint8_t *frame, size_t n);                  // header at its begin; masks the n octets behind it
size_t ws_unframe(ws_reader *r, uint8_t *data, size_t n); // moves what the frames carry to the begin; the length
#endif
