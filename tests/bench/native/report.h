// JSON lines on stdout, one object a line: json_begin ... json_end.
#ifndef REPORT_H
#define REPORT_H
#include <stdbool.h>
#include <stdint.h>

void json_begin(const char *event);  // adds "event", "monotonic_s" (as time.monotonic) and "wall_s"
void json_end(void);                 // ends the line and flushes it
void json_int(const char *name, int64_t v);
void json_real(const char *name, double v, int digits);
void json_text(const char *name, const char *v);
void json_bool(const char *name, bool v);
void json_list(const char *name);    // opens an array; items with a NULL name
void json_list_end(void);
void json_object(const char *name);
void json_object_end(void);
void json_spread(const char *name, double *values, int n, int digits);  // sorts; {"min", "p50", "p99", "max", "n"}

double now_s(void);                  // CLOCK_MONOTONIC
double wall_s(void);
#endif
