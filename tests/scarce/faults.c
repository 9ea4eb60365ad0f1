/*
 * Lets chosen system calls of the process fail: preloaded, so that every caller is met. All off until faults_set.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

struct rule {
    const char *name;
    atomic_int error;
    atomic_long every; /* 0: off */
    atomic_long calls, failed;
};

enum {
    ACCEPT4, BIND, CONNECT, EPOLL_CREATE1, EPOLL_CTL, EPOLL_PWAIT2, EPOLL_WAIT, EVENTFD, FLOCK, GETRANDOM,
    INOTIFY_INIT1, OPEN64, POLL, PTHREAD_CREATE, RECV, RECVMSG, SEND, SENDMSG, SOCKET, WRITE, RULES
};

static struct rule rules[RULES] = {
    [ACCEPT4] = {.name = "accept4"},
    [BIND] = {.name = "bind"},
    [CONNECT] = {.name = "connect"},
    [EPOLL_CREATE1] = {.name = "epoll_create1"},
    [EPOLL_CTL] = {.name = "epoll_ctl"},
    [EPOLL_PWAIT2] = {.name = "epoll_pwait2"},
    [EPOLL_WAIT] = {.name = "epoll_wait"},
    [EVENTFD] = {.name = "eventfd"},
    [FLOCK] = {.name = "flock"},
    [GETRANDOM] = {.name = "getrandom"},
    [INOTIFY_INIT1] = {.name = "inotify_init1"},
    [OPEN64] = {.name = "open64"},
    [POLL] = {.name = "poll"},
    [PTHREAD_CREATE] = {.name = "pthread_create"},
    [RECV] = {.name = "recv"},
    [RECVMSG] = {.name = "recvmsg"},
    [SEND] = {.name = "send"},
    [SENDMSG] = {.name = "sendmsg"},
    [SOCKET] = {.name = "socket"},
    [WRITE] = {.name = "write"},
};

static struct rule *find(const char *name)
{
    for (int at = 0; at < RULES; at++)
        if (strcmp(rules[at].name, name) == 0)
            return &rules[at];
    return NULL;
}

/* Every n-th call of this name fails with this error from now on; 0: none. Its counts begin anew. -1: no such name. */
int faults_set(const char *name, int error, long every)
{
    struct rule *rule = find(name);
    if (!rule)
        return -1;
    atomic_store(&rule->every, 0);
    atomic_store(&rule->error, error);
    atomic_store(&rule->calls, 0);
    atomic_store(&rule->failed, 0);
    atomic_store(&rule->every, every);
    return 0;
}

/* How many calls of this name have failed since its rule was set. */
long faults_failed(const char *name)
{
    struct rule *rule = find(name);
    return rule ? atomic_load(&rule->failed) : -1;
}

/* No call fails any more. */
void faults_clear(void)
{
    for (int at = 0; at < RULES; at++)
        atomic_store(&rules[at].every, 0);
}

/* The error of this call, 0 if it is to be made. */
static int fault(int at)
{
    struct rule *rule = &rules[at];
    long every = atomic_load_explicit(&rule->every, memory_order_relaxed);
    if (every == 0 || (atomic_fetch_add(&rule->calls, 1) + 1) % every != 0)
        return 0;
    atomic_fetch_add(&rule->failed, 1);
    return atomic_load(&rule->error);
}

#define NEXT(name) \
    static __typeof__(&name) next; \
    if (!next) \
        next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define FAIL(at) \
    do { \
        int error = fault(at); \
        if (error) { \
            errno = error; \
            return -1; \
        } \
    } while (0)

int accept4(int file, struct sockaddr *address, socklen_t *length, int flags)
{
    NEXT(accept4);
    FAIL(ACCEPT4);
    return next(file, address, length, flags);
}

int bind(int file, const struct sockaddr *address, socklen_t length)
{
    NEXT(bind);
    FAIL(BIND);
    return next(file, address, length);
}

int connect(int file, const struct sockaddr *address, socklen_t length)
{
    NEXT(connect);
    FAIL(CONNECT);
    return next(file, address, length);
}

int epoll_create1(int flags)
{
    NEXT(epoll_create1);
    FAIL(EPOLL_CREATE1);
    return next(flags);
}

int epoll_ctl(int set, int operation, int file, struct epoll_event *event)
{
    NEXT(epoll_ctl);
    /* Nothing else of it needs memory. */
    if (operation == EPOLL_CTL_ADD)
        FAIL(EPOLL_CTL);
    return next(set, operation, file, event);
}

int epoll_wait(int set, struct epoll_event *events, int most, int timeout)
{
    NEXT(epoll_wait);
    FAIL(EPOLL_WAIT);
    return next(set, events, most, timeout);
}

int eventfd(unsigned int value, int flags)
{
    NEXT(eventfd);
    FAIL(EVENTFD);
    return next(value, flags);
}

int flock(int file, int operation)
{
    NEXT(flock);
    FAIL(FLOCK);
    return next(file, operation);
}

ssize_t getrandom(void *bytes, size_t length, unsigned int flags)
{
    NEXT(getrandom);
    FAIL(GETRANDOM);
    return next(bytes, length, flags);
}

int inotify_init1(int flags)
{
    NEXT(inotify_init1);
    FAIL(INOTIFY_INIT1);
    return next(flags);
}

int open64(const char *path, int flags, ...)
{
    NEXT(open64);
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    FAIL(OPEN64);
    return next(path, flags, mode);
}

int poll(struct pollfd *files, nfds_t count, int timeout)
{
    NEXT(poll);
    FAIL(POLL);
    return next(files, count, timeout);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
    NEXT(pthread_create);
    int error = fault(PTHREAD_CREATE);
    return error ? error : next(thread, attributes, start, argument);
}

ssize_t recv(int file, void *bytes, size_t length, int flags)
{
    NEXT(recv);
    FAIL(RECV);
    return next(file, bytes, length, flags);
}

ssize_t recvmsg(int file, struct msghdr *message, int flags)
{
    NEXT(recvmsg);
    FAIL(RECVMSG);
    return next(file, message, flags);
}

ssize_t send(int file, const void *bytes, size_t length, int flags)
{
    NEXT(send);
    FAIL(SEND);
    return next(file, bytes, length, flags);
}

ssize_t sendmsg(int file, const struct msghdr *message, int flags)
{
    NEXT(sendmsg);
    FAIL(SENDMSG);
    return next(file, message, flags);
}

int socket(int domain, int type, int protocol)
{
    NEXT(socket);
    FAIL(SOCKET);
    return next(domain, type, protocol);
}

ssize_t write(int file, const void *bytes, size_t length)
{
    NEXT(write);
    FAIL(WRITE);
    return next(file, bytes, length);
}

/* The library makes epoll_pwait2 by its number, for which not every C library has a function. */
long syscall(long number, ...)
{
    NEXT(syscall);
    long argument[6];
    va_list rest;
    va_start(rest, number);
    for (int at = 0; at < 6; at++)
        argument[at] = va_arg(rest, long);
    va_end(rest);
    if (number == SYS_epoll_pwait2)
        FAIL(EPOLL_PWAIT2);
    return next(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
}
