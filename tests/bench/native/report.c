#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static bool first;

static double clock_s(clockid_t id) {
  struct timespec t;
  clock_gettime(id, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
double now_s(void) { return clock_s(CLOCK_MONOTONIC); }
double wall_s(void) { return clock_s(CLOCK_REALTIME); }

static void quoted(const char *s) {
  putchar('"');
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\') printf("\\%c", c);
    else if (c < 0x20 || c > 0x7e) printf("\\u%04x", c);
    else putchar(c);
  }
  putchar('"');
}

static void key(const char *name) {
  if (!first) fputs(", ", stdout);
  first = false;
  if (name) { quoted(name); fputs(": ", stdout); }
}

void json_begin(const char *event) {
  putchar('{');
  first = true;
  json_text("event", event);
  json_real("monotonic_s", now_s(), 6);
  json_real("wall_s", wall_s(), 6);
}
void json_end(void) { puts("}"); fflush(stdout); }
void json_int(const char *name, int64_t v) { key(name); printf("%lld", (long long)v); }
void json_real(const char *name, double v, int digits) { key(name); printf("%.*f", digits, v); }
void json_text(const char *name, const char *v) { key(name); quoted(v); }
void json_bool(const char *name, bool v) { key(name); fputs(v ? "true" : "false", stdout); }
void json_list(const char *name) { key(name); putchar('['); first = true; }
void json_list_end(void) { putchar(']'); first = false; }
void json_object(const char *name) { key(name); putchar('{'); first = true; }
void json_object_end(void) { putchar('}'); first = false; }

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

void json_spread(const char *name, double *values, int n, int digits) {
  json_object(name);
  if (n > 0) {
    qsort(values, (size_t)n, sizeof *values, by_value);
    json_real("min", values[0], digits);
    json_real("p50", values[n / 2], digits);
    json_real("p99", values[(int)((double)n * 0.99)], digits);
    json_real("max", values[n - 1], digits);
  }
  json_int("n", n);
  json_object_end();
}
