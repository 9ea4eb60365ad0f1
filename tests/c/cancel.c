// A thread that is cancelled inside of a call, with either type of cancellation: the operation
// completes, the thread ends behind the call, the world goes on to work, and nothing is left.
// under address: --param=asan-stack=0, since a cancelled thread leaves the marks of its frames behind
#define _DEFAULT_SOURCE
#define _XOPEN_SOURCE 700
#include "pair.h"
#include "process.h"
#include <stdlib.h>

enum { ROUNDS = 5 };

typedef struct victim {
  pthread_t thread;
  collect_status (*act)(struct victim *me); // waits until the other rank does its part
  collect_status (*other)(struct victim *me);
  int type;
  task_id task; // set just before the call
  int cleanups; // of the thread's own
  int returns;  // of the call
  collect_store *store;
  collect_world *worlds[2]; // ours, and the other rank's
  collect_world *made[2];   // what the call makes, on either rank
  collect_request *request;
  // What calls point to is here, and not in frames that a cancellation unwinds: AddressSanitizer takes
  // what it has marked there for faults of the next function that lies there.
  collect_world_options options;
  size_t bytes;
  int32_t sum;
  char value;
} victim;

static void clean_up(void *argument) { ((victim *)argument)->cleanups++; }

static void *suffer(void *argument) {
  victim *me = (victim *)argument;
  int before;
  if (pthread_setcanceltype(me->type, &before) != 0) abort();
  pthread_cleanup_push(clean_up, me);
  tell_task(&me->task);
  if (me->act(me) == COLLECT_OK) me->returns++;
  // With the deferred type the thread ends here, at the next cancellation point.
  for (;;)
    pthread_testcancel();
  pthread_cleanup_pop(0);
  return NULL;
}

static collect_status sum_of(collect_world *world, int32_t *sum) {
  return collect_allreduce(world, sum, sum, 1, COLLECT_I32, COLLECT_SUM, NULL, NULL);
}

static collect_status sum_here(victim *me) { return sum_of(me->worlds[0], &me->sum); }

static collect_status sum_there(victim *me) {
  int32_t mine = 2;
  const collect_status status = sum_of(me->worlds[1], &mine);
  return status == COLLECT_OK && mine != 3 ? COLLECT_ERR_INTERNAL : status;
}

static collect_status wait_here(victim *me) { return collect_request_wait(me->request, -1); }

static collect_status fork_here(victim *me) {
  return collect_world_fork(me->worlds[0], NULL, &me->made[0]);
}

static collect_status fork_there(victim *me) {
  return collect_world_fork(me->worlds[1], NULL, &me->made[1]);
}

static collect_status create_at(victim *me, int32_t rank) {
  return collect_world_create(me->store, rank, 2, &me->options, &me->made[rank]);
}

static collect_status create_here(victim *me) { return create_at(me, 0); }
static collect_status create_there(victim *me) { return create_at(me, 1); }

static collect_status get_here(victim *me) {
  return collect_store_get(me->store, "key", -1, &me->value, 1, &me->bytes);
}

static collect_status set_there(victim *me) {
  return collect_store_set(me->store, "key", "v", 1, -1);
}

// What a rank does beside, on a thread of its own.
typedef struct {
  pthread_t thread;
  collect_world *world;
  int32_t sum;
  collect_status status;
} worker;

static void *work(void *argument) {
  worker *mine = (worker *)argument;
  mine->status = sum_of(mine->world, &mine->sum);
  return NULL;
}

// The world works as if nothing had been.
static int goes_on(collect_world *worlds[2]) {
  worker workers[2];
  for (int32_t i = 0; i < 2; i++) {
    workers[i].world = worlds[i];
    workers[i].sum = i + 1;
    CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
  }
  for (int32_t i = 0; i < 2; i++) {
    CHECK(pthread_join(workers[i].thread, NULL) == 0);
    CHECK(workers[i].status == COLLECT_OK && workers[i].sum == 3);
    FINE(collect_world_error(worlds[i]));
  }
  return 0;
}

// Cancels a thread that sleeps in `act`, then lets `other` end that.
static int cancel(victim *me) {
  void *result = NULL;
  CHECK(pthread_create(&me->thread, NULL, suffer, me) == 0);
  await_sleep(&me->task);
  CHECK(pthread_cancel(me->thread) == 0);
  pause_ns(2000000);
  CHECK(is_there(&me->task) && me->cleanups == 0);
  FINE(me->other(me));
  CHECK(pthread_join(me->thread, &result) == 0);
  CHECK(me->cleanups == 1);
  if (me->type == PTHREAD_CANCEL_DEFERRED) {
    CHECK(me->returns == 1 && result == PTHREAD_CANCELED);
  } else {
    // It ends as the call does, in pthread_setcancelstate, where glibc sets no result.
    CHECK(me->returns == 0);
  }
  return 0;
}

static collect_status start_sum(victim *me) {
  return collect_allreduce(me->worlds[0], &me->sum, &me->sum, 1, COLLECT_I32, COLLECT_SUM, NULL,
                           &me->request);
}

// One case; the two ranks' world works before and behind it.
static int cancel_in(const victim *plan, collect_world *worlds[2], int type) {
  victim me = *plan;
  me.type = type;
  me.options = world_options();
  me.options.name = "made";
  me.sum = 1;
  me.worlds[0] = worlds[0];
  me.worlds[1] = worlds[1];
  FINE(collect_store_create_hash(&me.store));
  if (me.act == wait_here) FINE(start_sum(&me));
  if (cancel(&me)) return 1;
  if (me.act == sum_here || me.act == wait_here) CHECK(me.sum == 3);
  if (me.act == get_here) CHECK(me.value == 'v');
  // What the call has made is the caller's, also of a thread that has not seen it return.
  if (me.act == fork_here || me.act == create_here) {
    CHECK(me.made[0] != NULL && me.made[1] != NULL);
    if (goes_on(me.made) || pair_close(me.made)) return 1;
  }
  collect_request_free(me.request);
  collect_store_destroy(me.store);
  return goes_on(worlds);
}

static int every_case(collect_world *worlds[2]) {
  static const struct {
    collect_status (*act)(victim *me);
    collect_status (*other)(victim *me);
  } cases[] = {
      {sum_here, sum_there},       {wait_here, sum_there}, {fork_here, fork_there},
      {create_here, create_there}, {get_here, set_there},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    victim plan;
    memset(&plan, 0, sizeof plan);
    plan.act = cases[i].act;
    plan.other = cases[i].other;
    for (int round = 0; round < ROUNDS; round++)
      if (cancel_in(&plan, worlds, PTHREAD_CANCEL_DEFERRED) ||
          cancel_in(&plan, worlds, PTHREAD_CANCEL_ASYNCHRONOUS)) {
        printf("case %d, round %d\n", (int)i, round);
        return 1;
      }
  }
  return 0;
}

// A thread that drives the same connections, so that the victims sleep elsewhere.
typedef struct {
  pthread_t thread;
  task_id task;
  collect_world *world;
  collect_status status;
} driver;

static void *drive(void *argument) {
  driver *mine = (driver *)argument;
  tell_task(&mine->task);
  mine->status = collect_barrier(mine->world, NULL, NULL);
  return NULL;
}

static int every_case_beside_a_driver(collect_world *worlds[2]) {
  collect_world *forks[2];
  driver mine;
  memset(&mine, 0, sizeof mine);
  if (pair_fork_of(worlds, forks)) return 1;
  mine.world = forks[0];
  CHECK(pthread_create(&mine.thread, NULL, drive, &mine) == 0);
  await_sleep(&mine.task);
  if (every_case(worlds)) return 1;
  FINE(collect_barrier(forks[1], NULL, NULL));
  CHECK(pthread_join(mine.thread, NULL) == 0 && mine.status == COLLECT_OK);
  collect_world_destroy(forks[0]);
  collect_world_destroy(forks[1]);
  return goes_on(worlds);
}

static int in_a_world(int32_t interruptible) {
  collect_world_options options = world_options();
  collect_world *worlds[2];
  options.timeout_ns = -1;
  options.interruptible = interruptible;
  return pair_open(&options, worlds) || goes_on(worlds) || every_case(worlds) ||
         every_case_beside_a_driver(worlds) || pair_close(worlds);
}

int main(void) {
  // The first world opens what stays as long as the process lives.
  if (in_a_world(0)) return 1;
  const int descriptors = open_descriptors(), threads = running_threads();
  if (in_a_world(1) || in_a_world(0)) return 1;
  CHECK(open_descriptors() == descriptors && running_threads() == threads);
  return 0;
}
