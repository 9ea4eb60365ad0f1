/*
 * Preloaded by tests/bytes.rs: keeps what a process sends by sendmsg(2), byte for byte, in a file for each descriptor:
 * $COLLECT_TEST_STREAM.NUMBER. Each call leaves the number of bytes that it has sent, in 8 bytes, and these bytes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* A test without its evidence must fail. */
static void keep(int file, const char *bytes, size_t many)
{
    while (many > 0) {
        const ssize_t written = write(file, bytes, many);
        if (written <= 0)
            abort();
        bytes += written;
        many -= (size_t)written;
    }
}

ssize_t sendmsg(int socket, const struct msghdr *message, int flags)
{
    static ssize_t (*next)(int, const struct msghdr *, int);
    const char *prefix = getenv("COLLECT_TEST_STREAM");
    char path[4096];
    pthread_mutex_lock(&lock);
    if (!next)
        next = (ssize_t (*)(int, const struct msghdr *, int))dlsym(RTLD_NEXT, "sendmsg");
    ssize_t sent = next(socket, message, flags);
    if (sent > 0 && prefix) {
        snprintf(path, sizeof path, "%s.%d", prefix, socket);
        int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (file < 0)
            abort();
        size_t left = (size_t)sent;
        keep(file, (const char *)&left, sizeof left);
        for (size_t at = 0; left > 0; at++) {
            const struct iovec *part = &message->msg_iov[at];
            size_t many = part->iov_len < left ? part->iov_len : left;
            keep(file, part->iov_base, many);
            left -= many;
        }
        close(file);
    }
    pthread_mutex_unlock(&lock);
    return sent;
}
