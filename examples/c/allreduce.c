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
