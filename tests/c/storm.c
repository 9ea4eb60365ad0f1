// A storm of signals: every rank has a timer of a millisecond, whose handler lets no system call go
// on by itself. Stores, creation, forks, operations, waits and destruction notice nothing of it.
#define _DEFAULT_SOURCE
#define _XOPEN_SOURCE 700
#include "folder.h"
#include "pair.h"
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

// What a rank that is left alone waits for.
#define PATIENCE_NS 30000000000

enum { SIZE = 3, ELEMENTS = 1 << 18, ROUNDS = 8, STORM = 300 };

static volatile sig_atomic_t signals;
static int32_t rank_here;
static char folder[] = "/tmp/collect-storm-XXXXXX";

static void handle(int signal) {
  (void)signal;
  signals = signals + 1;
}

static int begin_the_storm(void) {
  struct sigaction action;
  struct itimerval timer;
  memset(&action, 0, sizeof action);
  memset(&timer, 0, sizeof timer);
  action.sa_handler = handle;
  timer.it_value.tv_usec = timer.it_interval.tv_usec = 1000;
  CHECK(sigaction(SIGALRM, &action, NULL) == 0);
  CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
  return 0;
}

// Rank 0 serves a store over TCP; its address is in the files.
static int open_stores(collect_store **files, collect_store **served) {
  char url[80];
  size_t bytes = 0;
  snprintf(url, sizeof url, "file:%s", folder);
  FINE(collect_store_open(url, 0, files));
  if (rank_here == 0) {
    FINE(collect_store_serve("127.0.0.1:0", served));
    const char *address = collect_store_url(*served);
    FINE(collect_store_set(*files, "url", address, strlen(address) + 1, 0));
    return 0;
  }
  FINE(collect_store_get(*files, "url", PATIENCE_NS, url, sizeof url, &bytes));
  FINE(collect_store_open(url, 0, served));
  return 0;
}

static int operations(collect_world *world, int32_t *numbers) {
  const int32_t next = (rank_here + 1) % SIZE, before = (rank_here + SIZE - 1) % SIZE;
  int32_t received = -1;
  for (size_t count = 1; count <= ELEMENTS; count *= 64) {
    for (size_t i = 0; i < count; i++)
      numbers[i] = rank_here + (int32_t)i;
    FINE(collect_allreduce(world, numbers, numbers, count, COLLECT_I32, COLLECT_SUM, NULL, NULL));
    CHECK(numbers[count - 1] == 3 + SIZE * (int32_t)(count - 1));
    FINE(collect_broadcast(world, numbers, count, COLLECT_I32, 1, NULL, NULL));
  }
  FINE(collect_sendrecv(world, &rank_here, 1, next, 1, &received, 1, before, 1, COLLECT_I32, NULL,
                        NULL));
  CHECK(received == before);
  FINE(collect_barrier(world, NULL, NULL));
  return 0;
}

// In a world that is interruptible, signals end waits, which are made again.
static int requests(collect_world *world, int *interruptions) {
  collect_request *list[4];
  int32_t numbers[4];
  for (int32_t i = 0; i < 4; i++) {
    numbers[i] = rank_here;
    FINE(collect_allreduce(world, &numbers[i], &numbers[i], 1, COLLECT_I32, COLLECT_SUM, NULL,
                           &list[i]));
  }
  collect_status status;
  while ((status = collect_request_wait_all(list, 4, -1)) == COLLECT_INTERRUPTED)
    ++*interruptions;
  CHECK(status == COLLECT_OK);
  for (int32_t i = 0; i < 4; i++) {
    CHECK(numbers[i] == 3);
    collect_request_free(list[i]);
  }
  return 0;
}

static int in_a_world(collect_store *store, int32_t round, int32_t *numbers, int32_t *more) {
  collect_world_options options = world_options();
  collect_world *world = NULL, *forked = NULL;
  int interruptions = 0;
  options.timeout_ns = PATIENCE_NS;
  options.wait = round % 3;
  options.connect = options.interruptible = round / 2 % 2;
  FINE(collect_world_create(store, rank_here, SIZE, &options, &world));
  FINE(collect_world_fork(world, NULL, &forked));
  if (operations(world, numbers) || operations(forked, numbers)) return 1;
  for (int round = 0; round < 50; round++)
    if (requests(world, &interruptions)) return 1;
  CHECK(options.interruptible || interruptions == 0);
  // As long as rank 0 has not seen enough of the storm.
  *more = round + 1 < ROUNDS || signals < STORM;
  FINE(collect_broadcast(world, more, 1, COLLECT_I32, 0, NULL, NULL));
  collect_world_destroy(forked);
  FINE(collect_barrier(world, NULL, NULL));
  collect_world_destroy(world);
  return 0;
}

static int rank(int32_t number) {
  collect_store *files = NULL, *served = NULL;
  int32_t *numbers = (int32_t *)malloc(ELEMENTS * sizeof *numbers);
  rank_here = number;
  CHECK(numbers != NULL);
  if (begin_the_storm() || open_stores(&files, &served)) return 1;
  for (int32_t round = 0, more = 1; more; round++)
    if (in_a_world(round % 2 == 0 ? files : served, round, numbers, &more)) return 1;
  CHECK(signals > 0 && (rank_here != 0 || signals >= STORM));
  collect_store_destroy(served);
  collect_store_destroy(files);
  free(numbers);
  return 0;
}

int main(void) {
  pid_t ranks[SIZE];
  int failed = 0;
  CHECK(mkdtemp(folder) != NULL);
  for (int32_t i = 0; i < SIZE; i++) {
    ranks[i] = fork();
    CHECK(ranks[i] >= 0);
    if (ranks[i] == 0) exit(rank(i));
  }
  for (int32_t i = 0; i < SIZE; i++) {
    int status = -1;
    CHECK(waitpid(ranks[i], &status, 0) == ranks[i]);
    if (status != 0) printf("rank %d: status %x\n", (int)i, (unsigned)status);
    failed |= status != 0;
  }
  CHECK(remove_folder(folder) == 0);
  return failed;
}
