// AMQP 1.0 bytes: what a load generator needs of the encoding, and no more.
// Writers put fixed, known frames; readers check every bound and say NULL or false for bad input.
#ifndef WIRE_H
#define WIRE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum performative {
  OPEN = 0x10, BEGIN = 0x11, ATTACH = 0x12, FLOW = 0x13, TRANSFER = 0x14, DISPOSITION = 0x15,
  DETACH = 0x16, END = 0x17, CLOSE = 0x18, SASL_MECHANISMS = 0x40, SASL_INIT = 0x41, SASL_OUTCOME = 0x44
};
enum outcome { OUTCOME_NONE = 0, ACCEPTED = 0x24, REJECTED = 0x25, RELEASED = 0x26, MODIFIED = 0x27 };
enum { FRAME_AMQP = 0, FRAME_SASL = 1, FRAME_HEADER = 8, WINDOW = 0x7fffffff };
enum { AMQP_NULL = 0x40, AMQP_TRUE = 0x41, AMQP_FALSE = 0x42, AMQP_UINT0 = 0x43, AMQP_UINT = 0x70,
       AMQP_STRING8 = 0xa1, AMQP_SYMBOL8 = 0xa3, AMQP_BINARY8 = 0xa0, AMQP_BINARY32 = 0xb0 };

static inline uint32_t get_u32(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}
static inline uint64_t get_u64(const uint8_t *p) { return (uint64_t)get_u32(p) << 32 | get_u32(p + 4); }
static inline uint8_t *put_u32(uint8_t *p, uint32_t v) {
  p[0] = (uint8_t)(v >> 24); p[1] = (uint8_t)(v >> 16); p[2] = (uint8_t)(v >> 8); p[3] = (uint8_t)v;
  return p + 4;
}
static inline uint8_t *put_u64(uint8_t *p, uint64_t v) { return put_u32(put_u32(p, (uint32_t)(v >> 32)), (uint32_t)v); }

uint8_t *put_uint(uint8_t *p, uint32_t v);                          // the shortest uint
uint8_t *put_text(uint8_t *p, uint8_t constructor, const char *s);  // string or symbol, at most 255 bytes
uint8_t *put_bool(uint8_t *p, bool v);

// A frame on channel 0 with a list8 of `count` fields: put_frame gives the place of the first, end_frame the size.
uint8_t *put_frame(uint8_t *frame, uint8_t type, uint8_t code, uint8_t count);
size_t end_frame(uint8_t *frame, uint8_t *end);

typedef struct fields {  // what is left of a composite's list
  const uint8_t *at, *end;
  uint32_t left;
} fields;

// Reads `00 <ulong> <list>`; *after is the first byte behind it. False: malformed.
bool read_composite(const uint8_t *p, const uint8_t *end, uint32_t *code, fields *list, const uint8_t **after);
const uint8_t *value_end(const uint8_t *p, const uint8_t *end);     // NULL: malformed
bool next_uint(fields *f, uint32_t *v);                             // any unsigned or boolean; false: none of these
bool next_flag(fields *f);                                          // a boolean, false when null or absent
const uint8_t *next_value(fields *f, const uint8_t **end);          // NULL: absent
bool next_text(fields *f, char *out, size_t room);                  // string or symbol, cut to room
#endif
