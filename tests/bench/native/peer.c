#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "options.h"
#include "report.h"

peer **peers;
int n_peers;
double run_deadline_s;
static int peers_cap;

peer *peer_new(int port, int n_links, const handlers *on, void *owner) {
  peer *p = calloc(1, sizeof *p);
  if (n_peers == peers_cap) {
    peers_cap = peers_cap ? 2 * peers_cap : 64;
    peers = realloc(peers, sizeof *peers * (size_t)peers_cap);
  }
  if (!p || !peers) fail(EXIT_CONNECT, "out of memory");
  p->links = calloc((size_t)(n_links ? n_links : 1), sizeof *p->links);
  p->n_links = n_links;
  for (int i = 0; i < n_links; i++) p->links[i].handle = p->links[i].remote_handle = (uint32_t)i;
  p->index = n_peers;
  p->on = on;
  p->owner = owner;
  p->remote_max_frame = 512;
  peers[n_peers++] = p;
  transport_connect(&p->io, port, opt.connect_timeout);
  transport_watch(&p->io, (uint32_t)p->index);
  return p;
}

void peer_drop(peer *p) {
  transport_close(&p->io);
  free(p->links);
  p->links = NULL;
  p->n_links = 0;
}

static void put_bytes(peer *p, const char *bytes, size_t n) {
  memcpy(out_room(&p->io, n), bytes, n);
  p->io.out_len += n;
}

void peer_start(peer *p) {
  put_bytes(p, "AMQP\3\1\0\0", 8);
  transport_flush(&p->io);
}

void peer_start_relay(peer *p) {
  p->stage = OPENED;
  p->remote_max_frame = opt.max_frame;
  p->remote_window = WINDOW;
  p->n_attached = p->n_links;
  for (int i = 0; i < p->n_links; i++) {
    p->links[i].attached = true;
    if (p->on->attached) p->on->attached(p, &p->links[i]);
  }
  transport_flush(&p->io);
}

static void put_sasl_init(peer *p) {
  uint8_t *frame = out_room(&p->io, 64), *q = put_frame(frame, FRAME_SASL, SASL_INIT, 1);
  q = put_text(q, AMQP_SYMBOL8, "ANONYMOUS");
  p->io.out_len += end_frame(frame, q);
}

static void put_open(peer *p) {
  char id[64];
  snprintf(id, sizeof id, "loadgen-%d-%d", (int)getpid(), p->index);
  uint8_t *frame = out_room(&p->io, 512), *q = put_frame(frame, FRAME_AMQP, OPEN, 4);
  q = put_text(q, AMQP_STRING8, id);
  q = put_text(q, AMQP_STRING8, opt.host);
  q = put_uint(q, opt.max_frame);
  *q++ = 0x60; *q++ = 0x7f; *q++ = 0xff;  // channel-max
  p->io.out_len += end_frame(frame, q);
  frame = out_room(&p->io, 64);
  q = put_frame(frame, FRAME_AMQP, BEGIN, 4);
  *q++ = AMQP_NULL;
  q = put_uint(q, 0);
  q = put_uint(q, WINDOW);
  q = put_uint(q, WINDOW);
  p->io.out_len += end_frame(frame, q);
}

static uint8_t *put_terminus(uint8_t *q, uint8_t code, const char *address) {
  const uint8_t head[] = {0x00, 0x53, code, 0xc0, (uint8_t)(strlen(address) + 3), 1};
  memcpy(q, head, sizeof head);
  return put_text(q + sizeof head, AMQP_STRING8, address);
}

static uint8_t *put_empty(uint8_t *q, uint8_t code) {
  const uint8_t list0[] = {0x00, 0x53, code, 0x45};
  memcpy(q, list0, sizeof list0);
  return q + sizeof list0;
}

void put_attach(peer *p, amqp_link *l) {
  char name[64];
  snprintf(name, sizeof name, "loadgen-%d-%d-%u", (int)getpid(), p->index, l->handle);
  uint8_t *frame = out_room(&p->io, 512), *q = put_frame(frame, FRAME_AMQP, ATTACH, l->sender ? 10 : 7);
  q = put_text(q, AMQP_STRING8, name);
  q = put_uint(q, l->handle);
  q = put_bool(q, !l->sender);
  *q++ = 0x50; *q++ = p->settled_mode ? 1 : 0;
  *q++ = 0x50; *q++ = 0;                  // rcv-settle-mode first
  if (l->sender) {
    q = put_empty(q, 0x28);
    q = opt.anonymous ? put_empty(q, 0x29) : put_terminus(q, 0x29, l->address);
    *q++ = AMQP_NULL; *q++ = AMQP_NULL;   // unsettled, incomplete-unsettled
    q = put_uint(q, 0);                   // initial-delivery-count
  } else {
    q = put_terminus(q, 0x28, l->address);
    q = put_empty(q, 0x29);
  }
  p->io.out_len += end_frame(frame, q);
}

void put_flow(peer *p, amqp_link *l, uint32_t credit, bool drained) {
  uint8_t *frame = out_room(&p->io, 96), *q = put_frame(frame, FRAME_AMQP, FLOW, 9);
  q = put_uint(q, p->next_incoming);
  q = put_uint(q, WINDOW);
  q = put_uint(q, p->next_outgoing);
  q = put_uint(q, WINDOW);
  q = put_uint(q, l->handle);
  q = put_uint(q, l->delivery_count);
  q = put_uint(q, credit);
  q = put_uint(q, 0);                     // available
  q = put_bool(q, drained);
  p->io.out_len += end_frame(frame, q);
  if (l->sender) return;
  l->credit = credit;
  l->limit = l->delivery_count + credit;
}

void put_disposition(peer *p, bool receiver, uint32_t first, uint32_t last, enum outcome outcome) {
  uint8_t *frame = out_room(&p->io, 64), *q = put_frame(frame, FRAME_AMQP, DISPOSITION, outcome ? 5 : 4);
  q = put_bool(q, receiver);
  q = put_uint(q, first);
  if (first == last) *q++ = AMQP_NULL;
  else q = put_uint(q, last);
  q = put_bool(q, true);
  if (outcome) q = put_empty(q, (uint8_t)outcome);
  p->io.out_len += end_frame(frame, q);
}

void put_detach(peer *p, amqp_link *l) {
  uint8_t *frame = out_room(&p->io, 64), *q = put_frame(frame, FRAME_AMQP, DETACH, 2);
  q = put_uint(q, l->handle);
  q = put_bool(q, true);
  p->io.out_len += end_frame(frame, q);
}

static amqp_link *find_link(peer *p, uint32_t remote_handle) {
  amqp_link *likely = remote_handle < (uint32_t)p->n_links ? &p->links[remote_handle] : NULL;
  if (likely && likely->remote_handle == remote_handle) return likely;
  for (int i = 0; i < p->n_links; i++)
    if (p->links[i].attached && p->links[i].remote_handle == remote_handle) return &p->links[i];
  fail(EXIT_PEER, "frame for unknown handle %u", remote_handle);
}

static void on_open(peer *p, fields *f) {
  uint32_t v;
  const uint8_t *end;
  next_value(f, &end);
  next_value(f, &end);
  p->remote_max_frame = next_uint(f, &v) ? v : UINT32_MAX;
  if (p->remote_max_frame > opt.max_frame) p->remote_max_frame = opt.max_frame;
  if (p->remote_max_frame < 512) fail(EXIT_PEER, "max-frame-size %u is below 512", p->remote_max_frame);
  next_uint(f, &v);
  if (next_uint(f, &v) && v) p->heartbeat_s = v / 2000.0;
  p->stage = OPENED;
}

static void on_attach(peer *p, fields *f) {
  char name[96];
  uint32_t remote = 0;
  next_text(f, name, sizeof name);
  next_uint(f, &remote);
  const char *dash = strrchr(name, '-');
  long at = dash ? strtol(dash + 1, NULL, 10) : -1;
  if (at < 0 || at >= p->n_links || p->links[at].attached) fail(EXIT_PEER, "attach of unknown link %s", name);
  amqp_link *l = &p->links[at];
  l->attached = true;
  l->remote_handle = remote;
  p->n_attached++;
  if (p->on->attached) p->on->attached(p, l);
}

static void on_flow(peer *p, fields *f) {
  uint32_t next = 0, window = 0, handle, count = 0, credit = 0, skipped;
  bool has_next = next_uint(f, &next);
  next_uint(f, &window);
  next_uint(f, &skipped);
  next_uint(f, &skipped);
  // Spec 2.5.6: what the peer can still take, minus what is on its way
  int32_t left = (int32_t)((has_next ? next : 0) + window - p->next_outgoing);
  p->remote_window = left > 0 ? (uint32_t)left : 0;
  if (!next_uint(f, &handle)) return;
  amqp_link *l = find_link(p, handle);
  bool has_count = next_uint(f, &count), has_credit = next_uint(f, &credit);
  next_uint(f, &skipped);
  bool drain = next_flag(f), echo = next_flag(f);
  if (l->sender && has_credit) {
    int32_t more = (int32_t)((has_count ? count : 0) + credit - l->delivery_count);
    l->credit = more > 0 ? (uint32_t)more : 0;
    if (drain) {
      l->delivery_count += l->credit;
      l->credit = 0;
    }
    if (p->on->credit) p->on->credit(p, l);
  }
  if (drain || echo) put_flow(p, l, l->credit, drain);
}

static void on_transfer(peer *p, fields *f, const uint8_t *payload, const uint8_t *end) {
  transfer t = {.payload = payload, .size = (size_t)(end - payload)};
  uint32_t handle = 0, format;
  const uint8_t *after;
  next_uint(f, &handle);
  t.link = find_link(p, handle);
  t.has_id = next_uint(f, &t.id);
  next_value(f, &after);  // delivery-tag
  next_uint(f, &format);
  t.settled = next_flag(f);
  t.more = next_flag(f);
  next_value(f, &after);  // rcv-settle-mode
  next_value(f, &after);  // state
  next_flag(f);           // resume
  t.aborted = next_flag(f);
  p->next_incoming++;
  if (p->on->transfer) p->on->transfer(p, &t);
}

static void on_disposition(peer *p, fields *f) {
  uint32_t first = 0, last, code = OUTCOME_NONE;
  fields state;
  const uint8_t *end, *after;
  if (!next_flag(f)) return;  // from a sender: it settles what we have settled already
  next_uint(f, &first);
  if (!next_uint(f, &last)) last = first;
  bool settled = next_flag(f);
  const uint8_t *at = next_value(f, &end);
  if (at && (*at != 0 || !read_composite(at, end, &code, &state, &after))) code = OUTCOME_NONE;
  if (p->on->disposition) p->on->disposition(p, first, last, settled, (enum outcome)code);
}

static void error_text(fields *f, char *out, size_t room) {
  char condition[128] = "no condition", description[256] = "";
  fields error;
  const uint8_t *end, *after, *at = next_value(f, &end);
  uint32_t code;
  if (at && *at == 0 && read_composite(at, end, &code, &error, &after)) {
    next_text(&error, condition, sizeof condition);
    next_text(&error, description, sizeof description);
  }
  snprintf(out, room, "%s %s", condition, description);
}

static void on_end(peer *p, uint32_t code, fields *f) {
  char text[400];
  uint32_t handle = 0;
  if (code == DETACH) {
    next_uint(f, &handle);
    amqp_link *l = find_link(p, handle);
    next_flag(f);
    l->detached = true;
    l->credit = 0;
    if (p->on->detached) { p->on->detached(p, l); return; }
  }
  error_text(f, text, sizeof text);
  const char *what = code == DETACH ? "detach" : code == END ? "end" : "close";
  fail(EXIT_PEER, "peer sent %s on connection %d: %s", what, p->index, text);
}

static void on_sasl(peer *p, uint32_t code, fields *f) {
  uint32_t result = 1;
  if (p->stage == SASL_OFFER && code == SASL_MECHANISMS) {
    put_sasl_init(p);
    p->stage = SASL_RESULT;
  } else if (p->stage == SASL_RESULT && code == SASL_OUTCOME) {
    if (!next_uint(f, &result) || result) fail(EXIT_PEER, "SASL outcome %u", result);
    put_bytes(p, "AMQP\0\1\0\0", 8);
    put_open(p);
    for (int i = 0; i < p->n_links; i++)
      if (!p->links[i].later) put_attach(p, &p->links[i]);
    p->stage = AMQP_HEADER;
  } else {
    fail(EXIT_PEER, "unexpected SASL frame %#x", code);
  }
}

static void on_frame(peer *p, const uint8_t *frame, const uint8_t *end) {
  const uint8_t *body = frame + frame[4] * 4, *after;
  uint32_t code;
  fields f;
  if (body == end) return;  // heartbeat
  if (frame[4] < 2 || body > end || !read_composite(body, end, &code, &f, &after)) fail(EXIT_PEER, "malformed frame");
  if (frame[5] == FRAME_SASL) { on_sasl(p, code, &f); return; }
  if (p->stage < FRAMES) fail(EXIT_PEER, "frame %#x during the handshake", code);
  uint32_t v;
  const uint8_t *skipped;
  switch (code) {
    case OPEN: on_open(p, &f); break;
    case BEGIN:
      next_value(&f, &skipped);
      next_uint(&f, &p->next_incoming);
      if (next_uint(&f, &v)) p->remote_window = v;
      break;
    case ATTACH: on_attach(p, &f); break;
    case FLOW: on_flow(p, &f); break;
    case TRANSFER: on_transfer(p, &f, after, end); break;
    case DISPOSITION: on_disposition(p, &f); break;
    case DETACH: case END: case CLOSE: on_end(p, code, &f); break;
    default: fail(EXIT_PEER, "unknown performative %#x", code);
  }
}

static bool on_header(peer *p, const uint8_t *h) {
  bool sasl = p->stage == SASL_HEADER;
  if (!sasl && p->stage != AMQP_HEADER) return false;
  if (memcmp(h, sasl ? "AMQP\3\1\0\0" : "AMQP\0\1\0\0", 8))
    fail(EXIT_PEER, "peer does not speak AMQP 1.0%s", sasl ? " with SASL" : "");
  p->stage = sasl ? SASL_OFFER : FRAMES;
  return true;
}

static size_t consume(peer *p, const uint8_t *data, size_t n) {
  size_t at = 0;
  while (n - at >= FRAME_HEADER && p->io.fd >= 0) {
    if (on_header(p, data + at)) { at += 8; continue; }
    uint32_t size = get_u32(data + at);
    uint32_t largest = p->stage < OPENED ? 65536 : opt.max_frame;
    if (size < FRAME_HEADER || size > largest) fail(EXIT_PEER, "frame of %u bytes", size);
    if (n - at < size) break;
    on_frame(p, data + at, data + at + size);
    at += size;
  }
  return at;
}

// Whichever write makes room in a full socket, who waited for it goes on: no event tells of it again.
static void flush(peer *p) {
  bool waited = p->io.blocked;
  transport_flush(&p->io);
  if (waited && !p->io.blocked && p->on->writable && p->stage == OPENED) p->on->writable(p);
}

static void read_peer(peer *p) {
  size_t n;
  const uint8_t *data = transport_read(&p->io, &n);
  if (data) {
    size_t used = consume(p, data, n);
    if (p->io.fd < 0) return;  // dropped by a handler
    keep_tail(&p->io, data + used, n - used);
    if (p->on->turn && p->stage == OPENED) p->on->turn(p);
    flush(p);
  }
  if (p->io.closed) fail(EXIT_PEER, "connection %d closed by the peer", p->index);
}

static void heartbeats(void) {
  static double checked;
  double t = now_s();
  if (t - checked < 0.25) return;
  checked = t;
  for (int i = 0; i < n_peers; i++) {
    peer *p = peers[i];
    if (p->io.closed || !p->heartbeat_s || t - p->io.written_at < p->heartbeat_s) continue;
    put_bytes(p, "\0\0\0\10\2\0\0\0", 8);
    flush(p);
  }
}

bool all_attached(void) {
  for (int i = 0; i < n_peers; i++)
    if (!peers[i]->io.closed && (peers[i]->stage < OPENED || peers[i]->n_attached < peers[i]->n_links)) return false;
  return true;
}

void step(double timeout_s) {
  ready list[64];
  if (now_s() > run_deadline_s) fail(EXIT_TIMEOUT, "--max-seconds %.1f are over", opt.max_seconds);
  int n = wait_ready(list, 64, timeout_s < 0.25 ? timeout_s : 0.25);
  for (int i = 0; i < n; i++) {
    peer *p = peers[list[i].id];
    if (p->io.fd < 0) continue;
    if (list[i].writable) flush(p);
    if (list[i].readable && p->io.fd >= 0) read_peer(p);
  }
  heartbeats();
}
