// One AMQP connection with one session and some links, seen from a client.
#ifndef PEER_H
#define PEER_H
#include "transport.h"
#include "wire.h"

typedef struct peer peer;

typedef struct amqp_link {
  bool sender, later, attached, detached;  // later: put_attach is called by hand, not after the open
  uint32_t handle, remote_handle;
  uint32_t delivery_count, credit;  // sender: credit we hold; receiver: credit last granted
  uint32_t limit;                   // receiver: the delivery-count that the router must not go beyond
  char address[160];
} amqp_link;

typedef struct transfer {
  amqp_link *link;
  bool has_id, settled, more, aborted;
  uint32_t id;
  const uint8_t *payload;
  size_t size;
} transfer;

typedef struct handlers {           // each may be NULL
  void (*attached)(peer *p, amqp_link *l);
  void (*credit)(peer *p, amqp_link *l);               // a sender's credit changed
  void (*detached)(peer *p, amqp_link *l);             // NULL: a detach by the peer ends the program
  void (*transfer)(peer *p, const transfer *t);
  void (*disposition)(peer *p, uint32_t first, uint32_t last, bool settled, enum outcome outcome);
  void (*turn)(peer *p);                          // all that was read has been handled
  void (*writable)(peer *p);
} handlers;

enum stage { SASL_HEADER, SASL_OFFER, SASL_RESULT, AMQP_HEADER, FRAMES, OPENED };

struct peer {
  transport io;
  enum stage stage;
  int index;
  const handlers *on;
  void *owner;                      // of the handlers
  amqp_link *links;
  int n_links, n_attached;
  bool settled_mode;                // snd-settle-mode of the attaches
  uint32_t remote_max_frame, remote_window, next_outgoing, next_incoming;
  double heartbeat_s;               // 0: none asked for
};

extern peer **peers;                // all that were made, by index
extern int n_peers;
extern double run_deadline_s;

peer *peer_new(int port, int n_links, const handlers *on, void *owner);  // connected, handshake not yet begun
void peer_start(peer *p);           // set the links before
void peer_start_relay(peer *p);     // as if everything had been attached already
void peer_drop(peer *p);            // close the socket without a word
void put_flow(peer *p, amqp_link *l, uint32_t credit, bool drained);
void put_disposition(peer *p, bool receiver, uint32_t first, uint32_t last, enum outcome outcome);
void put_attach(peer *p, amqp_link *l);
void put_detach(peer *p, amqp_link *l);
bool all_attached(void);
void step(double timeout_s);        // one turn of the loop; ends the program behind run_deadline_s
#endif
