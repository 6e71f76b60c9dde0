// CPU time and memory of other processes, from /proc.
#ifndef PROCESS_H
#define PROCESS_H
#include <sys/types.h>

typedef struct usage {
  double cpu_s;           // on-CPU time of all threads, user and system, nanosecond counters of the scheduler
  double user_s, sys_s;   // the same split in clock ticks: only good for a share
  long rss_kib, peak_kib;
} usage;

void read_usage(pid_t pid, usage *u);  // ends the program when the process is gone or not readable
double own_cpu_s(void);
#endif
