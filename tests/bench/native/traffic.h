// Senders and receivers: what is sent when, what came back, what was received.
#ifndef TRAFFIC_H
#define TRAFFIC_H
#include <stdbool.h>
#include <stdint.h>

#include "peer.h"
#include "verify.h"

typedef struct sender {
  peer *p;
  uint32_t index;
  uint64_t quota;            // messages it may still begin
  size_t part;               // bytes of the message under way that are sent already
  bits resolved, returned;   // by sequence: has an outcome; its outcome was not accepted
} sender;

typedef struct receiver {
  peer *p;
  uint32_t index;
  uint32_t used;             // credit used since the last flow
  uint32_t first, run;       // deliveries to settle: first ... first + run - 1
  uint8_t *part;             // a delivery of more than one frame
  size_t part_size, part_cap;
  uint32_t part_id;
  bool part_settled, in_part;
  uint64_t received;
} receiver;

typedef struct counters {
  uint64_t sent, resolved, accepted, rejected, released, modified, unknown_outcome, settled_twice;
  uint64_t returned;         // outcomes other than accepted
  double longest_gap_s, longest_gap_wall_s, last_receipt_s, first_receipt_s, first_receipt_wall_s;
} counters;

extern sender *senders;
extern receiver *receivers;
extern uint64_t *sent;       // by sender
extern tally got;
extern counters count;
extern bool sending, measuring;
extern double *round_trips;  // seconds, filled from n_round_trips on
extern uint64_t n_round_trips, want_round_trips;

void open_traffic(void);     // connects, attaches, waits for credit
void start_sending(uint64_t quota);   // of all senders together
void start_round_trips(uint64_t n);
void pace(void);             // --rate: sends what is due and sets next_due_s
bool complete(void);         // everything that was sent came, and is settled
#endif
