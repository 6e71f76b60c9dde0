#include "traffic.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "options.h"
#include "report.h"

enum { BURST = 256 * 1024, FIRST_HEAD = 33, NEXT_HEAD = 20 };  // bytes before the payload in a transfer frame

sender *senders;
receiver *receivers;
uint64_t *sent;
tally got;
counters count;
bool sending, measuring;
double *round_trips;
uint64_t n_round_trips, want_round_trips;
static double ping_sent_s, pace_start_s;
static uint64_t paced;
static uint8_t *first_frame;  // transfer frame with the message behind it; the identity is patched in each copy

// ---- sending ------------------------------------------------------------------------------------------------------
static void prepare_frame(void) {
  first_frame = malloc(FIRST_HEAD + message_size);
  if (!first_frame) fail(EXIT_CONNECT, "out of memory");
  uint8_t *p = put_frame(first_frame, FRAME_AMQP, TRANSFER, 6);
  *p++ = AMQP_UINT0;                 // handle
  *p++ = AMQP_UINT;                  // delivery-id
  p = put_u32(p, 0);
  *p++ = AMQP_BINARY8; *p++ = 8;     // delivery-tag: sender, sequence
  p = put_u64(p, 0);
  *p++ = AMQP_UINT0;                 // message-format
  p = put_bool(p, !opt.unsettled);
  p = put_bool(p, false);            // more
  first_frame[12] = (uint8_t)(p - first_frame - 13);
  memcpy(p, message, message_size);
}

static void put_first(sender *s, size_t payload, bool more) {
  size_t size = FIRST_HEAD + payload;
  uint8_t *frame = out_room(&s->p->io, size);
  uint32_t id = (uint32_t)sent[s->index];
  memcpy(frame, first_frame, size);
  put_u32(frame, (uint32_t)size);
  put_u32(frame + 16, id);
  put_u32(put_u32(frame + 22, s->index), id);
  frame[FIRST_HEAD - 1] = more ? AMQP_TRUE : AMQP_FALSE;
  put_identity(frame + FIRST_HEAD, s->index, id);
  s->p->io.out_len += size;
}

static void put_next(sender *s, size_t payload, bool more) {
  size_t size = NEXT_HEAD + payload;
  uint8_t *frame = out_room(&s->p->io, size), *p = put_frame(frame, FRAME_AMQP, TRANSFER, 6);
  *p++ = AMQP_UINT0;
  memset(p, AMQP_NULL, 4);
  p = put_bool(p + 4, more);
  frame[12] = (uint8_t)(p - frame - 13);
  put_u32(frame, (uint32_t)size);
  memcpy(p, message + s->part, payload);
  s->p->io.out_len += size;
}

static bool can_send(const sender *s) {
  return s->p->remote_window && (s->part || (s->quota && s->p->links[0].credit));
}

static void put_fragment(sender *s) {
  amqp_link *l = &s->p->links[0];
  size_t left = message_size - s->part, room = s->p->remote_max_frame - (s->part ? NEXT_HEAD : FIRST_HEAD);
  bool more = left > room;
  size_t payload = more ? room : left;
  if (s->part) {
    put_next(s, payload, more);
  } else {
    put_first(s, payload, more);
    s->quota--;
    l->credit--;
    l->delivery_count++;
    sent[s->index]++;
    count.sent++;
  }
  s->part = more ? s->part + payload : 0;
  s->p->remote_window--;
  s->p->next_outgoing++;
}

static void pump(sender *s) {  // bounded by credit; a full socket brings us back through on_writable
  while (!s->p->io.blocked && !s->p->io.closed && can_send(s)) {
    while (can_send(s) && s->p->io.out_len - s->p->io.out_off < BURST) put_fragment(s);
    transport_flush(&s->p->io);
  }
}

static void put_one(sender *s) {
  do put_fragment(s); while (s->part && can_send(s));
}

static void send_one(sender *s) {
  put_one(s);
  transport_flush(&s->p->io);
}

static void flush_senders(void) {
  for (int i = 0; i < opt.senders; i++) transport_flush(&senders[i].p->io);
}

void pace(void) {
  if (!sending || opt.rate == 0) return;
  static int turn;
  double t = now_s();
  double span = t - pace_start_s;
  if (opt.tick > 0) span = floor(span / opt.tick) * opt.tick;
  uint64_t due = (uint64_t)(span * opt.rate) + 1;
  while (paced < due) {
    int tried = 0;
    while (tried < opt.senders && (!can_send(&senders[turn]) || senders[turn].p->io.blocked)) {
      turn = (turn + 1) % opt.senders;
      tried++;
    }
    if (tried == opt.senders) {  // nobody may send now: look again in a millisecond
      flush_senders();
      next_due_s = t + 0.001;
      return;
    }
    put_one(&senders[turn]);
    turn = (turn + 1) % opt.senders;
    paced++;
  }
  flush_senders();
  double next = (double)paced / opt.rate;
  if (opt.tick > 0) next = ceil(next / opt.tick) * opt.tick;
  next_due_s = pace_start_s + next;
}

void start_sending(uint64_t quota) {
  uint64_t n = (uint64_t)opt.senders;
  for (uint64_t i = 0; i < n; i++) senders[i].quota = quota / n + (i < quota % n);
  sending = true;
  if (opt.rate > 0) {
    pace_start_s = now_s();
    paced = 0;
    pace();
  } else {
    for (uint64_t i = 0; i < n; i++) pump(&senders[i]);
  }
}

void start_round_trips(uint64_t n) {
  n_round_trips = 0;
  want_round_trips = n;
  senders[0].quota = senders[1].quota = n;
  ping_sent_s = now_s();
  send_one(&senders[0]);
}

static void on_sender_turn(peer *p) {
  if (sending && opt.rate == 0) pump(p->owner);
}

static void on_disposition(peer *p, uint32_t first, uint32_t last, bool settled, enum outcome outcome) {
  sender *s = p->owner;
  if (last < first || last >= sent[s->index])
    fail(EXIT_PEER, "disposition %u...%u of a delivery never sent", first, last);
  if (!settled && outcome < ACCEPTED) return;                    // not an end
  if (!settled) put_disposition(p, false, first, last, OUTCOME_NONE);
  for (uint64_t id = first; id <= last; id++) {
    if (set_bit(&s->resolved, id)) { count.settled_twice++; continue; }
    count.resolved++;
    if (outcome == ACCEPTED) { count.accepted++; continue; }
    if (outcome == REJECTED) count.rejected++;
    else if (outcome == RELEASED) count.released++;
    else if (outcome == MODIFIED) count.modified++;
    else count.unknown_outcome++;
    set_bit(&s->returned, id);
    count.returned++;
  }
}

// ---- receiving ----------------------------------------------------------------------------------------------------
static void settle_run(receiver *r) {
  if (r->run) put_disposition(r->p, true, r->first, r->first + r->run - 1, ACCEPTED);
  r->run = 0;
}

static void settle(receiver *r, uint32_t id) {
  if (opt.each) { put_disposition(r->p, true, id, id, ACCEPTED); return; }
  if (r->run && r->first + r->run != id) settle_run(r);
  if (!r->run) r->first = id;
  r->run++;
}

static void answer_ping(const receiver *r) {
  if (r->index == 0) { send_one(&senders[1]); return; }
  double t = now_s();
  round_trips[n_round_trips++] = t - ping_sent_s;
  if (n_round_trips < want_round_trips) {
    ping_sent_s = t;
    send_one(&senders[0]);
  }
}

static void whole_message(receiver *r, const uint8_t *data, size_t size, uint32_t id, bool settled) {
  verify(&got, r->index, data, size, sent);
  r->received++;
  r->used++;
  r->p->links[0].delivery_count++;
  if (!settled) settle(r, id);
  if (opt.mode == MODE_RTT) answer_ping(r);
}

static void add_part(receiver *r, const transfer *t) {
  if (r->part_size + t->size > r->part_cap) {
    r->part_cap = 2 * (r->part_size + t->size);
    if (r->part_cap > 4ull * MAX_BODY) fail(EXIT_PEER, "delivery without end");
    r->part = realloc(r->part, r->part_cap);
    if (!r->part) fail(EXIT_CONNECT, "out of memory");
  }
  if (t->size) memcpy(r->part + r->part_size, t->payload, t->size);
  r->part_size += t->size;
}

static void on_transfer(peer *p, const transfer *t) {
  receiver *r = p->owner;
  if (!r->in_part) {
    if (!t->has_id) fail(EXIT_PEER, "first transfer of a delivery without delivery-id");
    if (p->links[0].delivery_count == p->links[0].limit)
      fail(EXIT_PEER, "receiver %u: delivery beyond its credit", r->index);
    r->part_id = t->id;
    r->part_settled = false;
    r->part_size = 0;
  }
  r->part_settled |= t->settled;  // Spec 2.7.5: settled if any of its transfers says so
  if (!r->in_part && !t->more && !t->aborted) {
    whole_message(r, t->payload, t->size, t->id, t->settled);
    return;
  }
  r->in_part = t->more && !t->aborted;
  if (t->aborted) {
    r->used++;
    p->links[0].delivery_count++;
    return;
  }
  add_part(r, t);
  if (!t->more) whole_message(r, r->part, r->part_size, r->part_id, r->part_settled);
}

static void note_receipt(void) {
  double t = now_s();
  if (count.last_receipt_s == 0) {
    count.first_receipt_s = t;
    count.first_receipt_wall_s = wall_s();
  } else if (measuring && t - count.last_receipt_s > count.longest_gap_s) {
    count.longest_gap_s = t - count.last_receipt_s;
    count.longest_gap_wall_s = wall_s();
  }
  count.last_receipt_s = t;
}

static void on_receiver_turn(peer *p) {
  receiver *r = p->owner;
  settle_run(r);
  if (r->used) note_receipt();
  if (2 * (uint64_t)r->used >= opt.credit) {
    put_flow(p, &p->links[0], opt.credit, false);
    r->used = 0;
  }
}

static void grant_credit(peer *p, amqp_link *l) { put_flow(p, l, opt.credit, false); }

static const handlers ON_SENDER = {.disposition = on_disposition, .turn = on_sender_turn, .writable = on_sender_turn};
static const handlers ON_RECEIVER = {.attached = grant_credit, .transfer = on_transfer, .turn = on_receiver_turn};

// ---- opening ------------------------------------------------------------------------------------------------------
static peer *open_one(int index, bool is_sender, void *owner) {
  peer *p = peer_new(is_sender ? opt.send_port : opt.recv_port, 1, is_sender ? &ON_SENDER : &ON_RECEIVER, owner);
  p->links[0].sender = is_sender;
  p->settled_mode = !opt.unsettled;
  snprintf(p->links[0].address, sizeof p->links[0].address, opt.pairs ? "%s.%d" : "%s", opt.address, index);
  return p;
}

static void wait_attached(double deadline) {
  while (!all_attached()) {
    if (now_s() > deadline) fail(EXIT_TIMEOUT, "not attached within --ready-timeout %.1f s", opt.ready_timeout);
    step(0.01);
  }
}

static void open_receiver(int i) {
  receivers[i] = (receiver){.index = (uint32_t)i};
  receivers[i].p = open_one(i, false, &receivers[i]);
}

static void open_sender(int i) {
  senders[i] = (sender){.index = (uint32_t)i};
  senders[i].p = open_one(i, true, &senders[i]);
}

static void open_relay(void) {  // the relay joins each two connections in the order in which they come
  for (int i = 0; i < opt.senders; i++) {
    open_receiver(i);
    open_sender(i);
    peer_start_relay(receivers[i].p);
    peer_start_relay(senders[i].p);
  }
}

static void wait_credit(double deadline) {
  for (int i = 0; i < opt.senders; i++)
    while (!senders[i].p->links[0].credit) {
      if (now_s() > deadline) fail(EXIT_TIMEOUT, "sender %d has no credit within --ready-timeout", i);
      step(0.01);
    }
}

void open_traffic(void) {
  senders = calloc((size_t)opt.senders, sizeof *senders);
  receivers = calloc((size_t)opt.receivers, sizeof *receivers);
  sent = calloc((size_t)opt.senders, sizeof *sent);
  if (!senders || !receivers || !sent) fail(EXIT_CONNECT, "out of memory");
  verify_init();
  prepare_frame();
  double deadline = now_s() + opt.connect_timeout + opt.ready_timeout;
  if (opt.relay) {
    open_relay();
  } else {
    for (int i = 0; i < opt.receivers; i++) { open_receiver(i); peer_start(receivers[i].p); step(0); }
    wait_attached(deadline);
    for (int i = 0; i < opt.senders; i++) { open_sender(i); peer_start(senders[i].p); step(0); }
    wait_attached(deadline);
  }
  wait_credit(deadline);
}

bool complete(void) {
  for (int i = 0; i < opt.senders; i++)
    if (senders[i].part) return false;
  if (opt.unsettled && count.resolved < count.sent) return false;
  return got.distinct + count.returned * copies() >= count.sent * copies();
}
