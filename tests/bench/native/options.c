#include "options.h"

#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "wire.h"

options opt = {.mode = MODE_LOAD, .host = "127.0.0.1", .address = "bench", .senders = 1, .receivers = 1, .samples = 10,
               .connections = 1, .body = 100, .credit = 250, .max_frame = 65536, .seconds = 2, .warmup = -1,
               .at_least = 1, .tick = 0.001, .linger = 0.05, .interval = 0.05, .hold = -1, .max_seconds = 60,
               .connect_timeout = 5, .ready_timeout = 10, .drain_timeout = 10};
void (*on_fail)(enum exit_code code);

static const char *MODES[] = {"load", "rtt", "idle", "reach"};
const char *mode_name(void) { return MODES[opt.mode]; }

static const char HELP[] =
    "usage: loadgen --port PORT [options]\n"
    "Drives an AMQP 1.0 router with precomputed frames, checks every message and prints JSON lines.\n"
    "\n"
    "modes (--mode)\n"
    "  load     senders to receivers, as fast as credit allows or at --rate (default)\n"
    "  rtt      ping-pong over two addresses; --count round trips (10000)\n"
    "  idle     opens --connections with --links receivers each, holds them until stdin ends or --hold seconds\n"
    "  reach    --samples times: consumer attaches -> sender has credit; consumer gone -> credit withdrawn\n"
    "\n"
    "where\n"
    "  --host HOST            127.0.0.1\n"
    "  --port PORT            of both sides; --send-port and --recv-port when they are two routers of a mesh\n"
    "  --address NAME         address, or prefix of the addresses (bench)\n"
    "  --pid PID[,PID...]     router processes whose CPU and memory are read from /proc\n"
    "  --tls                  AMQPS; the certificate is not checked\n"
    "  --ws                   AMQP over WebSocket, also together with --tls\n"
    "  --relay                no AMQP handshake: the peer is the byte relay of floor.c (load with pairs, or rtt)\n"
    "\n"
    "load\n"
    "  --senders N --receivers N   all on one address (1, 1)\n"
    "  --pairs N              N senders and N receivers, each pair with an address of its own\n"
    "  --multicast            each receiver must get each message\n"
    "  --unsettled            deliveries are settled by the receiver (default: sent settled)\n"
    "  --each                 one disposition a message (default: ranges)\n"
    "  --credit N             receivers' credit, renewed at half of it (250)\n"
    "  --body BYTES           16 ... 1073741824 (100)\n"
    "  --user-id NAME         properties with this user-id in each message\n"
    "  --anonymous            senders without a target; the address is in the properties of each message\n"
    "  --max-frame BYTES      max-frame-size announced and used (65536)\n"
    "  --rate R               messages a second of all senders together\n"
    "  --tick S               with --rate: send what is due together each S seconds (0.001); 0: each in its time\n"
    "  --count N              exactly N messages (at most 500000000), else --seconds S (2)\n"
    "  --at-least N           with --seconds: measure on until so many were received (1)\n"
    "  --warmup S             seconds of load before measuring (0 with --count, else 0.5); rtt: 1000 round trips\n"
    "  --linger S             wait after the last message for late duplicates (0.05)\n"
    "  --allow-loss           lost messages are counted but are no error (fail-over tests)\n"
    "  --per-link             counts of each sender and receiver in the result\n"
    "\n"
    "idle, reach\n"
    "  --connections N --links M --hold S\n"
    "  --samples N --gone detach|close --interval S\n"
    "\n"
    "bounds\n"
    "  --max-seconds S        the whole run, at most 600 (60)\n"
    "  --connect-timeout S (5)  --ready-timeout S (10)  --drain-timeout S (10)\n"
    "  --progress             JSON lines when ready, measuring, draining\n"
    "\n"
    "exit: 0 good, 1 messages lost, duplicated, reordered or corrupt, 2 usage, 3 no connection, 4 peer ended\n"
    "or broke the protocol, 5 time-out\n";

void fail(enum exit_code code, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  fprintf(stderr, "loadgen: %s\n", text);
  json_begin("error");
  json_int("exit", code);
  json_text("message", text);
  json_end();
  void (*hook)(enum exit_code) = on_fail;
  on_fail = NULL;
  if (hook) hook(code);
  exit(code);
}

static double number(const char *name, const char *text, double low, double high) {
  char *end;
  double v = strtod(text, &end);
  if (end == text || *end || !isfinite(v)) fail(EXIT_USAGE, "--%s: not a number: %s", name, text);
  if (v < low || v > high) fail(EXIT_USAGE, "--%s: %s is outside %.10g ... %.10g", name, text, low, high);
  return v;
}

static uint64_t whole(const char *name, const char *text, double low, double high) {
  double v = number(name, text, low, high);
  if (v != floor(v)) fail(EXIT_USAGE, "--%s: not a whole number: %s", name, text);
  return (uint64_t)v;
}

static void parse_pids(char *list) {
  for (char *s = strtok(list, ","); s; s = strtok(NULL, ",")) {
    if (opt.n_pids == MAX_PIDS) fail(EXIT_USAGE, "--pid: more than %d", MAX_PIDS);
    opt.pids[opt.n_pids++] = (pid_t)whole("pid", s, 1, 1 << 30);
  }
}

static int choice(const char *name, const char *text, const char *const *values, int n) {
  for (int i = 0; i < n; i++)
    if (!strcmp(text, values[i])) return i;
  fail(EXIT_USAGE, "--%s: unknown value: %s", name, text);
}

// One table for the options that are a number, a text or a flag; the few others are cases in set_option.
enum { INT, U32, REAL, TEXT, FLAG, OTHER };
static const struct spec { const char *name; int kind; void *to; double low, high; } SPECS[] = {
    {"host", TEXT, &opt.host, 0, 0}, {"user-id", TEXT, &opt.user_id, 0, 0}, {"address", TEXT, &opt.address, 0, 0},
    {"send-port", INT, &opt.send_port, 1, 65535}, {"recv-port", INT, &opt.recv_port, 1, 65535},
    {"senders", INT, &opt.senders, 1, MAX_LINKS}, {"receivers", INT, &opt.receivers, 1, MAX_LINKS},
    {"pairs", INT, &opt.pairs, 1, MAX_LINKS}, {"samples", INT, &opt.samples, 1, 1000},
    {"connections", INT, &opt.connections, 1, MAX_CONNECTIONS}, {"links", INT, &opt.links, 0, 100000},
    {"multicast", FLAG, &opt.multicast, 0, 0}, {"unsettled", FLAG, &opt.unsettled, 0, 0},
    {"each", FLAG, &opt.each, 0, 0}, {"anonymous", FLAG, &opt.anonymous, 0, 0},
    {"tls", FLAG, &opt.tls, 0, 0}, {"ws", FLAG, &opt.ws, 0, 0}, {"relay", FLAG, &opt.relay, 0, 0},
    {"allow-loss", FLAG, &opt.allow_loss, 0, 0},
    {"per-link", FLAG, &opt.per_link, 0, 0}, {"progress", FLAG, &opt.progress, 0, 0},
    {"body", U32, &opt.body, MIN_BODY, MAX_BODY}, {"credit", U32, &opt.credit, 1, 1000000},
    {"at-least", U32, &opt.at_least, 1, 1e8}, {"max-frame", U32, &opt.max_frame, 512, 1 << 20},
    {"seconds", REAL, &opt.seconds, 0.01, MAX_RUN_S},
    {"warmup", REAL, &opt.warmup, 0, MAX_RUN_S}, {"rate", REAL, &opt.rate, 0.1, 10e6},
    {"tick", REAL, &opt.tick, 0, 1},
    {"hold", REAL, &opt.hold, 0, MAX_RUN_S}, {"linger", REAL, &opt.linger, 0, 60},
    {"interval", REAL, &opt.interval, 0, 10},
    {"max-seconds", REAL, &opt.max_seconds, 0.1, MAX_RUN_S}, {"connect-timeout", REAL, &opt.connect_timeout, 0, 120},
    {"ready-timeout", REAL, &opt.ready_timeout, 0, 120}, {"drain-timeout", REAL, &opt.drain_timeout, 0, 120},
    {"mode", OTHER, NULL, 0, 0}, {"port", OTHER, NULL, 0, 0}, {"count", OTHER, NULL, 0, 0}, {"pid", OTHER, NULL, 0, 0},
    {"gone", OTHER, NULL, 0, 0}, {"help", OTHER, NULL, 0, 0}};
enum { N_SPECS = sizeof SPECS / sizeof *SPECS };

static void set_option(const struct spec *s, char *arg) {
  static const char *const gone[] = {"detach", "close"};
  switch (s->kind) {
    case INT: *(int *)s->to = (int)whole(s->name, arg, s->low, s->high); return;
    case U32: *(uint32_t *)s->to = (uint32_t)whole(s->name, arg, s->low, s->high); return;
    case REAL: *(double *)s->to = number(s->name, arg, s->low, s->high); return;
    case TEXT: *(const char **)s->to = arg; return;
    case FLAG: *(bool *)s->to = true; return;
  }
  if (!strcmp(s->name, "mode")) opt.mode = (enum mode)choice("mode", arg, MODES, 4);
  else if (!strcmp(s->name, "port")) opt.send_port = opt.recv_port = (int)whole("port", arg, 1, 65535);
  else if (!strcmp(s->name, "count")) opt.count = whole("count", arg, 1, (double)MAX_COUNT);
  else if (!strcmp(s->name, "pid")) parse_pids(arg);
  else if (!strcmp(s->name, "gone")) opt.close_gone = choice("gone", arg, gone, 2) == 1;
  else { fputs(HELP, stdout); exit(EXIT_OK); }
}

static void check_options(void) {
  if (!opt.send_port || !opt.recv_port) fail(EXIT_USAGE, "--port (or --send-port and --recv-port) is missing");
  if (strlen(opt.address) == 0 || strlen(opt.address) > 120) fail(EXIT_USAGE, "--address: 1 to 120 bytes");
  if (opt.pairs && opt.multicast) fail(EXIT_USAGE, "--pairs and --multicast exclude each other");
  if (opt.user_id && strlen(opt.user_id) > 100) fail(EXIT_USAGE, "--user-id: at most 100 bytes");
  if (opt.anonymous && (opt.pairs || opt.mode != MODE_LOAD)) fail(EXIT_USAGE, "--anonymous: load to one address only");
  if (opt.mode == MODE_RTT) {
    opt.pairs = 2;  // request and reply
    if (!opt.count) opt.count = 10000;
  }
  if (opt.pairs) opt.senders = opt.receivers = opt.pairs;
  bool paired = opt.pairs || (opt.senders == 1 && opt.receivers == 1 && !opt.multicast);
  if (opt.relay && opt.ws) fail(EXIT_USAGE, "--relay and --ws exclude each other");
  if (opt.relay && (opt.mode > MODE_RTT || !paired)) fail(EXIT_USAGE, "--relay joins pairs only");
  if (opt.warmup < 0) opt.warmup = opt.count ? 0 : 0.5;
  if (opt.mode == MODE_LOAD && opt.count && opt.warmup > 0) fail(EXIT_USAGE, "--warmup does not go with --count");
#ifndef BENCH_TLS
  if (opt.tls) fail(EXIT_USAGE, "--tls: built without OpenSSL");
#endif
}

void parse_options(int argc, char **argv) {
  struct option table[N_SPECS + 1];
  memset(table, 0, sizeof table);
  for (int i = 0; i < N_SPECS; i++) {
    bool bare = SPECS[i].kind == FLAG || !strcmp(SPECS[i].name, "help");
    table[i] = (struct option){SPECS[i].name, bare ? no_argument : required_argument, NULL, 0};
  }
  opterr = 0;
  for (int at, code; at = -1, code = getopt_long(argc, argv, ":", table, &at), code != -1;) {
    if (code != 0) fail(EXIT_USAGE, code == ':' ? "value missing: %s" : "unknown option: %s", argv[optind - 1]);
    set_option(&SPECS[at], optarg);
  }
  if (optind < argc) fail(EXIT_USAGE, "unexpected argument: %s", argv[optind]);
  check_options();
}
