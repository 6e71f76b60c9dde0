// Command line of the load generator.
#ifndef OPTIONS_H
#define OPTIONS_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum mode { MODE_LOAD, MODE_RTT, MODE_IDLE, MODE_REACH };
enum exit_code { EXIT_OK = 0, EXIT_MESSAGES = 1, EXIT_USAGE = 2, EXIT_CONNECT = 3, EXIT_PEER = 4, EXIT_TIMEOUT = 5 };
enum { MAX_PIDS = 16, MAX_LINKS = 2000, MAX_CONNECTIONS = 20000, MIN_BODY = 16, MAX_BODY = 1 << 30 };
#define MAX_COUNT 500000000ull
#define MAX_RUN_S 600.0

typedef struct options {
  enum mode mode;
  const char *host, *address, *user_id;
  int send_port, recv_port;
  int senders, receivers, pairs, samples, connections, links;
  bool multicast, unsettled, each, tls, ws, relay, allow_loss, per_link, progress, close_gone, anonymous;
  uint32_t body, credit, max_frame, at_least;
  uint64_t count;           // 0: bounded by seconds
  double seconds, warmup, rate, tick, hold, linger, interval;
  double max_seconds, connect_timeout, ready_timeout, drain_timeout;
  pid_t pids[MAX_PIDS];
  int n_pids;
} options;

extern options opt;

void parse_options(int argc, char **argv);  // exits with EXIT_USAGE and a message for a wrong option
const char *mode_name(void);

// Ends the program: the message on stderr, {"event": "error"} on stdout, the partial result if load was running.
void fail(enum exit_code code, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
extern void (*on_fail)(enum exit_code code);
#endif
