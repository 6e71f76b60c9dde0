// The two modes that measure the router's state, not its traffic.
#ifndef PROBE_H
#define PROBE_H
void run_idle(void);   // memory of idle connections and links
void run_reach(void);  // how long the mesh takes to tell a sender of a consumer's coming and going
#endif
