#include "verify.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "options.h"
#include "wire.h"

enum { IDENTITY = 16, MAX_PROPERTIES = 240 };
static uint32_t run_id;
static size_t body_at;           // where the body begins in the template
static bits *seen;               // [copy][sender]
static uint64_t *expected;       // [receiver][sender]: the lowest sequence that is in order
uint8_t *message;
size_t message_size;

bool has_bit(const bits *b, uint64_t at) { return at / 64 < b->n && (b->words[at / 64] >> at % 64 & 1); }

bool set_bit(bits *b, uint64_t at) {
  if (at / 64 >= b->n) {
    size_t n = b->n ? b->n : 64;
    while (n <= at / 64) n *= 2;
    b->words = realloc(b->words, n * sizeof *b->words);
    if (!b->words) fail(EXIT_CONNECT, "out of memory");
    memset(b->words + b->n, 0, (n - b->n) * sizeof *b->words);
    b->n = n;
  }
  uint64_t mask = 1ull << at % 64, was = b->words[at / 64] & mask;
  b->words[at / 64] |= mask;
  return was != 0;
}

uint32_t copies(void) { return opt.multicast ? (uint32_t)opt.receivers : 1; }

static uint8_t *put_properties(uint8_t *p) {
  uint8_t *section = p;
  const uint8_t head[] = {0x00, 0x53, 0x73, 0xc0, 0, 3, AMQP_NULL};  // no message-id
  memcpy(p, head, sizeof head);
  p += sizeof head;
  if (opt.user_id) p = put_text(p, AMQP_BINARY8, opt.user_id);
  else *p++ = AMQP_NULL;
  if (opt.anonymous) p = put_text(p, AMQP_STRING8, opt.address);
  else *p++ = AMQP_NULL;
  section[4] = (uint8_t)(p - section - 5);
  return p;
}

void verify_init(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  run_id = (uint32_t)t.tv_nsec ^ (uint32_t)getpid() << 16;
  static const uint8_t header[] = {0x00, 0x53, 0x70, 0xc0, 0x02, 0x01, AMQP_TRUE};  // durable
  message = malloc(sizeof header + MAX_PROPERTIES + 8 + opt.body);
  seen = calloc((size_t)copies() * (size_t)opt.senders, sizeof *seen);
  expected = calloc((size_t)opt.receivers * (size_t)opt.senders, sizeof *expected);
  if (!message || !seen || !expected) fail(EXIT_CONNECT, "out of memory");
  memcpy(message, header, sizeof header);
  uint8_t *p = message + sizeof header;
  if (opt.user_id || opt.anonymous) p = put_properties(p);
  *p++ = 0x00; *p++ = 0x53; *p++ = 0x75;
  if (opt.body < 256) { *p++ = AMQP_BINARY8; *p++ = (uint8_t)opt.body; }
  else { *p++ = AMQP_BINARY32; p = put_u32(p, opt.body); }
  body_at = (size_t)(p - message);
  for (uint32_t i = 0; i < opt.body; i++) p[i] = (uint8_t)(7 * i + 3);
  message_size = body_at + opt.body;
}

void put_identity(uint8_t *copy, uint32_t sender, uint64_t sequence) {
  put_u64(put_u32(put_u32(copy + body_at, run_id), sender), sequence);
}

// Steps over the annotations a router may have added (delivery 0x71, message 0x72); false: malformed.
static bool strip_annotations(const uint8_t *data, size_t size, uint8_t *out, size_t *out_size) {
  const uint8_t *p = data, *end = data + size;
  *out_size = 0;
  while (p < end) {
    const uint8_t *next = value_end(p, end);
    if (!next) return false;
    if (!(p[0] == 0 && p[1] == 0x53 && (p[2] == 0x71 || p[2] == 0x72))) {
      if (*out_size + (size_t)(next - p) > message_size) return false;
      memcpy(out + *out_size, p, (size_t)(next - p));
      *out_size += (size_t)(next - p);
    }
    p = next;
  }
  return true;
}

static bool same_content(const uint8_t *data, size_t size) {
  size_t rest = body_at + IDENTITY;
  return size == message_size && !memcmp(data, message, body_at) && !memcmp(data + rest, message + rest, size - rest);
}

static void check_place(tally *t, uint32_t receiver, uint32_t sender, uint64_t sequence) {
  if (opt.pairs && sender != receiver) { t->misrouted++; return; }
  uint32_t copy = opt.multicast ? receiver : 0;
  uint64_t *next = &expected[(size_t)receiver * (size_t)opt.senders + sender];
  if (set_bit(&seen[(size_t)copy * (size_t)opt.senders + sender], sequence)) { t->duplicated++; return; }
  t->distinct++;
  if (sequence < *next) t->reordered++;
  else *next = sequence + 1;
}

void verify(tally *t, uint32_t receiver, const uint8_t *data, size_t size, const uint64_t *sent) {
  static uint8_t *stripped;
  t->received++;
  if (!same_content(data, size)) {
    size_t n;
    if (!stripped && !(stripped = malloc(message_size))) fail(EXIT_CONNECT, "out of memory");
    if (!strip_annotations(data, size, stripped, &n) || n == size || !same_content(stripped, n)) {
      t->corrupt++;
      return;
    }
    t->annotated++;
    data = stripped;
  }
  uint32_t run = get_u32(data + body_at), sender = get_u32(data + body_at + 4);
  uint64_t sequence = get_u64(data + body_at + 8);
  if (run != run_id || sender >= (uint32_t)opt.senders || sequence >= sent[sender]) t->corrupt++;  // not of this run
  else check_place(t, receiver, sender, sequence);
}

uint64_t count_lost(uint32_t sender, uint64_t sent, const bits *returned) {
  uint64_t lost = 0;
  for (uint32_t copy = 0; copy < copies(); copy++)
    for (uint64_t i = 0; i < sent; i++)
      lost += !has_bit(&seen[(size_t)copy * (size_t)opt.senders + sender], i) && !has_bit(returned, i);
  return lost;
}
