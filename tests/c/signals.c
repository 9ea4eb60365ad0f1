// Signals: in a world that is interruptible, one that a thread handles while it waits for a request
// ends the wait and not the operation. Nothing else ends by a signal.
#define _DEFAULT_SOURCE
#define _XOPEN_SOURCE 700
#include "pair.h"
#include "process.h"
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>

enum { ROUNDS = 20, CALLERS = 4 };

#define HOUR_NS 3600000000000

static int handled; // signals

static void handle(int signal) {
  (void)signal;
  __atomic_add_fetch(&handled, 1, __ATOMIC_RELAXED);
}

static int handle_with(int flags) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handle;
  action.sa_flags = flags;
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGALRM, &action, NULL) == 0);
  return 0;
}

// ---- Ways to wait

static collect_status wait_one(collect_request **list, int64_t timeout_ns) {
  return collect_request_wait(list[0], timeout_ns);
}

static collect_status wait_any(collect_request **list, int64_t timeout_ns) {
  size_t index = 77;
  const collect_status status = collect_request_wait_any(list, 2, timeout_ns, &index);
  // Untouched unless an operation has ended.
  if ((status == COLLECT_OK) != (index == 0)) return COLLECT_ERR_INTERNAL;
  return status;
}

static collect_status wait_all(collect_request **list, int64_t timeout_ns) {
  return collect_request_wait_all(list, 2, timeout_ns);
}

// A thread that waits for a barrier of `world`, which the other rank has not called.
typedef struct {
  pthread_t thread;
  task_id task;
  collect_status (*wait)(collect_request **list, int64_t timeout_ns);
  int64_t timeout_ns;
  collect_request *list[2];
  collect_status status;
  int has_ended;
} waiter;

static void *wait_for_it(void *argument) {
  waiter *me = (waiter *)argument;
  tell_task(&me->task);
  me->status = me->wait(me->list, me->timeout_ns);
  __atomic_store_n(&me->has_ended, 1, __ATOMIC_RELEASE);
  return NULL;
}

static int start_waiting(waiter *me) {
  me->task = 0;
  me->status = 77;
  me->has_ended = 0;
  CHECK(pthread_create(&me->thread, NULL, wait_for_it, me) == 0);
  return 0;
}

// Signals a thread until its wait has ended; a signal just before it sleeps is not noticed.
static int signal_until_it_ends(waiter *me) {
  while (!__atomic_load_n(&me->has_ended, __ATOMIC_ACQUIRE)) {
    CHECK(pthread_kill(me->thread, SIGUSR1) == 0);
    pause_ns(1000000);
  }
  CHECK(pthread_join(me->thread, NULL) == 0);
  return 0;
}

// A signal ends the wait, as often as one comes, and then the operation ends as if nothing had been.
static int interrupt(collect_world *worlds[2], waiter *me) {
  me->list[1] = NULL;
  FINE(collect_barrier(worlds[0], NULL, &me->list[0]));
  for (int round = 0; round < ROUNDS; round++) {
    me->timeout_ns = round % 2 == 0 ? -1 : HOUR_NS;
    if (start_waiting(me)) return 1;
    await_sleep(&me->task);
    if (signal_until_it_ends(me)) return 1;
    CHECK(me->status == COLLECT_INTERRUPTED);
    CHECK(collect_request_test(me->list[0]) == COLLECT_IN_PROGRESS);
  }
  FINE(collect_barrier(worlds[1], NULL, NULL));
  FINE(me->wait(me->list, -1));
  // What has ended is told, whatever comes.
  CHECK(pthread_kill(pthread_self(), SIGUSR1) == 0);
  FINE(me->wait(me->list, -1));
  collect_request_free(me->list[0]);
  return 0;
}

static int interrupt_each_way(collect_world *worlds[2]) {
  waiter me;
  memset(&me, 0, sizeof me);
  me.wait = wait_one;
  if (interrupt(worlds, &me)) return 1;
  me.wait = wait_any;
  if (interrupt(worlds, &me)) return 1;
  me.wait = wait_all;
  return interrupt(worlds, &me);
}

// ---- A thread that drives the same connections

static int drivers_sleep = 1;

typedef struct {
  pthread_t thread;
  task_id task;
  collect_world *world;
  collect_status status;
} driver;

static void *drive(void *argument) {
  driver *me = (driver *)argument;
  tell_task(&me->task);
  me->status = collect_barrier(me->world, NULL, NULL);
  return NULL;
}

static int start_driving(driver *me, collect_world *world) {
  memset(me, 0, sizeof *me);
  me->world = world;
  CHECK(pthread_create(&me->thread, NULL, drive, me) == 0);
  if (drivers_sleep)
    await_sleep(&me->task);
  else
    pause_ns(5000000);
  return 0;
}

static int while_another_drives(collect_world *worlds[2]) {
  collect_world *forks[2];
  driver other;
  if (pair_fork_of(worlds, forks) || start_driving(&other, forks[0])) return 1;
  const int descriptors = open_descriptors();
  if (interrupt_each_way(worlds)) return 1;
  CHECK(open_descriptors() == descriptors);
  // A blocking call is not ended by a signal: there would be no handle for what goes on.
  for (int round = 0; round < ROUNDS; round++) {
    CHECK(pthread_kill(other.thread, SIGUSR1) == 0);
    pause_ns(1000000);
  }
  CHECK(is_there(&other.task));
  FINE(collect_barrier(forks[1], NULL, NULL));
  CHECK(pthread_join(other.thread, NULL) == 0 && other.status == COLLECT_OK);
  collect_world_destroy(forks[0]);
  collect_world_destroy(forks[1]);
  return 0;
}

// The descriptors that a wait beside a driver needs are not there.
static int without_descriptors(collect_world *worlds[2]) {
  collect_world *forks[2];
  struct rlimit before, none;
  driver other;
  waiter me;
  memset(&me, 0, sizeof me);
  me.wait = wait_one;
  me.timeout_ns = -1;
  if (pair_fork_of(worlds, forks) || start_driving(&other, forks[0])) return 1;
  FINE(collect_barrier(worlds[0], NULL, &me.list[0]));
  CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
  none = before;
  none.rlim_cur = 0;
  CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
  const int failed = start_waiting(&me) || signal_until_it_ends(&me);
  CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(!failed && me.status == COLLECT_INTERRUPTED);
  FINE(collect_barrier(worlds[1], NULL, NULL));
  FINE(collect_request_wait(me.list[0], -1));
  collect_request_free(me.list[0]);
  FINE(collect_barrier(forks[1], NULL, NULL));
  CHECK(pthread_join(other.thread, NULL) == 0 && other.status == COLLECT_OK);
  collect_world_destroy(forks[0]);
  collect_world_destroy(forks[1]);
  return 0;
}

// ---- A timer

static int interrupted_by_an_alarm(collect_world *worlds[2]) {
  struct itimerval once;
  collect_request *request = NULL;
  collect_status status = COLLECT_IN_PROGRESS;
  memset(&once, 0, sizeof once);
  once.it_value.tv_usec = 33000;
  FINE(collect_barrier(worlds[0], NULL, &request));
  // In slices, since an alarm may come while this thread does not sleep.
  while (status == COLLECT_IN_PROGRESS) {
    CHECK(setitimer(ITIMER_REAL, &once, NULL) == 0);
    status = collect_request_wait(request, 1000000000);
  }
  CHECK(status == COLLECT_INTERRUPTED);
  FINE(collect_barrier(worlds[1], NULL, NULL));
  FINE(collect_request_wait(request, -1));
  collect_request_free(request);
  return 0;
}

// ---- No signal

typedef struct {
  pthread_t thread;
  collect_world *worlds[2];
  uint64_t key;
  int failed;
} caller;

// Waits that are nudged to drive in turn, and never say that there was a signal.
static int call_with_key(caller *me) {
  collect_call_options options = call_options();
  options.key = me->key;
  options.has_key = 1;
  for (int round = 0; round < 200; round++) {
    collect_request *mine = NULL, *other = NULL;
    FINE(collect_barrier(me->worlds[0], &options, &mine));
    FINE(collect_barrier(me->worlds[1], &options, &other));
    FINE(collect_request_wait(mine, round % 2 == 0 ? -1 : HOUR_NS));
    FINE(collect_request_wait(other, -1));
    collect_request_free(mine);
    collect_request_free(other);
  }
  return 0;
}

static void *call(void *argument) {
  caller *me = (caller *)argument;
  me->failed = call_with_key(me);
  return NULL;
}

static int without_a_signal(collect_world *worlds[2]) {
  caller callers[CALLERS];
  int failed = 0;
  for (int i = 0; i < CALLERS; i++) {
    callers[i].worlds[0] = worlds[0];
    callers[i].worlds[1] = worlds[1];
    callers[i].key = (uint64_t)i;
    CHECK(pthread_create(&callers[i].thread, NULL, call, &callers[i]) == 0);
  }
  for (int i = 0; i < CALLERS; i++) {
    CHECK(pthread_join(callers[i].thread, NULL) == 0);
    failed |= callers[i].failed;
  }
  return failed;
}

static int in_an_interruptible_world(collect_wait wait) {
  collect_world_options options = world_options();
  collect_world *worlds[2];
  options.timeout_ns = -1;
  options.interruptible = 1;
  options.wait = wait;
  drivers_sleep = wait != COLLECT_WAIT_SPIN;
  return pair_open(&options, worlds) || without_a_signal(worlds) || interrupt_each_way(worlds) ||
         while_another_drives(worlds) || without_descriptors(worlds) ||
         interrupted_by_an_alarm(worlds) || pair_close(worlds);
}

// Without the option, a wait goes on after a signal.
static int in_another_world(void) {
  collect_world_options options = world_options();
  collect_world *worlds[2];
  waiter me;
  memset(&me, 0, sizeof me);
  me.wait = wait_all;
  me.timeout_ns = -1;
  options.timeout_ns = -1;
  if (pair_open(&options, worlds)) return 1;
  FINE(collect_barrier(worlds[0], NULL, &me.list[0]));
  if (start_waiting(&me)) return 1;
  await_sleep(&me.task);
  for (int round = 0; round < ROUNDS; round++) {
    CHECK(pthread_kill(me.thread, SIGUSR1) == 0);
    pause_ns(1000000);
  }
  CHECK(!__atomic_load_n(&me.has_ended, __ATOMIC_ACQUIRE));
  FINE(collect_barrier(worlds[1], NULL, NULL));
  CHECK(pthread_join(me.thread, NULL) == 0 && me.status == COLLECT_OK);
  collect_request_free(me.list[0]);
  return pair_close(worlds);
}

int main(void) {
  if (handle_with(0) || in_another_world()) return 1;
  if (in_an_interruptible_world(COLLECT_WAIT_BLOCK)) return 1;
  if (in_an_interruptible_world(COLLECT_WAIT_SPIN)) return 1;
  // Handlers that let other system calls go on.
  if (handle_with(SA_RESTART) || in_another_world()) return 1;
  if (in_an_interruptible_world(COLLECT_WAIT_ADAPTIVE)) return 1;
  CHECK(__atomic_load_n(&handled, __ATOMIC_RELAXED) > 10 * ROUNDS);
  return 0;
}
