/*
 * Counts allocations of all threads: preloaded, so that every caller of malloc in the process is seen. Off until
 * cost_switch(1). The addresses of the first counted callers are kept, for a message about a failure.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>

#define TRACES 4
#define DEPTH 32

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static atomic_int is_on;
static atomic_long allocations, mappings;
static atomic_int traces;
static void *frames[TRACES][DEPTH];
static int depths[TRACES];
static _Thread_local int is_inside;

static void count(atomic_long *counter)
{
    if (!atomic_load_explicit(&is_on, memory_order_relaxed) || is_inside)
        return;
    is_inside = 1;
    atomic_fetch_add(counter, 1);
    int at = atomic_fetch_add(&traces, 1);
    if (at < TRACES)
        depths[at] = backtrace(frames[at], DEPTH);
    is_inside = 0;
}

void *malloc(size_t size)
{
    count(&allocations);
    return __libc_malloc(size);
}

void *calloc(size_t many, size_t size)
{
    count(&allocations);
    return __libc_calloc(many, size);
}

void *realloc(void *old, size_t size)
{
    count(&allocations);
    return __libc_realloc(old, size);
}

void *memalign(size_t alignment, size_t size)
{
    count(&allocations);
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    count(&allocations);
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **result, size_t alignment, size_t size)
{
    count(&allocations);
    *result = __libc_memalign(alignment, size);
    return *result ? 0 : 12;
}

void *mmap(void *at, size_t size, int protection, int flags, int file, off_t offset)
{
    static void *(*next)(void *, size_t, int, int, int, off_t);
    if (!next)
        next = (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap");
    count(&mappings);
    return next(at, size, protection, flags, file, offset);
}

void *mmap64(void *at, size_t size, int protection, int flags, int file, off_t offset)
{
    return mmap(at, size, protection, flags, file, offset);
}

int brk(void *end)
{
    static int (*next)(void *);
    if (!next)
        next = (int (*)(void *))dlsym(RTLD_NEXT, "brk");
    count(&mappings);
    return next(end);
}

void *sbrk(intptr_t more)
{
    static void *(*next)(intptr_t);
    if (!next)
        next = (void *(*)(intptr_t))dlsym(RTLD_NEXT, "sbrk");
    count(&mappings);
    return next(more);
}

/* Switches the counting on or off. On: what has been counted is forgotten. */
void cost_switch(int on)
{
    if (on) {
        void *warm[2];
        backtrace(warm, 2); /* loads its library now, which allocates */
        atomic_store(&allocations, 0);
        atomic_store(&mappings, 0);
        atomic_store(&traces, 0);
    }
    atomic_store(&is_on, on);
}

long cost_allocations(void)
{
    return atomic_load(&allocations);
}

long cost_mappings(void)
{
    return atomic_load(&mappings);
}

/* Writes the callers of the first allocations to a descriptor. */
void cost_report(int file)
{
    int kept = atomic_load(&traces);
    for (int at = 0; at < kept && at < TRACES; at++)
        backtrace_symbols_fd(frames[at], depths[at], file);
}
