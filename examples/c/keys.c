// Averages the layers of a model from several threads, each layer as soon as its gradients are
// there. The threads have no order among them: calls with equal keys match, on all ranks. Build and
// start four ranks:
//   cc -pthread keys.c -o keys $(pkg-config --cflags --libs collect)
//   collect run -n 4 -- ./keys
#include <collect/collect.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { LAYERS = 6, ELEMENTS = 1000 };

struct layer {
  collect_world *world;
  uint64_t number;
  float gradients[ELEMENTS];
  int failed;
  pthread_t thread;
};

static void *average(void *argument) {
  struct layer *layer = (struct layer *)argument;
  collect_call_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.key = layer->number;
  options.has_key = 1;

  // All threads share one world. Whichever comes first on this rank, and in whatever order they
  // come on the others.
  const collect_status status =
      collect_allreduce(layer->world, layer->gradients, layer->gradients, ELEMENTS, COLLECT_F32,
                        COLLECT_AVG, &options, NULL);
  layer->failed = status != COLLECT_OK;
  if (layer->failed) fprintf(stderr, "%s\n", collect_last_error_message());
  return NULL;
}

int main(void) {
  static struct layer layers[LAYERS];
  collect_world *world = NULL;
  int32_t rank = 0;
  int failed = 0;
  if (collect_world_create_from_env(NULL, &world) != COLLECT_OK ||
      collect_world_rank(world, &rank) != COLLECT_OK) {
    fprintf(stderr, "%s\n", collect_last_error_message());
    return 1;
  }

  for (uint64_t i = 0; i < LAYERS; i++) {
    layers[i].world = world;
    layers[i].number = i;
    for (int at = 0; at < ELEMENTS; at++)
      layers[i].gradients[at] = (float)(10 * i) + (float)rank;
    if (pthread_create(&layers[i].thread, NULL, average, &layers[i]) != 0) return 1;
  }
  for (int i = 0; i < LAYERS; i++) {
    pthread_join(layers[i].thread, NULL);
    failed |= layers[i].failed;
    if (rank == 0) printf("layer %d: %g\n", i, layers[i].gradients[ELEMENTS - 1]);
  }
  collect_world_destroy(world);
  return failed;
}
