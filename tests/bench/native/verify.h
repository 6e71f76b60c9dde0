// What each message holds and whether it came once, in order and whole.
//
// Message: header section (durable), properties if an option wants them, then one data section of --body bytes:
//   run u32 | sender u32 | sequence u64 | pattern; byte i of the body, from 16 on, is (7 i + 3) mod 256.
#ifndef VERIFY_H
#define VERIFY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tally {
  uint64_t received, distinct, duplicated, reordered, corrupt, misrouted, annotated;
} tally;

typedef struct bits { uint64_t *words; size_t n; } bits;
bool set_bit(bits *b, uint64_t at);  // was it set already?
bool has_bit(const bits *b, uint64_t at);

extern uint8_t *message;             // the template; put_identity writes the part that differs
extern size_t message_size;
void verify_init(void);
void put_identity(uint8_t *copy, uint32_t sender, uint64_t sequence);

// A whole message as a receiver got it. `sent` are the counts of messages of each sender so far.
void verify(tally *t, uint32_t receiver, const uint8_t *data, size_t size, const uint64_t *sent);
// Messages that no receiver (multicast: some receiver) got, without those whose outcome went back to the sender.
uint64_t count_lost(uint32_t sender, uint64_t sent, const bits *returned);
uint32_t copies(void);               // receivers that must get each message
#endif
