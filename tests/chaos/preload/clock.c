/* Loaded before a router's libraries (LD_PRELOAD): its wall clock is off by the seconds in the file that
 * WAYMESH_TEST_CLOCK names, a double which the test changes while the router runs. Other clocks stay as they are:
 * libfaketime 0.9.10 cannot do that, it makes sleeps by the monotonic clock fail. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile double *offset;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("WAYMESH_TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        offset = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        double whole = floor(*offset);
        now->tv_sec += (time_t)whole;
        now->tv_nsec += (long)((*offset - whole) * 1e9);
        if (now->tv_nsec >= 1000000000L) {
            now->tv_sec++;
            now->tv_nsec -= 1000000000L;
        }
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec precise;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return result;
}

time_t time(time_t *result)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result)
        *result = now.tv_sec;
    return now.tv_sec;
}
