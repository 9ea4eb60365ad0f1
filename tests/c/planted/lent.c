// Faults of a caller, one for each word that it takes, which a sanitizer must find: `freed` frees a
// buffer that is lent, `raced` writes to it, `leaked` loses requests.
#define _POSIX_C_SOURCE 200112L
#include "../check.h"
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { COUNT = 1000 };

static collect_store *store;

static int join(int32_t rank, collect_world **world) {
  FINE(collect_world_create(store, rank, 2, NULL, world));
  return 0;
}

// Rank 1 contributes once rank 0 has told it to, which is when that one's buffer has gone.
static void *contribute(void *told) {
  collect_world *world = NULL;
  float numbers[COUNT] = {0};
  char byte;
  if (join(1, &world) != 0 || read(*(int *)told, &byte, 1) != 1) abort();
  if (collect_allreduce(world, numbers, numbers, COUNT, COLLECT_F32, COLLECT_SUM, NULL, NULL) !=
      COLLECT_OK)
    abort();
  collect_world_destroy(world);
  return NULL;
}

static int misuse_a_lent_buffer(int is_freed) {
  collect_world *world = NULL;
  collect_request *request = NULL;
  float *numbers = (float *)calloc(COUNT, sizeof *numbers);
  pthread_t thread;
  int told[2];
  CHECK(numbers != NULL && pipe(told) == 0);
  CHECK(pthread_create(&thread, NULL, contribute, &told[0]) == 0);
  if (join(0, &world) != 0) return 1;
  FINE(collect_allreduce(world, numbers, numbers, COUNT, COLLECT_F32, COLLECT_SUM, NULL, &request));
  if (is_freed) free(numbers);
  CHECK(write(told[1], "!", 1) == 1);
  // The library's own thread goes on with it meanwhile.
  for (int i = 0; i < 1000 && !is_freed; i++) {
    numbers[0] += 1;
    poll(NULL, 0, 1);
  }
  FINE(collect_request_wait(request, -1));
  collect_request_free(request);
  CHECK(pthread_join(thread, NULL) == 0);
  collect_world_destroy(world);
  if (!is_freed) free(numbers);
  return 0;
}

static int lose_requests(void) {
  collect_world *world = NULL;
  FINE(collect_world_create(store, 0, 1, NULL, &world));
  for (int i = 0; i < 10; i++) {
    collect_request *request = NULL;
    FINE(collect_barrier(world, NULL, &request));
    FINE(collect_request_wait(request, -1));
  }
  collect_world_destroy(world);
  return 0;
}

int main(int argc, char **argv) {
  const char *fault = argc == 2 ? argv[1] : "";
  int failed = 2;
  FINE(collect_store_create_hash(&store));
  if (strcmp(fault, "freed") == 0) failed = misuse_a_lent_buffer(1);
  if (strcmp(fault, "raced") == 0) failed = misuse_a_lent_buffer(0);
  if (strcmp(fault, "leaked") == 0) failed = lose_requests();
  collect_store_destroy(store);
  return failed;
}
