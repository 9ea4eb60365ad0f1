// Both ranks of a world in one process, and threads that act for one of them.
#ifndef COLLECT_TESTS_PAIR_H
#define COLLECT_TESTS_PAIR_H

#include "check.h"
#include <pthread.h>
#include <time.h>

// A rank, created or destroyed on a thread of its own.
typedef struct {
  pthread_t thread;
  collect_store *store;
  const collect_world_options *options;
  collect_world *world;
  int32_t rank;
  collect_status status;
} pair_rank;

static inline void *pair_create(void *argument) {
  pair_rank *mine = (pair_rank *)argument;
  mine->status = collect_world_create(mine->store, mine->rank, 2, mine->options, &mine->world);
  if (mine->status != COLLECT_OK)
    printf("create rank %d: %s\n", (int)mine->rank, collect_last_error_message());
  return NULL;
}

static inline void *pair_fork(void *argument) {
  pair_rank *mine = (pair_rank *)argument;
  collect_world *parent = mine->world;
  mine->status = collect_world_fork(parent, NULL, &mine->world);
  if (mine->status != COLLECT_OK)
    printf("fork on rank %d: %s\n", (int)mine->rank, collect_last_error_message());
  return NULL;
}

static inline void *pair_destroy(void *argument) {
  collect_world_destroy(((pair_rank *)argument)->world);
  return NULL;
}

// Runs `act` for both ranks at a time.
static inline int pair_run(void *(*act)(void *), pair_rank ranks[2]) {
  for (int32_t i = 0; i < 2; i++)
    CHECK(pthread_create(&ranks[i].thread, NULL, act, &ranks[i]) == 0);
  for (int32_t i = 0; i < 2; i++)
    CHECK(pthread_join(ranks[i].thread, NULL) == 0);
  return 0;
}

// Creates both ranks of a world over a store in memory.
static inline int pair_open(const collect_world_options *options, collect_world *worlds[2]) {
  pair_rank ranks[2];
  collect_store *store = NULL;
  memset(ranks, 0, sizeof ranks);
  FINE(collect_store_create_hash(&store));
  for (int32_t i = 0; i < 2; i++) {
    ranks[i].store = store;
    ranks[i].options = options;
    ranks[i].rank = i;
  }
  if (pair_run(pair_create, ranks)) return 1;
  collect_store_destroy(store);
  for (int32_t i = 0; i < 2; i++) {
    CHECK(ranks[i].status == COLLECT_OK);
    worlds[i] = ranks[i].world;
  }
  return 0;
}

// Forks a world on both ranks: the fork shares its connections.
static inline int pair_fork_of(collect_world *const worlds[2], collect_world *forks[2]) {
  pair_rank ranks[2];
  memset(ranks, 0, sizeof ranks);
  for (int32_t i = 0; i < 2; i++) {
    ranks[i].world = worlds[i];
    ranks[i].rank = i;
  }
  if (pair_run(pair_fork, ranks)) return 1;
  for (int32_t i = 0; i < 2; i++) {
    CHECK(ranks[i].status == COLLECT_OK);
    forks[i] = ranks[i].world;
  }
  return 0;
}

// Destroys both ranks at a time, so that neither waits for the other.
static inline int pair_close(collect_world *worlds[2]) {
  pair_rank ranks[2];
  memset(ranks, 0, sizeof ranks);
  for (int32_t i = 0; i < 2; i++)
    ranks[i].world = worlds[i];
  return pair_run(pair_destroy, ranks);
}

static inline collect_world_options world_options(void) {
  collect_world_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.listen = "127.0.0.1";
  return options;
}

static inline collect_call_options call_options(void) {
  collect_call_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  return options;
}

static inline collect_fork_options fork_options(void) {
  collect_fork_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  return options;
}

static inline void pause_ns(int64_t ns) {
  struct timespec left;
  left.tv_sec = (time_t)(ns / 1000000000);
  left.tv_nsec = (long)(ns % 1000000000);
  while (nanosleep(&left, &left) != 0) {
  }
}

#endif
