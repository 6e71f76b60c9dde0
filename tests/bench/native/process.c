#include "process.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "options.h"

static double thread_cpu_s(pid_t pid, const char *tid) {
  char path[320];
  unsigned long long ns = 0;
  snprintf(path, sizeof path, "/proc/%d/task/%.20s/schedstat", (int)pid, tid);
  FILE *f = fopen(path, "r");
  if (!f) return 0;  // the thread ended between readdir and here
  if (fscanf(f, "%llu", &ns) != 1) ns = 0;
  fclose(f);
  return (double)ns * 1e-9;
}

static void read_ticks(pid_t pid, usage *u) {
  char path[64], text[2048];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  FILE *f = fopen(path, "r");
  if (!f) return;
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  unsigned long user, sys;
  char *p = strrchr(text, ')');  // the command name before it may hold anything
  if (p && sscanf(p + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &sys) == 2) {
    double tick = (double)sysconf(_SC_CLK_TCK);
    u->user_s = (double)user / tick;
    u->sys_s = (double)sys / tick;
  }
}

static long field_kib(pid_t pid, const char *file, const char *name) {
  char path[64], line[256];
  long v = 0;
  snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
  FILE *f = fopen(path, "r");
  if (!f) return 0;
  size_t n = strlen(name);
  while (fgets(line, sizeof line, f))
    if (!strncmp(line, name, n)) { v = strtol(line + n, NULL, 10); break; }
  fclose(f);
  return v;
}

void read_usage(pid_t pid, usage *u) {
  char path[64];
  memset(u, 0, sizeof *u);
  snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
  DIR *d = opendir(path);
  if (!d) fail(EXIT_CONNECT, "no process %d to measure", (int)pid);
  for (struct dirent *e; (e = readdir(d));)
    if (e->d_name[0] != '.') u->cpu_s += thread_cpu_s(pid, e->d_name);
  closedir(d);
  read_ticks(pid, u);
  u->rss_kib = field_kib(pid, "smaps_rollup", "Rss:");  // exact; VmRSS lags by some pages a thread
  if (!u->rss_kib) u->rss_kib = field_kib(pid, "status", "VmRSS:");
  u->peak_kib = field_kib(pid, "status", "VmHWM:");
}

double own_cpu_s(void) {
  struct rusage r;
  getrusage(RUSAGE_SELF, &r);
  return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) + (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1e-6;
}
