// Raw AMQP 1.0 load generator: phases of a run and its result. See --help (options.c).
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "options.h"
#include "peer.h"
#include "probe.h"
#include "process.h"
#include "report.h"
#include "traffic.h"

typedef struct window {  // what is measured, at one end
  double at_s, own_cpu_s;
  uint64_t received, sent;
  usage routers[MAX_PIDS];
} window;
static window start, end;

static void take(window *w) {
  for (int i = 0; i < opt.n_pids; i++) read_usage(opt.pids[i], &w->routers[i]);
  w->own_cpu_s = own_cpu_s();
  w->received = got.received;
  w->sent = count.sent;
  w->at_s = now_s();
}

static void progress(const char *event) {
  if (!opt.progress) return;
  json_begin(event);
  json_end();
}

static double per_message_us(double cpu_s) {
  uint64_t n = end.received - start.received;
  return n ? cpu_s / (double)n * 1e6 : 0;
}

static void report_routers(void) {
  double total = 0, span = end.at_s - start.at_s;
  json_list("routers");
  for (int i = 0; i < opt.n_pids; i++) {
    const usage *a = &start.routers[i], *b = &end.routers[i];
    double cpu = b->cpu_s - a->cpu_s, ticks = b->user_s - a->user_s + b->sys_s - a->sys_s;
    total += cpu;
    json_object(NULL);
    json_int("pid", opt.pids[i]);
    json_real("cpu_us_per_message", per_message_us(cpu), 4);
    json_real("user_share", ticks > 0 ? (b->user_s - a->user_s) / ticks : 0, 2);
    json_real("utilization", span > 0 ? cpu / span : 0, 3);
    json_int("rss_before_kib", a->rss_kib);
    json_int("rss_after_kib", b->rss_kib);
    json_int("rss_peak_kib", b->peak_kib);
    json_object_end();
  }
  json_list_end();
  if (opt.n_pids) json_real("router_cpu_us_per_message", per_message_us(total), 4);
  json_real("loadgen_cpu_us_per_message", per_message_us(end.own_cpu_s - start.own_cpu_s), 4);
  json_real("loadgen_utilization", span > 0 ? (end.own_cpu_s - start.own_cpu_s) / span : 0, 3);
}

static uint64_t report_messages(void) {
  uint64_t lost = 0;
  for (int i = 0; i < opt.senders; i++) lost += count_lost((uint32_t)i, sent[i], &senders[i].returned);
  json_int("sent", (int64_t)count.sent);
  json_int("expected", (int64_t)(count.sent * copies()));
  json_int("received", (int64_t)got.received);
  json_int("lost", (int64_t)lost);
  json_int("duplicated", (int64_t)got.duplicated);
  json_int("reordered", (int64_t)got.reordered);
  json_int("corrupt", (int64_t)got.corrupt);
  json_int("misrouted", (int64_t)got.misrouted);
  json_int("annotated", (int64_t)got.annotated);
  if (opt.unsettled) {
    json_int("accepted", (int64_t)count.accepted);
    json_int("rejected", (int64_t)count.rejected);
    json_int("released", (int64_t)count.released);
    json_int("modified", (int64_t)count.modified);
    json_int("unknown_outcome", (int64_t)count.unknown_outcome);
    json_int("unresolved", (int64_t)(count.sent - count.resolved));
    json_int("settled_twice", (int64_t)count.settled_twice);
  }
  return lost;
}

static void report_links(void) {
  json_list("sent_by_sender");
  for (int i = 0; i < opt.senders; i++) json_int(NULL, (int64_t)sent[i]);
  json_list_end();
  json_list("received_by_receiver");
  for (int i = 0; i < opt.receivers; i++) json_int(NULL, (int64_t)receivers[i].received);
  json_list_end();
}

static bool sound(uint64_t lost) {
  if (got.duplicated || got.reordered || got.corrupt || got.misrouted || count.settled_twice) return false;
  return opt.allow_loss || (!lost && (!opt.unsettled || count.resolved == count.sent));
}

static enum exit_code report(enum exit_code code) {
  double span = end.at_s - start.at_s;
  json_begin("result");
  json_text("mode", mode_name());
  json_real("seconds", span, 4);
  json_int("messages", (int64_t)(end.received - start.received));
  json_real("messages_per_s", span > 0 ? (double)(end.received - start.received) / span : 0, 1);
  report_routers();
  uint64_t lost = report_messages();
  if (opt.mode == MODE_RTT) {
    for (uint64_t i = 0; i < n_round_trips; i++) round_trips[i] *= 1e6;
    json_spread("rtt_us", round_trips, (int)n_round_trips, 1);
  }
  json_real("first_receipt_monotonic_s", count.first_receipt_s, 6);
  json_real("first_receipt_wall_s", count.first_receipt_wall_s, 6);
  json_real("longest_gap_s", count.longest_gap_s, 6);
  json_real("longest_gap_ended_wall_s", count.longest_gap_wall_s, 6);
  if (opt.per_link) report_links();
  if (code == EXIT_OK && !sound(lost)) code = EXIT_MESSAGES;
  json_text("status", code == EXIT_OK ? "ok" : code == EXIT_MESSAGES ? "messages" : "failed");
  json_int("exit", code);
  json_end();
  return code;
}

static void report_failure(enum exit_code code) {
  if (end.at_s < start.at_s) end = start;
  report(code);
}

static void send_for(double seconds) {
  double until = now_s() + seconds;
  for (double left; (left = until - now_s()) > 0;) {
    step(left < 0.02 ? left : 0.02);
    pace();
  }
}

static bool drain(double deadline) {
  while (!complete()) {
    if (now_s() > deadline) return false;
    step(0.01);
    pace();
  }
  return true;
}

static void linger(void) {
  double until = now_s() + opt.linger;
  for (double left; (left = until - now_s()) > 0;) step(left);
}

static void stop_sending(void) {
  for (int i = 0; i < opt.senders; i++) senders[i].quota = 0;  // a message under way is finished
  next_due_s = INFINITY;
}

static uint64_t still_to_send(void) {
  uint64_t left = 0;
  for (int i = 0; i < opt.senders; i++) left += senders[i].quota;
  return left;
}

static enum exit_code run_load(void) {
  if (opt.count) {
    take(&start);
    measuring = true;
    progress("measuring");
    start_sending(opt.count);
    while (still_to_send()) { step(0.02); pace(); }
    stop_sending();
  } else {
    start_sending(MAX_COUNT);
    send_for(opt.warmup);
    take(&start);
    measuring = true;
    progress("measuring");
    send_for(opt.seconds);
    while (got.received - start.received < opt.at_least) send_for(0.02);  // bounded by --max-seconds
    take(&end);
    measuring = false;
    stop_sending();
  }
  progress("draining");
  bool whole = drain(now_s() + opt.drain_timeout);
  if (opt.count) take(&end);
  measuring = false;
  linger();
  if (!whole && !opt.allow_loss) return report(got.received ? EXIT_MESSAGES : EXIT_TIMEOUT);
  return report(EXIT_OK);
}

static void round_trips_until(uint64_t n, double deadline) {
  start_round_trips(n);
  while (n_round_trips < n) {
    if (now_s() > deadline) fail(EXIT_TIMEOUT, "round trip %llu did not come back", (unsigned long long)n_round_trips);
    step(0.1);
  }
}

static enum exit_code run_rtt(void) {
  uint64_t warm = 1000;
  round_trips = calloc(opt.count > warm ? opt.count : warm, sizeof *round_trips);
  if (!round_trips) fail(EXIT_CONNECT, "out of memory");
  round_trips_until(warm, run_deadline_s);
  take(&start);
  progress("measuring");
  round_trips_until(opt.count, run_deadline_s);
  take(&end);
  drain(now_s() + opt.drain_timeout);
  linger();
  return report(EXIT_OK);
}

int main(int argc, char **argv) {
  parse_options(argc, argv);
  signal(SIGPIPE, SIG_IGN);
  alarm((unsigned)opt.max_seconds + 15);  // should the loop itself hang
  run_deadline_s = now_s() + opt.max_seconds;
  if (opt.mode == MODE_IDLE) { run_idle(); return EXIT_OK; }
  if (opt.mode == MODE_REACH) { run_reach(); return EXIT_OK; }
  open_traffic();
  progress("ready");
  take(&start);
  on_fail = report_failure;
  return (int)(opt.mode == MODE_RTT ? run_rtt() : run_load());
}
