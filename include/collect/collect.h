/* libcollect: the ranks of a world act on their buffers together. Linux only.
 *
 * A complete program:

// Sums one number over all ranks. Build and start four of them:
//   cc allreduce.c -o allreduce $(pkg-config --cflags --libs collect)
//   collect run -n 4 -- ./allreduce
#include <collect/collect.h>
#include <stdio.h>

static int fail(const char *what) {
  fprintf(stderr, "%s: %s\n", what, collect_last_error_message());
  return 1;
}

int main(void) {
  collect_world *world = NULL;
  int32_t rank = 0;
  int32_t size = 0;

  // The launcher tells each process its rank, the number of ranks, and where they meet.
  if (collect_world_create_from_env(NULL, &world) != COLLECT_OK) return fail("create the world");
  if (collect_world_rank(world, &rank) != COLLECT_OK) return fail("rank");
  if (collect_world_size(world, &size) != COLLECT_OK) return fail("size");

  // Every rank contributes its own number, and every rank gets the sum. No options: the defaults.
  // No request: the call returns when the sum is there.
  float mine = (float)(rank + 1);
  float sum = 0;
  if (collect_allreduce(world, &mine, &sum, 1, COLLECT_F32, COLLECT_SUM, NULL, NULL) != COLLECT_OK)
    return fail("allreduce");

  printf("rank %d of %d: the sum of 1 to %d is %g\n", (int)rank, (int)size, (int)size, sum);
  collect_world_destroy(world);
  return 0;
}

 * What holds for every function, unless its comment says otherwise:
 *
 *  - What can fail returns collect_status: 0 (COLLECT_OK) is success, a negative number an error, a
 *    positive one neither. Results go through the last parameters ("out" parameters), which a failure
 *    leaves untouched. collect_last_error_message() has the text: what, where, and what to do.
 *  - Errors are of three groups: the caller's mistake (nothing happened), this call failed (the world
 *    is whole), the world has failed (every later call on it gets the same error). docs/errors.md has a
 *    page on all of them, and on what to do when nothing moves.
 *  - Handles are opaque. Whoever receives a handle gives it up by its destroy or free function; giving
 *    up NULL does nothing. A child keeps its parent alive, so the order does not matter. Calls that
 *    other threads are inside of go on to their ends, and keep what they need until then.
 *  - Strings, options and buffers are lent until the call returns; the buffers of an operation with a
 *    request, until that request is complete.
 *  - Options may be NULL. Else zero them and set struct_size to their sizeof: a field that is 0 has its
 *    default. Fields are only ever added at the end, so programs and libraries of different age agree.
 *  - Enumerations are integers with constants; an unknown one is an error.
 *  - Times are int64_t nanoseconds, and mean the same everywhere. 0 is the default: ten minutes for a
 *    store and for a world; for an operation what its world says, for a fork what its parent says; for
 *    a wait for requests no limit, since each operation has one. A negative time is for ever, a positive
 *    one a limit from the call to its end. When it passes the call returns COLLECT_ERR_TIMED_OUT, a wait
 *    for requests COLLECT_IN_PROGRESS.
 *  - Counts are elements, not bytes. A buffer of no elements may be NULL.
 *  - Each collective is one function. With request NULL it returns when the operation is complete; else
 *    it returns at once, and the handle is tested, waited for (alone or among others), polled through a
 *    descriptor or given a function to call, and freed. send == recv works in place, and so does this
 *    rank's part of the larger buffer where one holds a part for each rank.
 *  - Every rank of a world calls the same collectives with the same type, count, operation and root.
 *    Messages (collect_send, collect_recv) concern two ranks only.
 *  - The library never exits or aborts the process and prints nothing to standard output. It stays
 *    loaded after dlclose, because it owns threads.
 *
 * Threads, fork, signals and cancellation:
 *
 * 1. Every function may be called from any thread at any time; handles are reference-counted
 *    inside.
 * 2. Worlds are independent of each other. No call on one waits for another.
 * 3. Within a world, operations without a key match in the order in which they were submitted on each
 *    rank; messages of one rank to another with one tag likewise. Threads that share a world without
 *    ordering their calls pass keys in the options: equal keys match, whatever the order, and the uses
 *    of one key match in their order. Or they use a world each: forks are cheap.
 * 4. A wrong order is detected wherever the operations differ in any part (collective, type, count,
 *    root, ...): each rank gets COLLECT_ERR_MISMATCH with both sides in its text (one that was done
 *    already, at its next call on that world), and no buffer is written by the wrong data.
 * 5. After fork(2), the child gets an error from every call, and the parent is not disturbed.
 * 6. The library installs no signal handler, no atexit work and no malloc hook; it sets CLOEXEC on
 *    every descriptor and MSG_NOSIGNAL on every send, and does not change affinity. Its own threads
 *    handle no signals, and no call ends early or fails because of one, save waits for requests of a
 *    world that is interruptible (see its options).
 * 7. Completion callbacks run on the library's own thread, one after the other, and must not wait on
 *    the library.
 * 8. The buffers of a request stay untouched by the caller until it is complete, also when its
 *    handle is freed early. Those of a batch are lent from the recording of the call until the batch
 *    is destroyed; between two starts they may be read and written.
 * 9. The operations of a batch begin together, in the order in which they were recorded, as if each
 *    had been called just then; one start of a batch may be under way at a time.
 * 10. A reduction of the caller's own runs on whichever thread drives the endpoint just then: one that
 *    is inside a blocking call or a wait of any world that shares its connections, or the library's
 *    own. The library holds no lock meanwhile. It may not call the library.
 * 11. No thread is cancelled (pthread_cancel) inside of the library: a cancellation waits until the
 *    call is through. With the deferred type it takes effect at the next cancellation point behind
 *    the call, with the asynchronous type as the call returns. What the call was to do is done by then:
 *    an operation that others take part in is complete, and a handle that was made is in its place.
 *    This holds for functions of the caller's that the library calls, too. Its own threads cannot be
 *    cancelled.
 */

#ifndef COLLECT_H
#define COLLECT_H

/* Made from src/ffi: COLLECT_WRITE_HEADER=1 cargo test --test header. Do not edit. */

#include <stddef.h>
#include <stdint.h>

#ifdef __GNUC__
#define COLLECT_API __attribute__((visibility("default")))
#define COLLECT_MUST_USE __attribute__((warn_unused_result))
#else
#define COLLECT_API
#define COLLECT_MUST_USE
#endif

/**
 * Raised by a break of the ABI, together with the SONAME.
 * Programs that were built with another one do not load this library.
 */
#define COLLECT_VERSION_MAJOR 0

/**
 * Raised by an addition.
 * Programs that were built with an earlier one run with this library as well.
 */
#define COLLECT_VERSION_MINOR 1

/**
 * Raised by a fix.
 * Says nothing about what the library can do.
 */
#define COLLECT_VERSION_PATCH 0

/**
 * The version of this header as one number.
 * What `collect_version_number` returns if the library that is loaded is as old as this header.
 */
#define COLLECT_VERSION_NUMBER (((COLLECT_VERSION_MAJOR << 16) | (COLLECT_VERSION_MINOR << 8)) | COLLECT_VERSION_PATCH)

/**
 * In the place of a sending rank: whichever message with the tag comes first.
 * `collect_request_source` tells whose it was.
 */
#define COLLECT_ANY_RANK -1

/**
 * Operations that are started together, again and again.
 *
 * A call whose options name a batch is recorded, not made: `request` is NULL, arguments are checked then,
 * and what can be prepared is. `collect_batch_start` then begins all recorded operations, in the order in
 * which they were recorded, and gives one request for all of them. Once that has ended the batch may be
 * started again, with what the buffers hold then.
 *
 * A batch of one call is a persistent request. A start costs less than the calls: nothing is checked, chosen
 * or allocated, and all operations begin under one lock.
 *
 * Operations of a batch match as if each had been called by itself: other ranks may record the same calls,
 * or make them, or record them elsewhere. Their order within each world must be the same as ever, unless
 * they have keys. They run at the same time, and end in any order: one must not read what another writes.
 *
 * Threads: every function may be called on one batch from several threads at once.
 * Lifetime: it keeps its worlds alive, and reductions of its operations. Buffers are lent until the batch is
 * destroyed and what was started last has ended; between two starts they may be read and written.
 *
 * ```c
 * collect_batch *batch = NULL;
 * status = collect_batch_create(&batch);
 * options.batch = batch;
 * for (int i = 0; i < n; i++)
 *   collect_allreduce(world, x[i], x[i], count[i], COLLECT_F32, COLLECT_AVG, &options, NULL);
 * while (training) {
 *   compute_gradients();
 *   status = collect_batch_start(batch, NULL);
 *   apply_gradients();
 * }
 * collect_batch_destroy(batch);
 * ```
 */
typedef struct collect_batch collect_batch;

/**
 * A reduction of the caller's own: what `COLLECT_CUSTOM` does.
 *
 * It is named in the options of a call whose operation is `COLLECT_CUSTOM`. Every rank passes a reduction
 * that does the same; element size and `is_commutative` are compared, the functions cannot be.
 *
 * Threads: it may be used by any number of calls, on any threads and worlds, at one time.
 * Lifetime: an operation under way, and a batch, keep it alive.
 *
 * ```c
 * struct best { float loss; int32_t rank; };
 *
 * static void smaller(void *user, const void *left, const void *right, void *result, size_t count) {
 *   const struct best *l = left, *r = right;
 *   struct best *out = result;
 *   for (size_t i = 0; i < count; i++) out[i] = r[i].loss < l[i].loss ? r[i] : l[i];
 * }
 *
 * status = collect_reduction_create(smaller, NULL, NULL, sizeof(struct best), 0, &options.reduction);
 * status = collect_allreduce(world, &mine, &best, 1, COLLECT_U8, COLLECT_CUSTOM, &options, NULL);
 * ```
 */
typedef struct collect_reduction collect_reduction;

/**
 * One operation that was started, under way or ended.
 *
 * Threads: every function may be called on one request from several threads at once.
 * Lifetime: it keeps its world alive.
 *
 * Start many, then wait for each: they are under way at the same time, and end in any order.
 *
 * ```c
 * for (int i = 0; i < n; i++)
 *   collect_allreduce(world, x[i], x[i], count[i], COLLECT_F32, COLLECT_AVG, NULL, &requests[i]);
 * for (int i = 0; i < n; i++) {
 *   if (collect_request_wait(requests[i], -1) != COLLECT_OK) failed = 1;
 *   collect_request_free(requests[i]);
 * }
 * ```
 */
typedef struct collect_request collect_request;

/**
 * A key-value store through which the ranks of a world find each other, once.
 *
 * Threads: every function may be called on one store from several threads at once.
 * Lifetime: it may be destroyed as soon as the worlds that it serves are created on all ranks.
 *
 * A program that `collect run` starts needs none: `collect_world_create_from_env` opens it. Others:
 *
 * ```c
 * collect_store *store = NULL;
 * collect_world *world = NULL;
 * collect_status status = collect_store_open("file:///shared/run-17", 0, &store);
 * if (status == COLLECT_OK) status = collect_world_create(store, rank, size, NULL, &world);
 * collect_store_destroy(store); // not needed any more
 * ```
 */
typedef struct collect_store collect_store;

/**
 * A fixed group of ranks that call collectives together, and this process's place in it.
 *
 * Threads: every function may be called on one world from several threads at once. Calls match by the
 * order in which they start on each rank, or by the keys that their options give.
 * Lifetime: a world outlives the store that it was created through and the world that it was forked
 * from; a request keeps its world alive.
 *
 * A world is whole or failed. An error of `COLLECT_GROUP_WORLD` fails it, on every rank, for good; worlds
 * that were forked from it go on unless a rank of theirs is lost.
 */
typedef struct collect_world collect_world;

/**
 * What a status means for the caller: one of the `COLLECT_GROUP_` constants.
 * Programs that only want to know what to do next look at this, and not at the single errors.
 */
typedef int32_t collect_group;

/**
 * The outcome of a call: 0 is success, a negative number an error, a positive one neither.
 *
 * The numbers are part of the ABI: none is ever changed or used again. Later versions may add
 * some, so treat a negative number that you do not know as an error like the others;
 * `collect_status_group` tells what it means for you.
 *
 * ```c
 * collect_status status = collect_barrier(world, NULL, NULL);
 * if (status < 0) {
 *   fprintf(stderr, "%s: %s\n", collect_status_name(status), collect_last_error_message());
 *   if (collect_status_group(status) == COLLECT_GROUP_WORLD) {
 *     // Destroy the world, and create or fork another one with those ranks that are left.
 *   }
 * }
 * ```
 */
typedef int32_t collect_status;

/**
 * The type of one element: one of the constants from `COLLECT_I8` to `COLLECT_BOOL`.
 *
 * All ranks have the same byte order: elements travel as they are in memory.
 */
typedef int32_t collect_datatype;

/**
 * What a thread does while it waits: one of the `COLLECT_WAIT_` constants.
 */
typedef int32_t collect_wait;

/**
 * When connections are made: one of the `COLLECT_CONNECT_` constants.
 */
typedef int32_t collect_connect;

/**
 * Options of the functions that create a world. A field that is 0 or NULL has its default.
 */
typedef struct {
  /**
   * `sizeof(collect_world_options)`.
   */
  size_t struct_size;
  /**
   * The world's name, UTF-8, in messages and in the store's keys, equal on all ranks; NULL: "world".
   * Two worlds that one store serves at one time need different names.
   */
  const char *name;
  /**
   * Where this process listens: "address" or "address:port"; NULL: what the environment variable
   * LIBCOLLECT_LISTEN says, else every address and a port of the system's choice.
   */
  const char *listen;
  /**
   * How long an operation may take if its call does not say, and how long the creation may take, in
   * nanoseconds; 0: ten minutes; negative: for ever.
   */
  int64_t timeout_ns;
  /**
   * What threads do while they wait.
   * One of the `COLLECT_WAIT_` constants.
   */
  collect_wait wait;
  /**
   * When connections are made.
   * One of the `COLLECT_CONNECT_` constants.
   */
  collect_connect connect;
  /**
   * Which algorithm serves which call, as text: what `collect bench tune` writes. Rank 0's counts for all
   * ranks; another rank's must be the same, or NULL, else the creation fails. NULL: on rank 0, the file
   * that the environment variable LIBCOLLECT_TABLE names, else the library's own table. Before its lines
   * count those that LIBCOLLECT_ALGORITHM gives on rank 0, such as "allreduce=ring,alltoall=pairwise:16".
   */
  const char *table;
  /**
   * How often a rank that waits asks the ranks that it waits for whether they live, in nanoseconds; 0: every
   * 10 seconds; negative: never; at most every ms. One that says nothing for three times as long is lost
   * (`COLLECT_ERR_PEER_LOST`): its process is stopped, or its host cannot be reached.
   */
  int64_t heartbeat_ns;
  /**
   * How long `collect_world_destroy` of the last world of those that were forked from each other may wait
   * for what was sent to arrive, in nanoseconds; 0: one second; negative: until it has.
   */
  int64_t destroy_timeout_ns;
  /**
   * 1: every payload carries a checksum (CRC32C), which is compared before a byte of it counts; equal on all
   * ranks. It costs a copy of what comes in. TCP's own checksum finds most damage, but not all.
   */
  int32_t checksum;
  /**
   * 1: a signal that a thread handles while it waits for requests ends the wait with `COLLECT_INTERRUPTED`;
   * the operation goes on. 0: waits go on after a signal. Forks are as their parent.
   *
   * It ends `collect_request_wait`, `_wait_any` and `_wait_all` only. A call that blocks goes on: there would
   * be no handle left of what it began, so start the operation with a request, and wait for that. A signal
   * is noticed while the thread sleeps, not just before nor while it works on what has come. So a program
   * that must miss none waits in slices of time, and looks in between at what its handler has left:
   *
   * ```c
   * do
   *   status = collect_request_wait(request, 100000000); // 0.1 s
   * while (!stop && (status == COLLECT_IN_PROGRESS || status == COLLECT_INTERRUPTED));
   * ```
   *
   * A thread that waits does not spin for longer than 50 us then, whatever `wait` says. (A process that was
   * stopped, and goes on, may see that as a signal.)
   */
  int32_t interruptible;
} collect_world_options;

/**
 * The caller's own allgather, for `collect_world_create_with_exchange`.
 *
 * Copies `bytes` bytes from `mine` on every rank to `all` on every rank, which has room for the size of
 * the world times `bytes` and receives them in the order of the ranks. Returns 0, or another number if
 * it failed, which ends the creation here with `COLLECT_ERR_STORE`. `user` is what the creator passed.
 *
 * The thread that creates the world calls it, before the creation returns. It must not throw, nor
 * `longjmp`.
 */
typedef int32_t (*collect_exchange_fn)(void *user, const void *mine, size_t bytes, void *all);

/**
 * Options of `collect_world_fork`. A field that is 0 or NULL has its default.
 *
 * ```c
 * const int32_t even[] = {0, 2, 4, 6};
 * collect_fork_options options;
 * memset(&options, 0, sizeof options);
 * options.struct_size = sizeof options;
 * options.members = even;
 * options.members_count = 4;
 * if (rank % 2 == 0) status = collect_world_fork(world, &options, &fork);
 * ```
 */
typedef struct {
  /**
   * `sizeof(collect_fork_options)`.
   */
  size_t struct_size;
  /**
   * The fork's name, UTF-8, in messages, equal on all members; NULL: the parent's with a number.
   */
  const char *name;
  /**
   * The parent's ranks that become members, in the order of their new ranks, equal on all members;
   * NULL: all ranks. A rank that is not listed does not call.
   */
  const int32_t *members;
  /**
   * How many ranks `members` has; 0 if it is NULL.
   */
  size_t members_count;
  /**
   * How long an operation of the fork may take if its call does not say, and how long the fork itself
   * may take, in nanoseconds; 0: as the parent; negative: for ever.
   */
  int64_t timeout_ns;
  /**
   * If `has_key` is 1: forks of the same members with equal keys match, whatever their order among others.
   * Any number is a key, 0 too. Uses of one key match in their order.
   */
  uint64_t key;
  /**
   * 1: `key` is set. 0: forks of the same members match in the order of the calls.
   */
  int32_t has_key;
  /**
   * Must be 0.
   * Anything else is `COLLECT_ERR_UNSUPPORTED`.
   */
  int32_t reserved;
} collect_fork_options;

/**
 * How elements are reduced: one of the constants from `COLLECT_SUM` to `COLLECT_CUSTOM`.
 *
 * Every rank gets the same bits, also of floats, whose result depends on the order of the operands: that
 * order is fixed by the algorithm, the count and the size of the world.
 */
typedef int32_t collect_op;

/**
 * How a collective is done: one of the `COLLECT_ALGORITHM_` constants. One that does not serve the
 * collective is an error.
 */
typedef int32_t collect_algorithm;

/**
 * Options of a collective or a message. A field that is 0 or NULL has its default.
 *
 * ```c
 * collect_call_options options;
 * memset(&options, 0, sizeof options);
 * options.struct_size = sizeof options;
 * options.timeout_ns = 5000000000; // 5 seconds
 * status = collect_barrier(world, &options, NULL);
 * ```
 *
 * Threads that finish their work in any order call on one world, each with the key of its piece of work:
 *
 * ```c
 * options.key = layer;
 * options.has_key = 1;
 * status = collect_allreduce(world, x, x, n, COLLECT_F32, COLLECT_SUM, &options, NULL);
 * ```
 *
 * An average that weighs each rank by the samples that it has seen:
 *
 * ```c
 * options.factor = (double)samples_here / samples_in_all;
 * status = collect_allreduce(world, x, x, n, COLLECT_F32, COLLECT_PREMUL_SUM, &options, NULL);
 * ```
 */
typedef struct {
  /**
   * `sizeof(collect_call_options)`.
   */
  size_t struct_size;
  /**
   * How long the operation may take, in nanoseconds; 0: as the world says; negative: for ever. When it
   * passes, the world fails.
   */
  int64_t timeout_ns;
  /**
   * The algorithm, equal on all ranks.
   * One of the `COLLECT_ALGORITHM_` constants.
   */
  collect_algorithm algorithm;
  /**
   * Must be 0.
   * Anything else is `COLLECT_ERR_UNSUPPORTED`.
   */
  int32_t reserved;
  /**
   * If `has_key` is 1: calls with equal keys match, whatever their order among others.
   *
   * Threads that share a world without an order among their calls pass keys. Any number is a key, 0 too. A
   * key may be used again and again: its uses match in their order on each rank. Calls with keys and calls
   * without do not disturb each other's order. Messages have tags in the place of keys.
   */
  uint64_t key;
  /**
   * 1: `key` is set. 0: calls match in the order in which they are made.
   */
  int32_t has_key;
  /**
   * The parameter of `algorithm`, equal on all ranks: of `COLLECT_ALGORITHM_KNOMIAL` the k, of
   * `COLLECT_ALGORITHM_PAIRWISE` the messages at once. 0: the algorithm's default.
   */
  int32_t degree;
  /**
   * What `COLLECT_PREMUL_SUM` multiplies this rank's elements by. Ranks may differ in it.
   *
   * Of integers, a whole number. 0 is a factor too: it leaves this rank out of the sum.
   */
  double factor;
  /**
   * The reduction that `COLLECT_CUSTOM` does.
   * Must be NULL with every other operation.
   */
  collect_reduction *reduction;
  /**
   * Where the call is recorded, in the place of being made; `collect_batch_start` makes it.
   * With a batch, `request` must be NULL.
   */
  collect_batch *batch;
} collect_call_options;

/**
 * What combines elements, for `collect_reduction_create`.
 *
 * For each i below `count` it combines element i of `left` with element i of `right`, in this order, into
 * element i of `result`. The three do not overlap, and begin at addresses that are multiples of 16. What
 * `result` holds before is unspecified. `user` is what was passed to `collect_reduction_create`.
 *
 * How a buffer is cut into such runs is the library's choice: a run may be of one element, or of some
 * kilobytes. The result must depend on the elements alone.
 *
 * Threads: it runs on whichever thread drives the endpoint just then: one that is inside a blocking call or
 * a wait of any world that shares its connections, or the library's own. It may run on several threads at
 * once where several endpoints use it. The library holds no lock meanwhile. It must not call the library,
 * nor throw, nor `longjmp`, and should not wait: no operation advances until it returns.
 */
typedef void (*collect_reduction_fn)(void *user,
                                     const void *left,
                                     const void *right,
                                     void *result,
                                     size_t count);

/**
 * What releases the `user` of a reduction, for `collect_reduction_create`.
 *
 * It is called once, when the reduction has been destroyed and no operation or batch uses it any more, on
 * the thread that gave it up last, which may be the library's own. It must not call the library, nor throw,
 * nor `longjmp`.
 */
typedef void (*collect_free_fn)(void *user);

/**
 * What `collect_request_on_complete` calls at the end of an operation.
 *
 * `user` is what was passed there, `status` what the operation ended with. After an error, `message` is its
 * text, else it is empty; it stays valid until the function returns or has a call of its own that fails.
 *
 * It must not throw, nor `longjmp`.
 */
typedef void (*collect_complete_fn)(void *user, collect_status status, const char *message);

/**
 * The call did what was asked.
 */
#define COLLECT_OK 0

/**
 * Not an error: the operation of the request has not ended yet.
 * Ask again with `collect_request_test`, or wait with `collect_request_wait`.
 */
#define COLLECT_IN_PROGRESS 1

/**
 * Not an error: a signal has ended the wait. The operation goes on; wait again when the signal is dealt with.
 * Only of waits for requests, in worlds whose option `interruptible` is set.
 */
#define COLLECT_INTERRUPTED 2

/**
 * The caller broke a stated precondition (NULL, an unknown constant, a buffer that is too small).
 * Nothing happened.
 * The text names the argument and what it must be.
 */
#define COLLECT_ERR_INVALID_ARGUMENT -1

/**
 * The request is valid, but this library, build or host cannot serve it. Nothing happened.
 * Also what a program gets that sets an option which this library is too old to know.
 */
#define COLLECT_ERR_UNSUPPORTED -2

/**
 * Descriptors, memory or another bounded resource ran out. The call had no effect.
 * The text says which limit to raise. Only an operation that could not make a connection for want of a
 * descriptor has failed its world: then `collect_world_error` gives this too.
 */
#define COLLECT_ERR_RESOURCE -3

/**
 * A system call failed. No world was affected.
 * The text names the call, what it was about, and why the system refused.
 */
#define COLLECT_ERR_SYSTEM -4

/**
 * The store failed, cannot be reached, or serves another run. No world was affected.
 * The text has the key or the address. Once the store is mended, the call may be made again.
 */
#define COLLECT_ERR_STORE -5

/**
 * This process came by fork(2) from the one that owns the handle. Nothing happened.
 * The parent is not disturbed. A child that is to communicate creates a world of its own.
 */
#define COLLECT_ERR_FORKED -6

/**
 * A time-out passed. If it was an operation's, its world has failed, and `collect_last_error_rank` has the rank
 * that everybody waited for, if one is known.
 * A rank that waits itself is not blamed: the chain of those that wait is followed to its end. The text says
 * what this rank waited for, from which ranks, and how far they had come.
 */
#define COLLECT_ERR_TIMED_OUT -7

/**
 * Ranks called different operations, or the same one with different arguments. The world has
 * failed; the text has both sides.
 * A mistake in the program: ranks must call the same operations in the same order. No buffer holds data
 * of the wrong operation.
 */
#define COLLECT_ERR_MISMATCH -8

/**
 * A rank of the world is gone. The world has failed; `collect_last_error_rank` has the rank.
 * Its process has ended, or its host cannot be reached. Every rank that is left gets this error.
 */
#define COLLECT_ERR_PEER_LOST -9

/**
 * The world was aborted, here or on another rank; the text has the reason. The world has failed.
 * By `collect_world_abort`.
 */
#define COLLECT_ERR_ABORTED -10

/**
 * A bug in libcollect. The world, if the call was on one, has failed. Please report the text.
 * The library stays usable: worlds that are not its forks go on.
 */
#define COLLECT_ERR_INTERNAL -11

/**
 * No error.
 */
#define COLLECT_GROUP_NONE 0

/**
 * The caller's mistake: nothing happened. Mend the program.
 */
#define COLLECT_GROUP_CALLER 1

/**
 * This call failed; the world, if there is one, is still whole. The call may be made again.
 */
#define COLLECT_GROUP_CALL 2

/**
 * The world, if the call was on one, has failed: every later call on it gets the same error.
 * Destroy it and create another.
 */
#define COLLECT_GROUP_WORLD 3

/**
 * A signed integer of 8 bits.
 * In C, `int8_t`.
 */
#define COLLECT_I8 1

/**
 * An unsigned integer of 8 bits; also for plain bytes.
 * In C, `uint8_t`.
 */
#define COLLECT_U8 2

/**
 * A signed integer of 16 bits.
 * In C, `int16_t`.
 */
#define COLLECT_I16 3

/**
 * An unsigned integer of 16 bits.
 * In C, `uint16_t`.
 */
#define COLLECT_U16 4

/**
 * A signed integer of 32 bits.
 * In C, `int32_t`.
 */
#define COLLECT_I32 5

/**
 * An unsigned integer of 32 bits.
 * In C, `uint32_t`.
 */
#define COLLECT_U32 6

/**
 * A signed integer of 64 bits.
 * In C, `int64_t`.
 */
#define COLLECT_I64 7

/**
 * An unsigned integer of 64 bits.
 * In C, `uint64_t`.
 */
#define COLLECT_U64 8

/**
 * An IEEE 754 float of 16 bits (binary16).
 */
#define COLLECT_F16 9

/**
 * The upper half of an IEEE 754 float of 32 bits (bfloat16).
 */
#define COLLECT_BF16 10

/**
 * An IEEE 754 float of 32 bits (binary32).
 * In C, `float`.
 */
#define COLLECT_F32 11

/**
 * An IEEE 754 float of 64 bits (binary64).
 * In C, `double`.
 */
#define COLLECT_F64 12

/**
 * A float of 8 bits, 4 of them the exponent (OCP E4M3, elsewhere `e4m3fn`).
 * It has no infinity: what is too large becomes NaN. Sums are made in f32 and rounded when they are stored.
 */
#define COLLECT_F8E4M3 13

/**
 * A float of 8 bits, 5 of them the exponent (OCP E5M2).
 * What is too large becomes infinity. Sums are made in f32 and rounded when they are stored.
 */
#define COLLECT_F8E5M2 14

/**
 * A truth value of one byte: 0 is false, anything else is true; what is reduced is 0 or 1.
 * In C, `bool`. Sum and max are "or", prod and min are "and".
 */
#define COLLECT_BOOL 15

/**
 * The sum; integers wrap around.
 */
#define COLLECT_SUM 1

/**
 * The product; integers wrap around.
 */
#define COLLECT_PROD 2

/**
 * The smaller one; NaN if either is.
 */
#define COLLECT_MIN 3

/**
 * The larger one; NaN if either is.
 */
#define COLLECT_MAX 4

/**
 * The sum divided by the number of contributions; for integers, rounded towards zero after the sum has
 * wrapped around.
 * Divides by the size of the world; for several buffers per rank, by the number of all buffers. With
 * `COLLECT_BOOL`, `COLLECT_ERR_INVALID_ARGUMENT`.
 */
#define COLLECT_AVG 5

/**
 * Bitwise and; not of floats.
 * With floats, `COLLECT_ERR_INVALID_ARGUMENT`.
 */
#define COLLECT_BAND 6

/**
 * Bitwise or; not of floats.
 * With floats, `COLLECT_ERR_INVALID_ARGUMENT`.
 */
#define COLLECT_BOR 7

/**
 * Bitwise exclusive or; not of floats.
 * With floats, `COLLECT_ERR_INVALID_ARGUMENT`.
 */
#define COLLECT_BXOR 8

/**
 * The sum of the elements, each multiplied before by a factor that its rank gives.
 * With `COLLECT_BOOL`, `COLLECT_ERR_INVALID_ARGUMENT`.
 */
#define COLLECT_PREMUL_SUM 9

/**
 * What the caller's own function makes of them.
 * The elements may be of any size; the function must be associative.
 */
#define COLLECT_CUSTOM 10

/**
 * The default: looks for some tens of microseconds, then sleeps.
 * Where ranks outnumber processors, it yields instead of looking without a pause.
 */
#define COLLECT_WAIT_ADAPTIVE 0

/**
 * Never sleeps: the lowest latency, one busy processor per waiting thread.
 * Only where each such thread has a processor of its own.
 */
#define COLLECT_WAIT_SPIN 1

/**
 * Sleeps at once: the fewest processor cycles.
 * For programs that compute on all processors meanwhile.
 */
#define COLLECT_WAIT_BLOCK 2

/**
 * The default: on first use.
 * The first operations are slower, and only connections that are used exist.
 */
#define COLLECT_CONNECT_LAZY 0

/**
 * All of them when the world is created.
 * The creation is slower, and ranks that cannot reach each other show at once.
 */
#define COLLECT_CONNECT_EAGER 1

/**
 * The default: the library chooses by collective, size and bytes.
 * All ranks choose the same.
 */
#define COLLECT_ALGORITHM_AUTO 0

/**
 * Each rank talks to its two neighbours: the most bandwidth, for large buffers.
 * In p ranks, 2(p-1) steps of an allreduce; each rank sends 2(p-1)/p times its buffer. Half of each for
 * allgather and reduce_scatter.
 */
#define COLLECT_ALGORITHM_RING 1

/**
 * Each rank sends to each that needs it: the lowest latency, for small buffers and few ranks.
 * In p ranks, one step; of an allreduce each rank sends p-1 times its buffer. Of gathers and scatters each
 * part goes straight where it belongs. Operands are combined in rank order.
 */
#define COLLECT_ALGORITHM_DIRECT 2

/**
 * Recursive doubling: logarithmic latency, for small allreduces and scans of many ranks.
 * In p ranks, log2(p) steps, each with the whole buffer. Operands are combined in rank order.
 */
#define COLLECT_ALGORITHM_DOUBLING 3

/**
 * A binomial tree, for broadcast, reduce, gather and scatter.
 * In p ranks, log2(p) steps; no rank sends more than log2(p) times the buffer, of gathers and scatters no
 * more than the parts of the ranks below it.
 */
#define COLLECT_ALGORITHM_BINOMIAL 4

/**
 * Dissemination, for barriers.
 * In p ranks, log2(p) steps of one byte.
 */
#define COLLECT_ALGORITHM_DISSEMINATION 5

/**
 * Circulant, for allreduce, allgather and reduce_scatter.
 * In p ranks, of any number, log2(p) steps for each half; a rank sends as much as in a ring.
 */
#define COLLECT_ALGORITHM_CIRCULANT 6

/**
 * Halving, then doubling (Rabenseifner), for large allreduces of few ranks.
 * In p ranks, 2 log2(p) steps; a rank sends as much as in a ring, where p is a power of two.
 */
#define COLLECT_ALGORITHM_RABENSEIFNER 7

/**
 * As Rabenseifner's, with the nearest partner first.
 * Operands are combined in rank order.
 */
#define COLLECT_ALGORITHM_HALVING 8

/**
 * A k-nomial tree: flatter than the binomial one, for small buffers. The option `degree` is k.
 * For broadcast, reduce and allreduce.
 * In p ranks, log(p) steps to the base k, of k-1 messages each. Operands are combined in rank order.
 */
#define COLLECT_ALGORITHM_KNOMIAL 9

/**
 * A chain of all ranks, through which the data flows in segments: for large broadcasts, reduces and scans.
 * In p ranks, p-1 steps at once; a rank sends its buffer once. Operands are combined in rank order.
 */
#define COLLECT_ALGORITHM_CHAIN 10

/**
 * Bruck's, for alltoall of small parts.
 * In p ranks, log2(p) steps of half the buffer.
 */
#define COLLECT_ALGORITHM_BRUCK 11

/**
 * Each pair of ranks exchanges its part, for alltoall and alltoallv.
 * In p ranks, p-1 messages of a part; as many as the option `degree` says are under way to a rank at once.
 */
#define COLLECT_ALGORITHM_PAIRWISE 12

/**
 * Parallel aggregated trees, for allgather and reduce_scatter.
 * In p ranks, of any number, log2(p) steps; a rank sends as much as in a ring.
 */
#define COLLECT_ALGORITHM_PAT 13

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the loaded library: `major << 16 | minor << 8 | patch`.
 *
 * A library serves every program that was built with a header of the same major version and no later
 * minor version. Compare it with `COLLECT_VERSION_NUMBER` when you load the library by hand:
 *
 * ```c
 * const uint32_t loaded = collect_version_number();
 * int serves_us = loaded >> 16 == COLLECT_VERSION_MAJOR &&
 *                 (loaded >> 8 & 0xff) >= COLLECT_VERSION_MINOR;
 * ```
 *
 * Never fails.
 */
COLLECT_API
uint32_t collect_version_number(void);

/**
 * What `status` means for the caller.
 *
 * Never fails. A negative number that is no status is taken for the worst, `COLLECT_GROUP_WORLD`.
 */
COLLECT_API collect_group collect_status_group(collect_status status);

/**
 * The name of `status`, as "COLLECT_ERR_PEER_LOST".
 *
 * Never fails, and never returns NULL; for a number that is no status, it is "unknown collect_status". The
 * string is static: it is not freed, and stays valid as long as the process lives.
 */
COLLECT_API
const char *collect_status_name(collect_status status);

/**
 * The text of this thread's last failed call: never NULL, empty before the first failure.
 *
 * It says what failed, where (world, operation, rank, address) and what to do, in UTF-8 of at most 1023
 * bytes, cut between characters. The pointer is not freed, and stays valid while the thread lives; the
 * thread's next failure overwrites the text, a success leaves it.
 *
 * ```c
 * fprintf(stderr, "allreduce: %s\n", collect_last_error_message());
 * ```
 */
COLLECT_API
const char *collect_last_error_message(void);

/**
 * Tells which rank was at fault in this thread's last failed call, in the world of that call.
 *
 * After `COLLECT_ERR_PEER_LOST` that is the rank that was lost. After `COLLECT_ERR_TIMED_OUT` it is the rank
 * that everybody waited for: one that has not called the operation, or does not answer. -1 where no single
 * rank is at fault or none is known, after every other failure, and before the first.
 *
 * ```c
 * int32_t culprit = -1;
 * if (collect_status_group(status) == COLLECT_GROUP_WORLD &&
 *     collect_last_error_rank(&culprit) == COLLECT_OK && culprit >= 0)
 *   printf("without rank %d\n", (int)culprit);
 * ```
 *
 * # Safety
 *
 * - `rank`: writable, receives the rank; NULL is an error, which is then the last one itself.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_last_error_rank(int32_t *rank);

/**
 * Tells the size of one element of a type.
 *
 * Errors:
 *
 * - `COLLECT_ERR_INVALID_ARGUMENT`: `type` is no type.
 *
 * # Safety
 *
 * - `bytes`: writable, receives the size, in bytes; NULL is an error.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_datatype_size(collect_datatype type,
                                     size_t *bytes);

/**
 * Opens a store that other processes can open, too.
 *
 * - "file:///directory" or "file:directory": a directory that all ranks share, on one host or on a network
 *   file system. It is created if it is missing.
 * - "tcp://host:port": a server, as `collect run` starts one. The token that it asks for is taken from the
 *   environment variable LIBCOLLECT_STORE_TOKEN.
 * - NULL: what the environment variable LIBCOLLECT_STORE names, which `collect run` sets.
 *
 * Nothing in a URL is decoded. Gives up after `timeout_ns` nanoseconds; 0: ten minutes; negative: for ever.
 *
 * Errors:
 *
 * - `COLLECT_ERR_INVALID_ARGUMENT`: the URL has no known form, or is NULL and the variable is not set.
 * - `COLLECT_ERR_STORE`: the directory cannot be made or written to, or the server refuses.
 * - `COLLECT_ERR_TIMED_OUT`: the server cannot be reached in time.
 * - `COLLECT_ERR_RESOURCE`: there is no descriptor or memory left.
 *
 * # Safety
 *
 * - `url`: NULL, or a string.
 * - `store`: writable, receives a store that the caller destroys; NULL is an error.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_store_open(const char *url,
                                  int64_t timeout_ns,
                                  collect_store **store);

/**
 * Serves an empty store from this process, over TCP.
 *
 * `address` is an IP address and a port, "10.0.0.7:4711" (an IPv6 one in brackets); port 0 is any free one. Other processes
 * open the URL that `collect_store_url` tells. If the environment variable LIBCOLLECT_STORE_TOKEN is set here,
 * they need the same. Rank 0 often does this, and tells the others the URL by whatever started them.
 *
 * The store is served until it is destroyed, by one thread however many use it. `collect store` does the
 * same in a process of its own.
 *
 * ```c
 * collect_status status = collect_store_serve("10.0.0.7:0", &store);
 * if (status == COLLECT_OK) tell_the_others(collect_store_url(store));
 * ```
 *
 * Errors:
 *
 * - `COLLECT_ERR_INVALID_ARGUMENT`: the address is not of that form.
 * - `COLLECT_ERR_STORE`: it cannot be listened at; somebody else does, perhaps.
 * - `COLLECT_ERR_RESOURCE`: there is no descriptor, thread or memory left.
 *
 * # Safety
 *
 * - `address`: a string; NULL is an error.
 * - `store`: writable, receives a store that the caller destroys; NULL is an error.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_store_serve(const char *address,
                                   collect_store **store);

/**
 * The URL under which other processes open a store: a string that lives as long as the handle.
 *
 * NULL for a store in memory, and if `store` is NULL.
 *
 * # Safety
 *
 * - `store`: NULL or live.
 */
COLLECT_API const char *collect_store_url(collect_store *store);

/**
 * Creates an empty store in this process's memory.
 *
 * It serves worlds whose ranks are threads of this process, and tests. All of them use this one handle.
 *
 * # Safety
 *
 * - `store`: writable, receives a store that the caller destroys; NULL is an error.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_store_create_hash(collect_store **store);

/**
 * Sets a key, whatever it held.
 *
 * A key is a text of 1 to 1024 bytes, a value has at most 16 MiB. Gives up after `timeout_ns`
 * nanoseconds; 0: ten minutes; negative: for ever.
 *
 * Programs may keep values of their own in a store, beside what the library keeps there:
 *
 * ```c
 * if (rank == 0) status = collect_store_set(store, "model", path, strlen(path), 0);
 * ```
 *
 * Errors:
 *
 * - `COLLECT_ERR_INVALID_ARGUMENT`: the key is empty or too long, or the value too large.
 * - `COLLECT_ERR_STORE`, `COLLECT_ERR_TIMED_OUT`: the store cannot be reached in time, or refuses.
 *
 * # Safety
 *
 * - `store`: live; NULL is an error.
 * - `key`: a string; NULL is an error.
 * - `value`: readable for `bytes` bytes; NULL is an error unless `bytes` is 0.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_store_set(collect_store *store,
                                 const char *key,
                                 const void *value,
                                 size_t bytes,
                                 int64_t timeout_ns);

/**
 * Waits until a key exists, and copies its value.
 *
 * Gives up after `timeout_ns` nanoseconds; 0: ten minutes; negative: for ever. The key stays.
 *
 * Errors, after which neither `buffer` nor `*bytes` is written:
 *
 * - `COLLECT_ERR_INVALID_ARGUMENT`: the buffer is too small; the text has the size that it needs.
 * - `COLLECT_ERR_TIMED_OUT`: nobody has set the key in time; the text names it.
 * - `COLLECT_ERR_STORE`: the store cannot be reached, or refuses.
 *
 * ```c
 * char path[256];
 * size_t bytes = 0;
 * status = collect_store_get(store, "model", 0, path, sizeof path, &bytes);
 * ```
 *
 * # Safety
 *
 * - `store`: live; NULL is an error.
 * - `key`: a string; NULL is an error.
 * - `buffer`: writable for `capacity` bytes; NULL is an error unless `capacity` is 0.
 * - `bytes`: writable, receives the value's size; NULL is an error.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_store_get(collect_store *store,
                                 const char *key,
                                 int64_t timeout_ns,
                                 void *buffer,
                                 size_t capacity,
                                 size_t *bytes);

/**
 * Counts the operations that went to the store through this handle.
 *
 * Those that created worlds are among them: a clean start must make few. A get counts once, however long
 * it waits.
 *
 * # Safety
 *
 * - `store`: live; NULL is an error.
 * - `operations`: writable, receives their number; NULL is an error.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_store_operations(collect_store *store,
                                        uint64_t *operations);

/**
 * Counts the bytes of values that were read from the store through this handle.
 *
 * They must not grow with the square of the number of ranks, nor, for most ranks, with the number.
 *
 * # Safety
 *
 * - `store`: live; NULL is an error.
 * - `bytes`: writable, receives their number; NULL is an error.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_store_bytes_read(collect_store *store,
                                        uint64_t *bytes);

/**
 * Destroys a store. What it holds stays for others, except that a store in memory is gone.
 *
 * Worlds that were created through it do not need it any more. Calls on it that other threads are inside
 * of end as if it were there.
 *
 * # Safety
 *
 * - `store`: live, and not used again; NULL does nothing.
 */
COLLECT_API
void collect_store_destroy(collect_store *store);

/**
 * Creates a world of `size` ranks that find each other through a store; this process is rank `rank`.
 *
 * Every rank calls this once, with its own rank, from 0 to size - 1, and with the same size and name. It
 * returns when all have come. The store is not used afterwards, and its keys are removed. One process may
 * hold several ranks, each created on a thread of its own.
 *
 * ```c
 * collect_world_options options;
 * memset(&options, 0, sizeof options);
 * options.struct_size = sizeof options;
 * options.timeout_ns = 30000000000; // 30 seconds
 * collect_status status = collect_world_create(store, rank, size, &options, &world);
 * ```
 *
 * Errors:
 *
 * - `COLLECT_ERR_INVALID_ARGUMENT`: the rank is not below the size, or an option has no such value.
 * - `COLLECT_ERR_TIMED_OUT`: ranks did not come in time; the text names them.
 * - `COLLECT_ERR_STORE`: the store failed, or serves another world of this name.
 * - `COLLECT_ERR_MISMATCH`: ranks disagree about the size, the options or the version.
 * - `COLLECT_ERR_RESOURCE`, `COLLECT_ERR_SYSTEM`: this host gives no descriptor, port or thread.
 *
 * # Safety
 *
 * - `store`: live; NULL is an error.
 * - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
 * - `world`: writable, receives a world that the caller destroys; NULL is an error.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_world_create(collect_store *store,
                                    int32_t rank,
                                    int32_t size,
                                    const collect_world_options *options,
                                    collect_world **world);

/**
 * Creates a world as the launcher says.
 *
 * `collect run` sets these environment variables for the processes that it starts, and other launchers can
 * do the same:
 *
 * - LIBCOLLECT_RANK, LIBCOLLECT_SIZE: the rank of this process, and the number of ranks.
 * - LIBCOLLECT_STORE: a URL as for `collect_store_open`.
 * - LIBCOLLECT_STORE_TOKEN: the token of that store, if it asks for one.
 *
 * Errors: as `collect_store_open` and `collect_world_create`, and
 *
 * - `COLLECT_ERR_INVALID_ARGUMENT`: a variable is missing, or is no number; the text names it.
 *
 * ```c
 * collect_world *world = NULL;
 * if (collect_world_create_from_env(NULL, &world) != COLLECT_OK) {
 *   fprintf(stderr, "%s\n", collect_last_error_message());
 *   return 1;
 * }
 * ```
 *
 * # Safety
 *
 * - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
 * - `world`: writable, receives a world that the caller destroys; NULL is an error.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_world_create_from_env(const collect_world_options *options,
                                             collect_world **world);

/**
 * Creates a world without a store: the ranks find each other through the caller's own allgather (of MPI,
 * of a framework, over pipes).
 *
 * The function gets `user`, and records of 1024 bytes. This thread calls it, before this function returns:
 * once where the addresses of each rank fit a record, else more often, but as often on every rank; never
 * in a world of one rank, nor if an argument is wrong.
 *
 * ```c
 * static int32_t exchange(void *user, const void *mine, size_t bytes, void *all) {
 *   MPI_Comm *comm = (MPI_Comm *)user;
 *   return MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, *comm);
 * }
 * ```
 *
 * Errors: as `collect_world_create`, and
 *
 * - `COLLECT_ERR_STORE`: the function returned another number than 0, or did not fill its table.
 *
 * # Safety
 *
 * - `exchange`: does what its type says with `user`; NULL is an error.
 * - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
 * - `world`: writable, receives a world that the caller destroys; NULL is an error.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_world_create_with_exchange(collect_exchange_fn exchange,
                                                  void *user,
                                                  int32_t rank,
                                                  int32_t size,
                                                  const collect_world_options *options,
                                                  collect_world **world);

/**
 * Makes a new world of all ranks of `parent`, or of those that the options list.
 *
 * Each of them calls this; it returns when all have. It needs no store, no connection and no thread.
 * Forks of the same members match in the order of the calls, or by the keys that the options give; operations
 * of the parent may go on meanwhile. The two worlds are independent: each has an order of its own, and the fork may outlive the
 * parent.
 *
 * A fork that fails does not fail its parent, though its error may be of `COLLECT_GROUP_WORLD`.
 *
 * Errors:
 *
 * - `COLLECT_ERR_INVALID_ARGUMENT`: the list names a rank twice, one that is not there, or not this rank.
 * - `COLLECT_ERR_MISMATCH`: the members disagree about the list or the name.
 * - `COLLECT_ERR_TIMED_OUT`: members did not come in time; the text names them.
 * - `COLLECT_ERR_PEER_LOST`: a member is gone.
 * - The parent's failure, if it has failed.
 *
 * ```c
 * collect_world *fork = NULL;
 * status = collect_world_fork(world, NULL, &fork); // for the threads that load data
 * ```
 *
 * # Safety
 *
 * - `parent`: live; NULL is an error.
 * - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
 * - `world`: writable, receives a world that the caller destroys; NULL is an error.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_world_fork(collect_world *parent,
                                  const collect_fork_options *options,
                                  collect_world **world);

/**
 * Tells this process's rank in the world.
 *
 * Ranks are numbered from 0 to size - 1.
 *
 * # Safety
 *
 * - `world`: live; NULL is an error.
 * - `rank`: writable, receives the rank; NULL is an error.
 */
COLLECT_API COLLECT_MUST_USE collect_status collect_world_rank(collect_world *world, int32_t *rank);

/**
 * Tells the number of ranks in the world.
 *
 * It never changes.
 *
 * # Safety
 *
 * - `world`: live; NULL is an error.
 * - `size`: writable, receives the size; NULL is an error.
 */
COLLECT_API COLLECT_MUST_USE collect_status collect_world_size(collect_world *world, int32_t *size);

/**
 * Tells this process's place among the world's ranks on its host.
 *
 * They are numbered from 0 in the order of their ranks: a number by which to choose a device.
 *
 * # Safety
 *
 * - `world`: live; NULL is an error.
 * - `local_rank`: writable, receives the place; NULL is an error.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_world_local_rank(collect_world *world,
                                        int32_t *local_rank);

/**
 * Tells the number of the world's ranks on this host.
 *
 * Ranks are on one host if they share its kernel and its network.
 *
 * # Safety
 *
 * - `world`: live; NULL is an error.
 * - `local_size`: writable, receives the number; NULL is an error.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_world_local_size(collect_world *world,
                                        int32_t *local_size);

/**
 * Tells this host's place among the hosts of the world.
 *
 * They are numbered from 0 in the order of their lowest ranks.
 *
 * # Safety
 *
 * - `world`: live; NULL is an error.
 * - `host_index`: writable, receives the place; NULL is an error.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_world_host_index(collect_world *world,
                                        int32_t *host_index);

/**
 * Tells the world's name, as it is in messages.
 *
 * The string is UTF-8, is not freed, and stays valid until the world is destroyed.
 *
 * # Safety
 *
 * - `world`: live; NULL is an error.
 * - `name`: writable, receives the string; NULL is an error.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_world_name(collect_world *world,
                                  const char **name);

/**
 * Tells without waiting whether, and why, the world has failed.
 *
 * Returns `COLLECT_OK` while it is whole, else the error that every call on it gets, whose text and rank
 * become the last error of this thread. Also for a program that has lost the text of an error that another
 * thread had.
 *
 * ```c
 * if (collect_world_error(world) != COLLECT_OK) puts(collect_last_error_message());
 * ```
 *
 * # Safety
 *
 * - `world`: live; NULL is an error.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_world_error(collect_world *world);

/**
 * Ends the world in failure on every rank.
 *
 * Operations under way, and all later calls, get `COLLECT_ERR_ABORTED` with this rank and the reason in
 * the text. Waits for no other rank, and may be called while other threads are inside. Worlds that were
 * forked from this one, and the one that it was forked from, go on. If the world has failed already, that
 * failure stays.
 *
 * Errors:
 *
 * - `COLLECT_ERR_INVALID_ARGUMENT`: the reason is not UTF-8.
 *
 * ```c
 * if (disk_is_full) status = collect_world_abort(world, "rank 3 cannot write its checkpoint");
 * ```
 *
 * # Safety
 *
 * - `world`: live; NULL is an error.
 * - `reason`: a string, or NULL.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_world_abort(collect_world *world,
                                   const char *reason);

/**
 * Destroys a world.
 *
 * This is not collective: other ranks notice only if they have, or start, operations with this one, which
 * fail with `COLLECT_ERR_PEER_LOST`. So let every rank complete what it started, and end with a barrier
 * where ranks do not know when the others are done. Requests that are not freed keep the world until they
 * are, and so do threads inside of calls on it: these go on, and end with their operations; the world is
 * left when the last of them has. To end them at once, abort the world first.
 *
 * The last world of those that were forked from each other closes the connections, and waits a moment for
 * what was sent to arrive: one second at most, unless the world's options say otherwise.
 *
 * # Safety
 *
 * - `world`: live, and not used again; NULL does nothing.
 */
COLLECT_API
void collect_world_destroy(collect_world *world);

/**
 * Reduces `count` elements of every rank's `send` into every rank's `recv`.
 *
 * Every rank calls it with the same count, type and operation, and all get the same bits. `send == recv`
 * works in place; else the two must not overlap. Any number of operations may be under way.
 *
 * With `request` NULL the call returns when the operation has ended. Else it returns at once, and both
 * buffers are lent until the operation has ended, which `collect_request_wait` tells:
 *
 * ```c
 * collect_request *request = NULL;
 * status = collect_allreduce(world, x, x, 1000, COLLECT_F32, COLLECT_SUM, NULL, &request);
 * if (status == COLLECT_OK) {
 *   compute_something_else();
 *   status = collect_request_wait(request, -1);
 *   collect_request_free(request);
 * }
 * ```
 *
 * Errors; with a request, those of the world may also come from it:
 *
 * - `COLLECT_ERR_INVALID_ARGUMENT`, `COLLECT_ERR_UNSUPPORTED`: nothing happened; the world is whole.
 * - `COLLECT_ERR_TIMED_OUT`: the operation took too long; the text names the ranks that were waited for.
 * - `COLLECT_ERR_MISMATCH`: another rank called something else; the text has both sides.
 * - `COLLECT_ERR_PEER_LOST`, `COLLECT_ERR_ABORTED`: a rank is gone, or has aborted the world.
 *
 * After the latter three kinds the world has failed, and what `recv` holds is unspecified.
 *
 * # Safety
 *
 * - `world`: live; NULL is an error.
 * - `send`: readable for `count` elements while it is lent; NULL is an error unless `count` is 0.
 * - `recv`: writable for `count` elements while it is lent; NULL is an error unless `count` is 0.
 * - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
 * - `request`: NULL to block; else writable, and receives a request that the caller frees.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_allreduce(collect_world *world,
                                 const void *send,
                                 void *recv,
                                 size_t count,
                                 collect_datatype type,
                                 collect_op op,
                                 const collect_call_options *options,
                                 collect_request **request);

/**
 * Reduces all buffers of all ranks: every buffer of every rank ends with the result.
 *
 * A rank has `buffers_count` buffers of `count` elements each (one per device or model replica, say): at
 * least 1 and at most 1024, as many on every rank, none overlapping another. `COLLECT_AVG` divides by the
 * number of buffers of all ranks together.
 *
 * Otherwise as `collect_allreduce`. The list itself is read before the call returns, the buffers are lent.
 *
 * Errors: as `collect_allreduce`.
 *
 * ```c
 * void *gradients[2] = {of_device_0, of_device_1};
 * status = collect_allreduce_multi(world, gradients, 2, 1000, COLLECT_F32, COLLECT_AVG, NULL, NULL);
 * ```
 *
 * # Safety
 *
 * - `world`: live; NULL is an error.
 * - `buffers`: `buffers_count` pointers, each writable for `count` elements while it is lent; NULL is an
 *   error, in the list unless `count` is 0.
 * - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
 * - `request`: NULL to block; else writable, and receives a request that the caller frees.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_allreduce_multi(collect_world *world,
                                       void *const *buffers,
                                       size_t buffers_count,
                                       size_t count,
                                       collect_datatype type,
                                       collect_op op,
                                       const collect_call_options *options,
                                       collect_request **request);

/**
 * Copies `count` elements of the `buffer` of rank `root` into the `buffer` of every other rank.
 *
 * Every rank calls it with the same count, type and root. With `request` NULL the call returns when this
 * rank's part has ended, which on the root may be before other ranks have come. Else it returns at once,
 * and the buffer is lent until the operation has ended.
 *
 * Errors: as `collect_allreduce`, and
 *
 * - `COLLECT_ERR_INVALID_ARGUMENT`: `root` is no rank of the world.
 *
 * ```c
 * status = collect_broadcast(world, weights, weights_count, COLLECT_F32, 0, NULL, NULL);
 * ```
 *
 * # Safety
 *
 * - `world`: live; NULL is an error.
 * - `buffer`: readable on the root, writable elsewhere, for `count` elements while it is lent; NULL is an
 *   error unless `count` is 0.
 * - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
 * - `request`: NULL to block; else writable, and receives a request that the caller frees.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_broadcast(collect_world *world,
                                 void *buffer,
                                 size_t count,
                                 collect_datatype type,
                                 int32_t root,
                                 const collect_call_options *options,
                                 collect_request **request);

/**
 * Reduces `count` elements of every rank's `send` into the `recv` of rank `root`.
 *
 * Every rank calls it with the same count, type, operation and root. On the root `send == recv` works in
 * place; else the two must not overlap. On other ranks `recv` is ignored and not touched: it may be NULL.
 * A rank's part may have ended before the root has its result: what others wait for is a barrier.
 *
 * A tree of ranks does it, log2(p) steps deep in p ranks: inner ranks reduce what their children send, in
 * scratch of the library, at most 512 KiB whatever the count. The root receives log2(p) times the buffer.
 *
 * A rank that is not the root passes what it likes as `recv`, its `send` included; nothing is written
 * there, so that one buffer may be lent to several such operations at one time.
 *
 * All results have the bits that the same world, inputs and root give on every run. They need not be those
 * of `collect_allreduce`, which may combine in another order.
 *
 * With `request` NULL the call returns when this rank's part has ended. Else it returns at once, and the
 * buffers are lent until the operation has ended.
 *
 * Errors: as `collect_allreduce`, and
 *
 * - `COLLECT_ERR_INVALID_ARGUMENT`: `root` is no rank of the world.
 *
 * ```c
 * status = collect_reduce(world, x, sum, 1000, COLLECT_F32, COLLECT_SUM, 0, NULL, NULL);
 * ```
 *
 * # Safety
 *
 * - `world`: live; NULL is an error.
 * - `send`: readable for `count` elements while it is lent; NULL is an error unless `count` is 0.
 * - `recv`: on the root writable for `count` elements while it is lent; NULL is an error there unless
 *   `count` is 0. Anything elsewhere.
 * - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
 * - `request`: NULL to block; else writable, and receives a request that the caller frees.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_reduce(collect_world *world,
                              const void *send,
                              void *recv,
                              size_t count,
                              collect_datatype type,
                              collect_op op,
                              int32_t root,
                              const collect_call_options *options,
                              collect_request **request);

/**
 * Ends when every rank of the world has called it.
 *
 * With `request` NULL the call returns then; else it returns at once, and the request ends then.
 *
 * Errors: as `collect_allreduce`.
 *
 * ```c
 * status = collect_barrier(world, NULL, NULL);
 * ```
 *
 * # Safety
 *
 * - `world`: live; NULL is an error.
 * - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
 * - `request`: NULL to block; else writable, and receives a request that the caller frees.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_barrier(collect_world *world,
                               const collect_call_options *options,
                               collect_request **request);

/**
 * Copies the `send` of every rank, one after the other by rank, into the `recv` of every rank.
 *
 * Every rank calls it with the same count and type. `send` has `count` elements, `recv` as many for each
 * rank of the world; rank r's elements begin at element `r * count`. In place where `send` is this rank's
 * part of `recv`; else the two must not overlap.
 *
 * The count is that of one rank, as in MPI and NCCL: `recv` needs room for the size of the world times as
 * many elements, and the size is what `collect_world_size` tells. Ranks that bring different counts get
 * `COLLECT_ERR_MISMATCH`.
 *
 * In place saves a copy, and the memory of `send`: each rank writes its own part of `recv` and passes the
 * address of that part as `send`. Ranks need not all do the same in this.
 *
 * Elements are moved, never changed: NaN payloads and padding bits arrive as they were.
 *
 * Up to 64 KiB of result take log2(p) steps in p ranks; beyond, p-1 steps in a ring, in which no rank
 * sends or receives more than the result once.
 *
 * With `request` NULL the call returns when the operation has ended. Else it returns at once, and both
 * buffers are lent until the operation has ended.
 *
 * Errors: as `collect_allreduce`.
 *
 * ```c
 * float mine[2] = {1, 2};
 * float all[2 * 4]; // in a world of 4 ranks
 * status = collect_allgather(world, mine, all, 2, COLLECT_F32, NULL, NULL);
 * ```
 *
 * # Safety
 *
 * - `world`: live; NULL is an error.
 * - `send`: readable for `count` elements while it is lent; NULL is an error unless `count` is 0.
 * - `recv`: writable for `count` elements of each rank while it is lent; NULL is an error unless `count`
 *   is 0.
 * - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
 * - `request`: NULL to block; else writable, and receives a request that the caller frees.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_allgather(collect_world *world,
                                 const void *send,
                                 void *recv,
                                 size_t count,
                                 collect_datatype type,
                                 const collect_call_options *options,
                                 collect_request **request);

/**
 * Copies the `send` of every rank into the `recv` of every rank, of a length of its own each.
 *
 * `counts` has an entry for each rank of the world: the elements that it brings. Every rank passes the same
 * counts, and a `send_count` that is its own entry. `displacements` has an entry for each rank, too: the
 * element of `recv` at which its part begins. NULL: the parts lie one after the other. Ranks may differ in
 * their displacements.
 *
 * In place where `send` is this rank's part of `recv`. Parts that overlap each other, or what is sent, are
 * refused. What lies between the parts is not touched.
 *
 * The lists are read before the call returns, and may be changed then, also if there is a request.
 *
 * No rank sends or receives more than the result once: p-1 steps in a ring of p ranks, or log2(p) steps in
 * trees where the result is small.
 *
 * Errors: as `collect_allreduce`. Ranks with other counts get `COLLECT_ERR_MISMATCH`, all of them.
 *
 * ```c
 * const size_t counts[] = {1, 2, 3}; // in a world of 3 ranks
 * float all[6];
 * status = collect_allgatherv(world, mine, counts[rank], all, counts, NULL, COLLECT_F32, NULL, NULL);
 * ```
 *
 *
 * # Safety
 *
 * - `world`: live; NULL is an error.
 * - `send`: readable for `send_count` elements while it is lent; NULL is an error unless `send_count` is 0.
 * - `recv`: writable for every part while it is lent; NULL is an error unless all counts are 0.
 * - `counts`: an entry for each rank; NULL is an error.
 * - `displacements`: an entry for each rank, or NULL.
 * - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
 * - `request`: NULL to block; else writable, and receives a request that the caller frees.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_allgatherv(collect_world *world,
                                  const void *send,
                                  size_t send_count,
                                  void *recv,
                                  const size_t *counts,
                                  const size_t *displacements,
                                  collect_datatype type,
                                  const collect_call_options *options,
                                  collect_request **request);

/**
 * Copies the `send` of every rank, one after the other by rank, into the `recv` of rank `root`.
 *
 * Every rank calls it with the same count, type and root. `send` has `count` elements; on the root `recv`
 * has as many for each rank of the world, and rank r's begin at element `r * count`. On other ranks `recv`
 * is ignored and not touched: it may be NULL.
 *
 * On the root it works in place where `send` is its part of `recv`; else the two must not overlap.
 *
 * A rank's part may have ended before the root has everything: what others wait for is a barrier.
 *
 * Small parts go up a tree of log2(p) steps in p ranks; large ones go to the root directly, some at a time,
 * so that it is not flooded.
 *
 * Errors: as `collect_allreduce`, and
 *
 * - `COLLECT_ERR_INVALID_ARGUMENT`: `root` is no rank of the world.
 *
 * ```c
 * float all[2 * 4]; // in a world of 4 ranks; only the root's is written
 * status = collect_gather(world, mine, all, 2, COLLECT_F32, 0, NULL, NULL);
 * ```
 *
 *
 * # Safety
 *
 * - `world`: live; NULL is an error.
 * - `send`: readable for `count` elements while it is lent; NULL is an error unless `count` is 0.
 * - `recv`: on the root writable for `count` elements of each rank while it is lent; NULL is an error there
 *   unless `count` is 0. Anything elsewhere.
 * - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
 * - `request`: NULL to block; else writable, and receives a request that the caller frees.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_gather(collect_world *world,
                              const void *send,
                              void *recv,
                              size_t count,
                              collect_datatype type,
                              int32_t root,
                              const collect_call_options *options,
                              collect_request **request);

/**
 * Copies the `send` of every rank into the `recv` of rank `root`, of a length of its own each.
 *
 * On the root `counts` has an entry for each rank of the world: the elements that it brings, which is its
 * `send_count`; and `displacements` the element of `recv` at which its part begins. NULL: the parts lie one
 * after the other. On other ranks `recv`, `counts` and `displacements` are ignored: they may be NULL.
 *
 * On the root it works in place where `send` is its part of `recv`. Parts that overlap each other, or what
 * is sent, are refused. What lies between the parts is not touched.
 *
 * The lists are read before the call returns.
 *
 * A rank that sends another length than the root expects of it is found when its message comes: both get
 * `COLLECT_ERR_MISMATCH`, and nothing is written.
 *
 * Errors: as `collect_gather`.
 *
 * ```c
 * status = collect_gatherv(world, mine, mine_count, all, counts, NULL, COLLECT_F32, 0, NULL, NULL);
 * ```
 *
 *
 * # Safety
 *
 * - `world`: live; NULL is an error.
 * - `send`: readable for `send_count` elements while it is lent; NULL is an error unless `send_count` is 0.
 * - `recv`: on the root writable for every part while it is lent; NULL is an error there unless all counts
 *   are 0. Anything elsewhere.
 * - `counts`: on the root an entry for each rank; NULL is an error there. Anything elsewhere.
 * - `displacements`: on the root an entry for each rank, or NULL. Anything elsewhere.
 * - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
 * - `request`: NULL to block; else writable, and receives a request that the caller frees.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_gatherv(collect_world *world,
                               const void *send,
                               size_t send_count,
                               void *recv,
                               const size_t *counts,
                               const size_t *displacements,
                               collect_datatype type,
                               int32_t root,
                               const collect_call_options *options,
                               collect_request **request);

/**
 * Cuts the `send` of rank `root` by rank, and copies one part into the `recv` of every rank.
 *
 * Every rank calls it with the same count, type and root. `recv` has `count` elements; on the root `send`
 * has as many for each rank of the world, and rank r's begin at element `r * count`. On other ranks `send`
 * is ignored: it may be NULL.
 *
 * On the root it works in place where `recv` is its part of `send`; else the two must not overlap.
 *
 * The root's part may have ended before other ranks have theirs.
 *
 * Small parts go down a tree of log2(p) steps in p ranks; large ones go from the root directly.
 *
 * Errors: as `collect_allreduce`, and
 *
 * - `COLLECT_ERR_INVALID_ARGUMENT`: `root` is no rank of the world.
 *
 * ```c
 * float all[2 * 4]; // in a world of 4 ranks; only the root's is read
 * status = collect_scatter(world, all, mine, 2, COLLECT_F32, 0, NULL, NULL);
 * ```
 *
 *
 * # Safety
 *
 * - `world`: live; NULL is an error.
 * - `send`: on the root readable for `count` elements of each rank while it is lent; NULL is an error there
 *   unless `count` is 0. Anything elsewhere.
 * - `recv`: writable for `count` elements while it is lent; NULL is an error unless `count` is 0.
 * - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
 * - `request`: NULL to block; else writable, and receives a request that the caller frees.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_scatter(collect_world *world,
                               const void *send,
                               void *recv,
                               size_t count,
                               collect_datatype type,
                               int32_t root,
                               const collect_call_options *options,
                               collect_request **request);

/**
 * Copies one part of the `send` of rank `root` into the `recv` of every rank, of a length of its own each.
 *
 * On the root `counts` has an entry for each rank of the world: the elements that it gets, which is its
 * `recv_count`; and `displacements` the element of `send` at which its part begins. NULL: the parts lie one
 * after the other. They may overlap: one part may go to several ranks. On other ranks `send`, `counts` and
 * `displacements` are ignored: they may be NULL.
 *
 * On the root it works in place where `recv` is its part of `send`; else the two must not overlap.
 *
 * The lists are read before the call returns.
 *
 * A rank that expects another length than the root sends is found when the message comes: both get
 * `COLLECT_ERR_MISMATCH`, and nothing is written.
 *
 * Errors: as `collect_scatter`.
 *
 * ```c
 * status = collect_scatterv(world, all, counts, NULL, mine, mine_count, COLLECT_F32, 0, NULL, NULL);
 * ```
 *
 *
 * # Safety
 *
 * - `world`: live; NULL is an error.
 * - `send`: on the root readable for every part while it is lent; NULL is an error there unless all counts
 *   are 0. Anything elsewhere.
 * - `counts`: on the root an entry for each rank; NULL is an error there. Anything elsewhere.
 * - `displacements`: on the root an entry for each rank, or NULL. Anything elsewhere.
 * - `recv`: writable for `recv_count` elements while it is lent; NULL is an error unless `recv_count` is 0.
 * - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
 * - `request`: NULL to block; else writable, and receives a request that the caller frees.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_scatterv(collect_world *world,
                                const void *send,
                                const size_t *counts,
                                const size_t *displacements,
                                void *recv,
                                size_t recv_count,
                                collect_datatype type,
                                int32_t root,
                                const collect_call_options *options,
                                collect_request **request);

/**
 * Exchanges parts of one length among all ranks: part i of rank j becomes part j of rank i.
 *
 * Every rank calls it with the same count and type. `send` and `recv` have `count` elements for each rank of
 * the world: those at element `r * count` of `send` go to rank r, those at element `r * count` of `recv` come
 * from it.
 *
 * `send == recv` works in place, with scratch of the library for a slice of a part; else the two must not
 * overlap.
 *
 * Small parts travel together, in log2(p) steps of half the buffer in p ranks; large ones go from each rank
 * to each directly, a few at a time.
 *
 * Errors: as `collect_allreduce`.
 *
 * ```c
 * int32_t send[4], recv[4]; // in a world of 4 ranks
 * for (int r = 0; r < 4; r++) send[r] = 10 * rank + r;
 * status = collect_alltoall(world, send, recv, 1, COLLECT_I32, NULL, NULL); // recv[r] is 10 * r + rank
 * ```
 *
 *
 * # Safety
 *
 * - `world`: live; NULL is an error.
 * - `send`: readable for `count` elements of each rank while it is lent; NULL is an error unless `count` is 0.
 * - `recv`: writable for `count` elements of each rank while it is lent; NULL is an error unless `count` is 0.
 * - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
 * - `request`: NULL to block; else writable, and receives a request that the caller frees.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_alltoall(collect_world *world,
                                const void *send,
                                void *recv,
                                size_t count,
                                collect_datatype type,
                                const collect_call_options *options,
                                collect_request **request);

/**
 * Exchanges parts among all ranks, of a length of its own each.
 *
 * The four lists have an entry for each rank r of the world: `send_counts[r]` elements from element
 * `send_displacements[r]` of `send` on go to rank r; `recv_counts[r]` elements from element
 * `recv_displacements[r]` of `recv` on come from it. Displacements that are NULL: the parts lie one after the
 * other. What one rank sends to another is as much as that one expects of it.
 *
 * `send == recv` works in place if counts and displacements of both sides are equal: each part is then
 * replaced by what comes from that rank. Else parts that are sent and parts that are received must not
 * overlap, nor the latter each other. The former may: one part may go to several ranks.
 *
 * The lists are read before the call returns.
 *
 * A pair of ranks that disagree about a length is found when the message comes: both get
 * `COLLECT_ERR_MISMATCH`, and nothing is written.
 *
 * Errors: as `collect_allreduce`.
 *
 * ```c
 * status = collect_alltoallv(world, send, send_counts, NULL, recv, recv_counts, NULL, COLLECT_F32, NULL, NULL);
 * ```
 *
 *
 * # Safety
 *
 * - `world`: live; NULL is an error.
 * - `send`: readable for every part while it is lent; NULL is an error unless all its counts are 0.
 * - `send_counts`, `recv_counts`: an entry for each rank; NULL is an error.
 * - `send_displacements`, `recv_displacements`: an entry for each rank, or NULL.
 * - `recv`: writable for every part while it is lent; NULL is an error unless all its counts are 0.
 * - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
 * - `request`: NULL to block; else writable, and receives a request that the caller frees.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_alltoallv(collect_world *world,
                                 const void *send,
                                 const size_t *send_counts,
                                 const size_t *send_displacements,
                                 void *recv,
                                 const size_t *recv_counts,
                                 const size_t *recv_displacements,
                                 collect_datatype type,
                                 const collect_call_options *options,
                                 collect_request **request);

/**
 * Reduces the `send` of all ranks, cuts the result by rank, and leaves one part in the `recv` of every rank.
 *
 * Every rank calls it with the same count, type and operation. `recv` has `count` elements, `send` as many
 * for each rank of the world: those at element `r * count` are reduced for rank r.
 *
 * The count is that of one rank, as in MPI's MPI_Reduce_scatter_block and in NCCL.
 *
 * In place where `recv` is this rank's part of `send`, as in NCCL; the rest of `send` is then not changed.
 * Else the two must not overlap.
 *
 * All results have the bits that the same world, algorithm and inputs give on every run. They need not be
 * those of `collect_allreduce`, which may combine in another order.
 *
 * No rank sends or receives more than its `send` once: p-1 steps in a ring of p ranks, or log2(p) steps in
 * trees where the buffer is small.
 *
 * Errors: as `collect_allreduce`.
 *
 * ```c
 * float all[2 * 4]; // in a world of 4 ranks
 * float mine[2];
 * status = collect_reduce_scatter(world, all, mine, 2, COLLECT_F32, COLLECT_SUM, NULL, NULL);
 * ```
 *
 *
 * # Safety
 *
 * - `world`: live; NULL is an error.
 * - `send`: readable for `count` elements of each rank while it is lent; NULL is an error unless `count` is 0.
 * - `recv`: writable for `count` elements while it is lent; NULL is an error unless `count` is 0.
 * - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
 * - `request`: NULL to block; else writable, and receives a request that the caller frees.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_reduce_scatter(collect_world *world,
                                      const void *send,
                                      void *recv,
                                      size_t count,
                                      collect_datatype type,
                                      collect_op op,
                                      const collect_call_options *options,
                                      collect_request **request);

/**
 * Reduces the `send` of all ranks, and leaves one part in the `recv` of every rank, of a length of its own each.
 *
 * `counts` has an entry for each rank of the world: the elements that it gets. Every rank passes the same
 * counts. The parts lie in `send` one after the other by rank; `recv` has as many elements as this rank's
 * entry says.
 *
 * In place where `recv` is this rank's part of `send`; else the two must not overlap.
 *
 * The list is read before the call returns.
 *
 * Errors: as `collect_reduce_scatter`. Ranks with other counts get `COLLECT_ERR_MISMATCH`, all of them.
 *
 * ```c
 * const size_t counts[] = {1, 2, 3}; // in a world of 3 ranks
 * float all[6];
 * status = collect_reduce_scatterv(world, all, mine, counts, COLLECT_F32, COLLECT_SUM, NULL, NULL);
 * ```
 *
 *
 * # Safety
 *
 * - `world`: live; NULL is an error.
 * - `send`: readable for every part while it is lent; NULL is an error unless all counts are 0.
 * - `recv`: writable for as many elements as this rank's count says while it is lent; NULL is an error unless
 *   that is 0.
 * - `counts`: an entry for each rank; NULL is an error.
 * - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
 * - `request`: NULL to block; else writable, and receives a request that the caller frees.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_reduce_scatterv(collect_world *world,
                                       const void *send,
                                       void *recv,
                                       const size_t *counts,
                                       collect_datatype type,
                                       collect_op op,
                                       const collect_call_options *options,
                                       collect_request **request);

/**
 * Reduces the `send` of ranks 0 to r into the `recv` of rank r, for every rank r.
 *
 * Every rank calls it with the same count, type and operation. Operands are combined in rank order. On rank
 * 0 the result is what it sent.
 *
 * `send == recv` works in place; else the two must not overlap.
 *
 * In p ranks, log2(p) steps for small buffers; large ones flow through a chain of all ranks.
 *
 * Errors: as `collect_allreduce`, and
 *
 * - `COLLECT_ERR_INVALID_ARGUMENT`: the operation is `COLLECT_AVG`, as each rank would divide by another number.
 *
 * ```c
 * int64_t before_and_mine;
 * status = collect_scan(world, &mine, &before_and_mine, 1, COLLECT_I64, COLLECT_SUM, NULL, NULL);
 * ```
 *
 *
 * # Safety
 *
 * - `world`: live; NULL is an error.
 * - `send`: readable for `count` elements while it is lent; NULL is an error unless `count` is 0.
 * - `recv`: writable for `count` elements while it is lent; NULL is an error unless `count` is 0.
 * - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
 * - `request`: NULL to block; else writable, and receives a request that the caller frees.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_scan(collect_world *world,
                            const void *send,
                            void *recv,
                            size_t count,
                            collect_datatype type,
                            collect_op op,
                            const collect_call_options *options,
                            collect_request **request);

/**
 * Reduces the `send` of ranks 0 to r-1 into the `recv` of rank r, for every rank r but 0.
 *
 * The `recv` of rank 0 is not touched: with nothing before it there is no result. Otherwise as
 * `collect_scan`: with sums of lengths, say, each rank learns where its part of a common file begins.
 *
 * Errors: as `collect_scan`.
 *
 * ```c
 * int64_t start = 0; // as it stays on rank 0
 * status = collect_exscan(world, &length, &start, 1, COLLECT_I64, COLLECT_SUM, NULL, NULL);
 * ```
 *
 *
 * # Safety
 *
 * - `world`: live; NULL is an error.
 * - `send`: readable for `count` elements while it is lent; NULL is an error unless `count` is 0.
 * - `recv`: writable for `count` elements while it is lent; NULL is an error unless `count` is 0.
 * - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
 * - `request`: NULL to block; else writable, and receives a request that the caller frees.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_exscan(collect_world *world,
                              const void *send,
                              void *recv,
                              size_t count,
                              collect_datatype type,
                              collect_op op,
                              const collect_call_options *options,
                              collect_request **request);

/**
 * Sends `count` elements to rank `to`, which receives them by `collect_recv` with the same tag and type.
 *
 * It ends when `send` may be changed again. That may be before the message has been received: small ones are
 * kept at the receiver until it asks for them, as long as there is room. A large one waits for its receive,
 * so two ranks that send to each other and only then receive wait for ever: see `collect_sendrecv`.
 *
 * Messages of one rank to another with one tag are received in the order in which they are sent. Messages
 * with other tags, and collectives, do not disturb this order. A rank may send to itself.
 *
 * The receiver must ask for exactly as many elements: else both get `COLLECT_ERR_MISMATCH`, and nothing is
 * written.
 *
 * With `request` NULL the call returns when it has ended. Else it returns at once, and `send` is lent until
 * the operation has ended.
 *
 * Errors: as `collect_allreduce`, and
 *
 * - `COLLECT_ERR_INVALID_ARGUMENT`: `to` is no rank of the world, or the options have a key.
 *
 * ```c
 * if (rank == 0) status = collect_send(world, x, 1000, COLLECT_F32, 1, 7, NULL, NULL);
 * if (rank == 1) status = collect_recv(world, x, 1000, COLLECT_F32, 0, 7, NULL, NULL);
 * ```
 *
 *
 * # Safety
 *
 * - `world`: live; NULL is an error.
 * - `send`: readable for `count` elements while it is lent; NULL is an error unless `count` is 0.
 * - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
 * - `request`: NULL to block; else writable, and receives a request that the caller frees.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_send(collect_world *world,
                            const void *send,
                            size_t count,
                            collect_datatype type,
                            int32_t to,
                            uint64_t tag,
                            const collect_call_options *options,
                            collect_request **request);

/**
 * Receives `count` elements that rank `from` sends by `collect_send` with the same tag and type.
 *
 * `from` may be `COLLECT_ANY_RANK`: then it receives the message with this tag that comes first, whoever has
 * sent it, and `collect_request_source` tells who. If a message fits a receive from its sender and one from
 * any rank, the one that was called first gets it.
 *
 * With `request` NULL the call returns when the message is there. Else it returns at once, and `recv` is
 * lent until the operation has ended.
 *
 * A message of another length is an error of both sides: `COLLECT_ERR_MISMATCH`, and nothing is written.
 *
 * Errors: as `collect_allreduce`, and
 *
 * - `COLLECT_ERR_INVALID_ARGUMENT`: `from` is no rank of the world, or the options have a key.
 *
 * ```c
 * status = collect_recv(world, x, 1000, COLLECT_F32, COLLECT_ANY_RANK, 7, NULL, &request);
 * if (status == COLLECT_OK) status = collect_request_wait(request, -1);
 * if (status == COLLECT_OK) status = collect_request_source(request, &from);
 * ```
 *
 *
 * # Safety
 *
 * - `world`: live; NULL is an error.
 * - `recv`: writable for `count` elements while it is lent; NULL is an error unless `count` is 0.
 * - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
 * - `request`: NULL to block; else writable, and receives a request that the caller frees.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_recv(collect_world *world,
                            void *recv,
                            size_t count,
                            collect_datatype type,
                            int32_t from,
                            uint64_t tag,
                            const collect_call_options *options,
                            collect_request **request);

/**
 * Sends a message and receives another one, at the same time.
 *
 * As `collect_send` and `collect_recv` with the arguments of each; both are under way at once, so that all
 * ranks of a ring can pass something on without one of them waiting for another's receive. The two buffers
 * must not overlap.
 *
 * The two messages need have nothing to do with each other: other ranks may use `collect_send` and
 * `collect_recv` at their ends.
 *
 * With `request` NULL the call returns when both have ended. Else it returns at once, and the request ends
 * when both have.
 *
 * Errors: as `collect_send` and `collect_recv`.
 *
 * ```c
 * const int32_t next = (rank + 1) % size;
 * const int32_t before = (rank + size - 1) % size;
 * status = collect_sendrecv(world, mine, 8, next, 0, theirs, 8, before, 0, COLLECT_F32, NULL, NULL);
 * ```
 *
 *
 * # Safety
 *
 * - `world`: live; NULL is an error.
 * - `send`: readable for `send_count` elements while it is lent; NULL is an error unless `send_count` is 0.
 * - `recv`: writable for `recv_count` elements while it is lent; NULL is an error unless `recv_count` is 0.
 * - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
 * - `request`: NULL to block; else writable, and receives a request that the caller frees.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_sendrecv(collect_world *world,
                                const void *send,
                                size_t send_count,
                                int32_t to,
                                uint64_t send_tag,
                                void *recv,
                                size_t recv_count,
                                int32_t from,
                                uint64_t recv_tag,
                                collect_datatype type,
                                const collect_call_options *options,
                                collect_request **request);

/**
 * Creates a reduction of elements of `element_bytes` bytes, from 1 to 4096.
 *
 * `function` must be associative: (a · b) · c is a · (b · c). If `is_commutative` is 1, a · b must also be
 * b · a; if it is 0, the library combines operands in rank order only, by algorithms that can.
 *
 * The counts of a call with it are in elements of `element_bytes` bytes. The call's type is `COLLECT_U8`, or
 * one of that very size.
 *
 * `free_user`, if it is not NULL, is called with `user` when nothing uses the reduction any more. It is not
 * called if this function fails.
 *
 * Errors:
 *
 * - `COLLECT_ERR_INVALID_ARGUMENT`: elements of no bytes or of too many; `is_commutative` is neither 0 nor 1.
 *
 * # Safety
 *
 * - `function`: does what its type says with `user`, on any thread; NULL is an error.
 * - `user`: passed through; may be NULL.
 * - `free_user`: may be called with `user`, on any thread; may be NULL.
 * - `reduction`: writable, receives a reduction that the caller destroys; NULL is an error.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_reduction_create(collect_reduction_fn function,
                                        void *user,
                                        collect_free_fn free_user,
                                        size_t element_bytes,
                                        int32_t is_commutative,
                                        collect_reduction **reduction);

/**
 * Destroys a reduction, without waiting.
 *
 * Operations under way and batches keep what they use.
 *
 * # Safety
 *
 * - `reduction`: live, and not used again; NULL does nothing.
 */
COLLECT_API void collect_reduction_destroy(collect_reduction *reduction);

/**
 * Creates a batch without operations.
 *
 * ```c
 * collect_batch *batch = NULL;
 * if (collect_batch_create(&batch) != COLLECT_OK) return fail("create the batch");
 * options.batch = batch; // the calls with these options are recorded
 * ```
 *
 * # Safety
 *
 * - `batch`: writable, receives a batch that the caller destroys; NULL is an error.
 */
COLLECT_API COLLECT_MUST_USE collect_status collect_batch_create(collect_batch **batch);

/**
 * Begins all operations of a batch.
 *
 * With `request` NULL the call returns when all have ended. Else it returns at once, and the request ends
 * when the last of them has, with the first error of any.
 *
 * Only one start of a batch may be under way at a time: one that is to overlap itself needs two batches.
 * The request may be freed early; the batch then still has to end before it is started again.
 *
 * Errors: as the calls themselves, and
 *
 * - `COLLECT_ERR_INVALID_ARGUMENT`: the batch has no operations, or has not ended since it was started last.
 *
 * ```c
 * status = collect_batch_start(batch, &request);
 * compute_something_else();
 * status = collect_request_wait(request, -1);
 * collect_request_free(request);
 * ```
 *
 * # Safety
 *
 * - `batch`: live; NULL is an error.
 * - `request`: NULL to block; else writable, and receives a request that the caller frees.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_batch_start(collect_batch *batch,
                                   collect_request **request);

/**
 * Destroys a batch, without waiting.
 *
 * Operations under way go on, and their buffers stay lent until they have ended. A thread that has started
 * the batch without a request goes on to wait for them.
 *
 * # Safety
 *
 * - `batch`: live, and not used again; NULL does nothing.
 */
COLLECT_API
void collect_batch_destroy(collect_batch *batch);

/**
 * Tells without waiting how the operation is.
 *
 * Returns `COLLECT_OK` (it has ended well), `COLLECT_IN_PROGRESS`, or the error that it ended with. May be
 * asked again and again, also after the end. The operation advances whether anybody asks or not.
 *
 * ```c
 * while ((status = collect_request_test(request)) == COLLECT_IN_PROGRESS) compute_a_little();
 * ```
 *
 * # Safety
 *
 * - `request`: live; NULL is an error.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_request_test(collect_request *request);

/**
 * Waits until the operation has ended, at most for `timeout_ns` nanoseconds.
 *
 * 0 or negative: as long as it takes; the operation has a time-out of its own.
 *
 * Returns `COLLECT_OK` if the operation has ended well, the error that it ended with,
 * `COLLECT_IN_PROGRESS` if the time passed first, or, if the world is interruptible, `COLLECT_INTERRUPTED`
 * if this thread has handled a signal: these two end the wait, not the operation. Several threads may wait
 * for one request, and wait again after the end.
 *
 * ```c
 * while ((status = collect_request_wait(request, 1000000000)) == COLLECT_IN_PROGRESS)
 *   puts("still waiting");
 * ```
 *
 * # Safety
 *
 * - `request`: live; NULL is an error.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_request_wait(collect_request *request,
                                    int64_t timeout_ns);

/**
 * Waits until one of `count` operations has ended, at most for `timeout_ns` nanoseconds, and tells which.
 *
 * The requests may be of different worlds. Entries that are NULL are skipped, so a program sets those to
 * NULL that it has dealt with. If several have ended, `index` is that of the first in the list. The same
 * request may be in the list more than once.
 *
 * 0 or negative: as long as it takes.
 *
 * Returns what `collect_request_test` says of the request at `index`: `COLLECT_OK` or the error that it
 * ended with, and `index` is set in both cases. `COLLECT_IN_PROGRESS` if the time passed first, or
 * `COLLECT_INTERRUPTED` if one of the worlds is interruptible and this thread has handled a signal: these
 * end the wait, not the operations, and `index` is untouched.
 *
 * Errors, with `index` untouched:
 *
 * - `COLLECT_ERR_INVALID_ARGUMENT`: there is no request in the list.
 *
 * ```c
 * for (size_t left = n; left > 0; left--) {
 *   size_t index;
 *   if (collect_request_wait_any(requests, n, -1, &index) != COLLECT_OK) return fail("a request");
 *   use(results[index]);
 *   collect_request_free(requests[index]);
 *   requests[index] = NULL;
 * }
 * ```
 *
 * # Safety
 *
 * - `requests`: readable for `count` entries, each NULL or live; NULL is an error.
 * - `index`: writable, receives the place in the list; NULL is an error.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_request_wait_any(collect_request *const *requests,
                                        size_t count,
                                        int64_t timeout_ns,
                                        size_t *index);

/**
 * Waits until all of `count` operations have ended, at most for `timeout_ns` nanoseconds.
 *
 * The requests may be of different worlds. Entries that are NULL are skipped. 0 or negative: as long as it
 * takes.
 *
 * Returns `COLLECT_OK` if all have ended well, else the first error in the order of the list;
 * `collect_request_test` tells of each. `COLLECT_IN_PROGRESS` if the time passed before all had ended, or
 * `COLLECT_INTERRUPTED` if one of the worlds is interruptible and this thread has handled a signal: these
 * end the wait, not the operations.
 *
 * Errors of its own:
 *
 * - `COLLECT_ERR_INVALID_ARGUMENT`: there is no request in the list.
 *
 * ```c
 * status = collect_request_wait_all(requests, n, -1);
 * for (int i = 0; i < n; i++) collect_request_free(requests[i]);
 * ```
 *
 * # Safety
 *
 * - `requests`: readable for `count` entries, each NULL or live; NULL is an error.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_request_wait_all(collect_request *const *requests,
                                        size_t count,
                                        int64_t timeout_ns);

/**
 * Has the library call `function` when the operation has ended.
 *
 * It is called once, with `user`: soon after the end, or soon if the operation has ended already. Nobody
 * needs to wait or to test, and freeing the request changes nothing. A request may have several such
 * functions.
 *
 * Threads: the functions of a world and of all worlds that share its connections (its forks, and what it
 * was forked from) run on one thread of the library, one after the other, in the order in which the
 * operations end. The library holds no lock meanwhile. They may call every function that does not wait:
 * start an operation, also from its own callback the next, test, free, destroy. They must not wait for
 * operations, for that would keep the others from being called; and they should be short, since operations
 * for which no thread waits do not advance meanwhile.
 *
 * If the world fails or is destroyed first, the function is called with that error. Destroying the last of
 * the worlds that share the thread runs the functions that are left, and returns when they have.
 *
 * Errors: the function is not called.
 *
 * - `COLLECT_ERR_INVALID_ARGUMENT`: `function` is NULL.
 *
 * ```c
 * static void done(void *user, collect_status status, const char *message) {
 *   struct job *job = user;
 *   job->failed = status != COLLECT_OK;
 *   if (job->failed) fprintf(stderr, "%s\n", message);
 *   sem_post(&job->ended);
 * }
 *
 * collect_request_on_complete(request, done, job);
 * collect_request_free(request);
 * ```
 *
 * # Safety
 *
 * - `request`: live; NULL is an error.
 * - `function`: may be called with `user` on a thread of the library; NULL is an error.
 * - `user`: passed through; may be NULL.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_request_on_complete(collect_request *request,
                                           collect_complete_fn function,
                                           void *user);

/**
 * Gives a descriptor that becomes readable when the operation has ended, for `poll`, `epoll` and event loops.
 *
 * Each call on one request gives the same descriptor. It is readable from the end on, at once if the
 * operation has ended. The library advances the operation meanwhile. The request owns the descriptor and
 * closes it when it is freed: a program takes it out of its loop before, and neither closes it nor writes
 * to it. Nobody needs to read from it.
 *
 * Errors:
 *
 * - `COLLECT_ERR_RESOURCE`: there is no descriptor left. The operation goes on.
 *
 * ```c
 * struct pollfd entry = {.events = POLLIN};
 * if (collect_request_eventfd(request, &entry.fd) != COLLECT_OK) return fail("eventfd");
 * poll(&entry, 1, -1);
 * status = collect_request_test(request); // not COLLECT_IN_PROGRESS
 * ```
 *
 * # Safety
 *
 * - `request`: live; NULL is an error.
 * - `fd`: writable, receives the descriptor; NULL is an error.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_request_eventfd(collect_request *request,
                                       int *fd);

/**
 * Tells from which rank a message came, once a receive has ended.
 *
 * For receives that take a message from any rank; it works for the others as well.
 *
 * Errors:
 *
 * - `COLLECT_ERR_INVALID_ARGUMENT`: the request is no receive, or has not ended, or ended without a message.
 *
 * # Safety
 *
 * - `request`: live; NULL is an error.
 * - `rank`: writable, receives the sender's rank in the world; NULL is an error.
 */
COLLECT_API
COLLECT_MUST_USE
collect_status collect_request_source(collect_request *request,
                                      int32_t *rank);

/**
 * Frees a request, without waiting.
 *
 * An operation under way goes on, and its buffers stay lent until it has ended: a program that is to use
 * or free them must wait first. Free requests also after errors. A thread that waits for the request goes on
 * to wait, and is told how the operation ends.
 *
 * # Safety
 *
 * - `request`: live, and not used again; NULL does nothing.
 */
COLLECT_API
void collect_request_free(collect_request *request);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* COLLECT_H */
