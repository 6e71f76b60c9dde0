#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <fcntl.h>

#include "options.h"
#include "peer.h"
#include "process.h"
#include "report.h"

static void run_for(double seconds) {
  double end = now_s() + seconds;
  for (double left; (left = end - now_s()) > 0;) step(left);
}

// ---- idle ---------------------------------------------------------------------------------------------------------
static long total_rss_kib(void) {
  long sum = 0;
  for (int i = 0; i < opt.n_pids; i++) {
    usage u;
    read_usage(opt.pids[i], &u);
    sum += u.rss_kib;
  }
  return sum;
}

static void idle_credit(peer *p, amqp_link *l) { put_flow(p, l, opt.credit, false); }

static bool input_ended(void) {
  char bytes[64];
  return read(STDIN_FILENO, bytes, sizeof bytes) == 0;
}

void run_idle(void) {
  static const handlers on = {.attached = idle_credit};
  double deadline = now_s() + opt.connect_timeout + opt.ready_timeout;
  long before = total_rss_kib();
  for (int i = 0; i < opt.connections; i++) {
    peer *p = peer_new(opt.recv_port, opt.links, &on, NULL);
    for (int k = 0; k < opt.links; k++)
      snprintf(p->links[k].address, sizeof p->links[k].address, "%s.%d.%d", opt.address, i, k);
    peer_start(p);
    step(0);
    while (i % 64 == 63 && !all_attached() && now_s() < deadline) step(0.01);
  }
  while (!all_attached()) {
    if (now_s() > deadline) fail(EXIT_TIMEOUT, "not attached within --ready-timeout %.1f s", opt.ready_timeout);
    step(0.01);
  }
  run_for(opt.interval);
  long grown = total_rss_kib() - before;
  json_begin("result");
  json_text("mode", mode_name());
  json_text("status", "ok");
  json_int("connections", opt.connections);
  json_int("links", opt.links);
  json_int("rss_before_kib", before);
  json_int("rss_after_kib", before + grown);
  json_real("kib_per_connection", (double)grown / opt.connections, 3);
  if (opt.links) json_real("kib_per_link", (double)grown / opt.connections / opt.links, 3);
  json_end();
  if (opt.hold >= 0) { run_for(opt.hold); return; }
  fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
  while (!input_ended()) step(0.05);
}

// ---- reach --------------------------------------------------------------------------------------------------------
static bool gone_by_detach;
static double changed_s;

static void on_credit(peer *p, amqp_link *l) { (void)p; (void)l; changed_s = now_s(); }
static void on_detached(peer *p, amqp_link *l) {
  (void)p;
  if (l->sender) gone_by_detach = true;
  changed_s = now_s();
}
static const handlers ON_REACH = {.credit = on_credit, .detached = on_detached};

static peer *reach_peer(bool is_sender, int sample) {
  peer *p = peer_new(is_sender ? opt.send_port : opt.recv_port, 1, &ON_REACH, NULL);
  amqp_link *l = &p->links[0];
  l->sender = is_sender;
  l->later = !is_sender;  // the receiver attaches when the clock is running
  snprintf(l->address, sizeof l->address, "%s.%d", opt.address, sample);
  peer_start(p);
  double deadline = now_s() + opt.ready_timeout;
  while (is_sender ? !l->attached : p->stage < OPENED) {
    if (now_s() > deadline) fail(EXIT_TIMEOUT, "sample %d: not attached within --ready-timeout", sample);
    step(0.01);
  }
  return p;
}

static double await_credit(peer *p, bool wanted, double since, int sample) {
  amqp_link *l = &p->links[0];
  while ((l->credit > 0) != wanted) {
    if (now_s() - since > opt.ready_timeout)
      fail(EXIT_TIMEOUT, "sample %d: credit not %s within --ready-timeout", sample, wanted ? "given" : "withdrawn");
    step(0.01);
  }
  return (changed_s - since) * 1000;
}

static bool run_sample(int i, double *given_ms, double *gone_ms) {
  peer *source = reach_peer(true, i), *sink = reach_peer(false, i);
  run_for(opt.interval);
  bool early = source->links[0].credit > 0;
  if (!early) {
    double t = now_s();
    put_attach(sink, &sink->links[0]);
    put_flow(sink, &sink->links[0], opt.credit, false);
    transport_flush(&sink->io);
    *given_ms = await_credit(source, true, t, i);
    run_for(opt.interval);
    t = now_s();
    if (opt.close_gone) {
      peer_drop(sink);
    } else {
      put_detach(sink, &sink->links[0]);
      transport_flush(&sink->io);
    }
    *gone_ms = await_credit(source, false, t, i);
  }
  if (!source->io.closed) peer_drop(source);
  if (!sink->io.closed) peer_drop(sink);
  return !early;
}

void run_reach(void) {
  double given[1000], gone[1000];
  int n = 0, early = 0;
  for (int i = 0; i < opt.samples; i++) {
    if (run_sample(i, &given[n], &gone[n])) n++;
    else early++;  // this router gives credit before there is a consumer: nothing to measure
  }
  json_begin("result");
  json_text("mode", mode_name());
  json_text("status", early ? "credit before a consumer" : "ok");
  json_int("early_credit", early);
  json_spread("credit_ms", given, n, 3);
  json_spread("withdrawn_ms", gone, n, 3);
  json_bool("withdrawn_by_detach", gone_by_detach);
  json_end();
}
