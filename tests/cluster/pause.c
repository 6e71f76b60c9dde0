/* Holds a pod's namespaces: waits for a signal to end, and reaps what is left to it. */
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>

int main(void)
{
    sigset_t awaited;
    int number;

    sigemptyset(&awaited);
    sigaddset(&awaited, SIGTERM);
    sigaddset(&awaited, SIGINT);
    sigaddset(&awaited, SIGCHLD);
    sigprocmask(SIG_BLOCK, &awaited, NULL);
    while (sigwait(&awaited, &number) == 0 && number == SIGCHLD)
        while (waitpid(-1, NULL, WNOHANG) > 0)
            continue;
    return 0;
}
