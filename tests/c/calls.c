// ranks: 3
// Every collective that moves or reduces parts, messages around a ring, keyed calls from threads,
// and a batch, between processes.
#include "check.h"
#include <pthread.h>

enum { SIZE = 3, THREADS = 4, ROUNDS = 50 };

static int32_t rank_here;

static collect_call_options call_options(void) {
  collect_call_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  return options;
}

static int32_t value(int32_t rank, int32_t index) { return 100 * rank + index; }

static int gathers(collect_world *world) {
  // Rank r brings r + 1 elements; they go behind each other with a gap of one.
  const size_t counts[SIZE] = {1, 2, 3}, places[SIZE] = {1, 3, 6};
  int32_t mine[SIZE], all[10], back[SIZE] = {0, 0, 0};
  for (int32_t i = 0; i < SIZE; i++)
    mine[i] = value(rank_here, i);
  for (int32_t i = 0; i < 10; i++)
    all[i] = -1;
  const size_t count = counts[rank_here];
  FINE(collect_allgatherv(world, mine, count, all, counts, places, COLLECT_I32, NULL, NULL));
  for (int32_t r = 0; r < SIZE; r++)
    for (int32_t i = 0; i <= r; i++)
      CHECK(all[places[r] + (size_t)i] == value(r, i));
  CHECK(all[0] == -1 && all[2] == -1 && all[5] == -1 && all[9] == -1);
  FINE(collect_scatterv(world, all, counts, places, back, count, COLLECT_I32, 1, NULL, NULL));
  CHECK(memcmp(back, mine, count * sizeof mine[0]) == 0);

  // In place on the root, whose part is in the middle.
  int32_t *part = rank_here == 1 ? all + 1 : mine;
  all[1] = mine[0];
  FINE(collect_gather(world, part, all, 1, COLLECT_I32, 1, NULL, NULL));
  if (rank_here == 1) CHECK(all[0] == value(0, 0) && all[1] == value(1, 0) && all[2] == 200);
  return 0;
}

static int exchanges(collect_world *world) {
  int32_t send[SIZE], recv[SIZE], sum = 0;
  const size_t counts[SIZE] = {1, 1, 1};
  const size_t turned[SIZE] = {2, 1, 0};
  for (int32_t r = 0; r < SIZE; r++)
    send[r] = value(rank_here, r);
  FINE(collect_alltoall(world, send, recv, 1, COLLECT_I32, NULL, NULL));
  for (int32_t r = 0; r < SIZE; r++)
    CHECK(recv[r] == value(r, rank_here));
  FINE(collect_alltoallv(world, send, counts, NULL, recv, counts, turned, COLLECT_I32, NULL, NULL));
  for (int32_t r = 0; r < SIZE; r++)
    CHECK(recv[turned[r]] == value(r, rank_here));
  FINE(collect_reduce_scatter(world, send, &sum, 1, COLLECT_I32, COLLECT_SUM, NULL, NULL));
  CHECK(sum == 300 + 3 * rank_here);
  FINE(collect_scan(world, send, recv, SIZE, COLLECT_I32, COLLECT_MAX, NULL, NULL));
  CHECK(recv[2] == value(rank_here, 2));
  sum = -1;
  FINE(collect_exscan(world, send, &sum, 1, COLLECT_I32, COLLECT_SUM, NULL, NULL));
  CHECK(sum == (rank_here == 0 ? -1 : rank_here == 1 ? 0 : 100));
  return 0;
}

static int messages(collect_world *world) {
  const int32_t next = (rank_here + 1) % SIZE, before = (rank_here + SIZE - 1) % SIZE;
  int32_t mine = value(rank_here, 1), theirs = -1, from = -1, sum = 0;
  collect_request *request = NULL;
  FINE(collect_sendrecv(world, &mine, 1, next, 7, &theirs, 1, before, 7, COLLECT_I32, NULL, NULL));
  CHECK(theirs == value(before, 1));
  if (rank_here != 0) {
    FINE(collect_send(world, &mine, 1, COLLECT_I32, 0, 8, NULL, NULL));
    return 0;
  }
  for (int32_t i = 1; i < SIZE; i++) {
    FINE(collect_recv(world, &theirs, 1, COLLECT_I32, COLLECT_ANY_RANK, 8, NULL, &request));
    FINE(collect_request_wait(request, -1));
    FINE(collect_request_source(request, &from));
    collect_request_free(request);
    CHECK(theirs == value(from, 1));
    sum += from;
  }
  CHECK(sum == 3);
  return 0;
}

struct job {
  collect_world *world;
  uint64_t key;
  int failed;
  pthread_t thread;
};

static int keyed(collect_world *world, uint64_t key) {
  collect_call_options options = call_options();
  options.key = key;
  options.has_key = 1;
  for (int32_t round = 0; round < ROUNDS; round++) {
    int64_t sum = (int64_t)key * 1000 + round;
    const int64_t expected = SIZE * sum;
    FINE(collect_allreduce(world, &sum, &sum, 1, COLLECT_I64, COLLECT_SUM, &options, NULL));
    CHECK(sum == expected);
  }
  return 0;
}

static void *run(void *argument) {
  struct job *job = (struct job *)argument;
  job->failed = keyed(job->world, job->key);
  return NULL;
}

static int threads(collect_world *world) {
  struct job jobs[THREADS];
  for (int32_t i = 0; i < THREADS; i++) {
    jobs[i].world = world;
    jobs[i].key = (uint64_t)((i + rank_here) % THREADS); // in another order on each rank
    CHECK(pthread_create(&jobs[i].thread, NULL, run, &jobs[i]) == 0);
  }
  int failed = 0;
  for (int32_t i = 0; i < THREADS; i++) {
    CHECK(pthread_join(jobs[i].thread, NULL) == 0);
    failed |= jobs[i].failed;
  }
  return failed;
}

// (a, b) is the map x -> a x + b; left first. It is associative, and does not commute.
static void compose(void *user, const void *left, const void *right, void *result, size_t count) {
  const int64_t *l = (const int64_t *)left, *r = (const int64_t *)right;
  int64_t *out = (int64_t *)result;
  (void)user;
  for (size_t i = 0; i < 2 * count; i += 2) {
    out[i] = l[i] * r[i];
    out[i + 1] = l[i + 1] * r[i] + r[i + 1];
  }
}

static int batches(collect_world *world) {
  const int32_t next = (rank_here + 1) % SIZE, before = (rank_here + SIZE - 1) % SIZE;
  int64_t map[2] = {rank_here + 2, rank_here}, all[2];
  int32_t mine = rank_here, theirs = -1;
  collect_call_options options = call_options();
  collect_batch *batch = NULL;
  FINE(collect_reduction_create(compose, NULL, NULL, sizeof map, 0, &options.reduction));
  FINE(collect_batch_create(&batch));
  options.batch = batch;
  FINE(collect_allreduce(world, map, all, 1, COLLECT_U8, COLLECT_CUSTOM, &options, NULL));
  collect_reduction_destroy(options.reduction);
  options.reduction = NULL;
  FINE(collect_sendrecv(world, &mine, 1, next, 1, &theirs, 1, before, 1, COLLECT_I32, &options,
                        NULL));
  for (int32_t round = 0; round < ROUNDS; round++) {
    mine = value(rank_here, round);
    all[0] = theirs = -1;
    FINE(collect_batch_start(batch, NULL));
    // ((x * 2 + 0) * 3 + 1) * 4 + 2
    CHECK(all[0] == 24 && all[1] == 6);
    CHECK(theirs == value(before, round));
  }
  collect_batch_destroy(batch);
  return 0;
}

int main(void) {
  collect_world *world = NULL;
  int32_t size = 0;
  FINE(collect_world_create_from_env(NULL, &world));
  FINE(collect_world_rank(world, &rank_here));
  FINE(collect_world_size(world, &size));
  CHECK(size == SIZE);
  const int failed =
      gathers(world) || exchanges(world) || messages(world) || threads(world) || batches(world);
  FINE(collect_barrier(world, NULL, NULL));
  collect_world_destroy(world);
  return failed;
}
