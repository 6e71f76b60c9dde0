# What the compiled loop calls of the kernel's interface, see epoll_wait(2).
cdef extern from "sys/epoll.h" nogil:
    ctypedef union epoll_data_t:
        int fd

    cdef struct epoll_event:
        unsigned int events
        epoll_data_t data

    int epoll_wait(int epfd, epoll_event *events, int maxevents, int timeout)
