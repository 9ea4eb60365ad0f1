// Handles that are given up while another thread is inside, or while what they stand for is under
// way: the thread ends with its operation, the operation with its result, and nothing is left.
#define _DEFAULT_SOURCE
#define _XOPEN_SOURCE 700
#include "pair.h"
#include "process.h"
#include <semaphore.h>
#include <stdlib.h>

enum { ROUNDS = 10, ELEMENTS = 1 << 16 };

// A thread inside of a call that ends when the other rank, or another thread, does its part.
typedef struct inside {
  pthread_t thread;
  task_id task;
  collect_status (*call)(struct inside *me);
  collect_status status;
  collect_store *store;
  collect_world *world;
  collect_world *fork;
  collect_batch *batch;
  collect_request *request;
  int32_t sum;
  char value;
} inside;

static void *go_inside(void *argument) {
  inside *me = (inside *)argument;
  tell_task(&me->task);
  me->status = me->call(me);
  return NULL;
}

// Returns when the thread sleeps inside.
static int enter(inside *me) {
  me->task = 0;
  CHECK(pthread_create(&me->thread, NULL, go_inside, me) == 0);
  await_sleep(&me->task);
  return 0;
}

static int leave(inside *me, collect_status expected) {
  CHECK(pthread_join(me->thread, NULL) == 0);
  CHECK(me->status == expected);
  return 0;
}

static collect_status sum_of(collect_world *world, int32_t *sum) {
  return collect_allreduce(world, sum, sum, 1, COLLECT_I32, COLLECT_SUM, NULL, NULL);
}

static collect_status add(inside *me) { return sum_of(me->world, &me->sum); }
static collect_status fork_it(inside *me) {
  return collect_world_fork(me->world, NULL, &me->fork);
}
static collect_status wait_for(inside *me) { return collect_request_wait(me->request, -1); }
static collect_status start(inside *me) { return collect_batch_start(me->batch, NULL); }
static collect_status get(inside *me) {
  size_t bytes;
  return collect_store_get(me->store, "key", -1, &me->value, 1, &bytes);
}

static int open_pair(collect_world *worlds[2]) {
  collect_world_options options = world_options();
  options.timeout_ns = -1;
  return pair_open(&options, worlds);
}

// The world stays until the call has ended, and goes then: the other rank sees that.
static int a_world_that_is_destroyed_under_a_call(void) {
  collect_world *worlds[2];
  inside me;
  int32_t two = 2;
  memset(&me, 0, sizeof me);
  if (open_pair(worlds)) return 1;
  me.world = worlds[0];
  me.call = add;
  me.sum = 1;
  if (enter(&me)) return 1;
  collect_world_destroy(worlds[0]);
  FINE(sum_of(worlds[1], &two));
  if (leave(&me, COLLECT_OK)) return 1;
  CHECK(me.sum == 3 && two == 3);
  CHECK(collect_barrier(worlds[1], NULL, NULL) == COLLECT_ERR_PEER_LOST);
  collect_world_destroy(worlds[1]);
  return 0;
}

static int a_world_that_is_destroyed_under_a_fork(void) {
  collect_world *worlds[2], *forks[2];
  inside me;
  int32_t two = 2;
  memset(&me, 0, sizeof me);
  if (open_pair(worlds)) return 1;
  me.world = worlds[0];
  me.call = fork_it;
  if (enter(&me)) return 1;
  collect_world_destroy(worlds[0]);
  FINE(collect_world_fork(worlds[1], NULL, &forks[1]));
  if (leave(&me, COLLECT_OK)) return 1;
  collect_world_destroy(worlds[1]);
  // It outlives its parent.
  forks[0] = me.world = me.fork;
  me.call = add;
  me.sum = 1;
  if (enter(&me)) return 1;
  FINE(sum_of(forks[1], &two));
  if (leave(&me, COLLECT_OK)) return 1;
  CHECK(two == 3);
  return pair_close(forks);
}

// An abort does not wait for the call, which ends with it.
static int a_world_that_is_aborted_and_destroyed_under_a_call(void) {
  collect_world *worlds[2];
  inside me;
  memset(&me, 0, sizeof me);
  if (open_pair(worlds)) return 1;
  me.world = worlds[0];
  me.call = add;
  if (enter(&me)) return 1;
  FINE(collect_world_abort(worlds[0], "enough"));
  collect_world_destroy(worlds[0]);
  if (leave(&me, COLLECT_ERR_ABORTED)) return 1;
  collect_world_destroy(worlds[1]);
  return 0;
}

// Of all handles of an operation and its world, none is left while a thread waits for it.
static int a_request_that_is_freed_under_a_wait(void) {
  collect_world *worlds[2];
  inside me;
  memset(&me, 0, sizeof me);
  if (open_pair(worlds)) return 1;
  me.call = wait_for;
  FINE(collect_barrier(worlds[0], NULL, &me.request));
  if (enter(&me)) return 1;
  collect_request_free(me.request);
  collect_world_destroy(worlds[0]);
  FINE(collect_barrier(worlds[1], NULL, NULL));
  if (leave(&me, COLLECT_OK)) return 1;
  collect_world_destroy(worlds[1]);
  return 0;
}

static int a_batch_that_is_destroyed_under_a_start(void) {
  collect_world *worlds[2];
  collect_call_options options = call_options();
  inside me;
  memset(&me, 0, sizeof me);
  if (open_pair(worlds)) return 1;
  me.call = start;
  FINE(collect_batch_create(&me.batch));
  options.batch = me.batch;
  FINE(collect_barrier(worlds[0], &options, NULL));
  if (enter(&me)) return 1;
  collect_batch_destroy(me.batch);
  collect_world_destroy(worlds[0]);
  FINE(collect_barrier(worlds[1], NULL, NULL));
  if (leave(&me, COLLECT_OK)) return 1;
  collect_world_destroy(worlds[1]);
  return 0;
}

// A store in memory goes with its last handle: only the abandoned get is left to it.
static int a_store_that_is_destroyed_under_a_get(void) {
  char url[64];
  collect_store *server = NULL, *other = NULL;
  inside me;
  memset(&me, 0, sizeof me);
  FINE(collect_store_serve("127.0.0.1:0", &server));
  snprintf(url, sizeof url, "%s", collect_store_url(server));
  FINE(collect_store_open(url, 0, &me.store));
  FINE(collect_store_open(url, 0, &other));
  me.call = get;
  if (enter(&me)) return 1;
  collect_store_destroy(me.store);
  FINE(collect_store_set(other, "key", "v", 1, 0));
  if (leave(&me, COLLECT_OK)) return 1;
  CHECK(me.value == 'v');
  collect_store_destroy(other);
  collect_store_destroy(server);
  return 0;
}

// The other rank's part, on a thread of its own.
typedef struct {
  pthread_t thread;
  collect_world *world;
  int32_t *numbers;
  collect_status status;
} partner;

static void *take_part(void *argument) {
  partner *me = (partner *)argument;
  me->status = collect_allreduce(me->world, me->numbers, me->numbers, ELEMENTS, COLLECT_I32,
                                 COLLECT_SUM, NULL, NULL);
  return NULL;
}

static void post(void *user, collect_status status, const char *message) {
  if (status != COLLECT_OK) {
    printf("%s\n", message);
    abort();
  }
  sem_post((sem_t *)user);
}

// Handles of operations under way are freed at once: the operations end with their results, and the
// buffers are lent until then.
static int requests_that_are_freed_in_flight(void) {
  collect_world *worlds[2];
  int32_t *mine[ROUNDS], *theirs[ROUNDS];
  partner partners[ROUNDS];
  sem_t ended;
  CHECK(sem_init(&ended, 0, 0) == 0);
  if (open_pair(worlds)) return 1;
  for (int round = 0; round < ROUNDS; round++) {
    collect_request *request = NULL;
    mine[round] = (int32_t *)malloc(ELEMENTS * sizeof(int32_t));
    theirs[round] = (int32_t *)malloc(ELEMENTS * sizeof(int32_t));
    CHECK(mine[round] != NULL && theirs[round] != NULL);
    for (int i = 0; i < ELEMENTS; i++) {
      mine[round][i] = i;
      theirs[round][i] = round;
    }
    FINE(collect_allreduce(worlds[0], mine[round], mine[round], ELEMENTS, COLLECT_I32, COLLECT_SUM,
                           NULL, &request));
    FINE(collect_request_on_complete(request, post, &ended));
    collect_request_free(request);
  }
  for (int round = 0; round < ROUNDS; round++) {
    partners[round].world = worlds[1];
    partners[round].numbers = theirs[round];
    CHECK(pthread_create(&partners[round].thread, NULL, take_part, &partners[round]) == 0);
    CHECK(pthread_join(partners[round].thread, NULL) == 0);
    CHECK(partners[round].status == COLLECT_OK);
  }
  for (int round = 0; round < ROUNDS; round++)
    while (sem_wait(&ended) != 0) {
    }
  for (int round = 0; round < ROUNDS; round++) {
    CHECK(mine[round][7] == 7 + round && theirs[round][ELEMENTS - 1] == ELEMENTS - 1 + round);
    free(mine[round]);
    free(theirs[round]);
  }
  return pair_close(worlds);
}

static int all(void) {
  return a_world_that_is_destroyed_under_a_call() || a_world_that_is_destroyed_under_a_fork() ||
         a_world_that_is_aborted_and_destroyed_under_a_call() ||
         a_request_that_is_freed_under_a_wait() || a_batch_that_is_destroyed_under_a_start() ||
         a_store_that_is_destroyed_under_a_get() || requests_that_are_freed_in_flight();
}

int main(void) {
  // The first round opens what stays as long as the process lives.
  if (all()) return 1;
  const int descriptors = open_descriptors(), threads = running_threads();
  for (int round = 0; round < ROUNDS; round++)
    if (all()) return 1;
  CHECK(open_descriptors() == descriptors && running_threads() == threads);
  return 0;
}
