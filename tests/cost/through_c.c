/*
 * Allreduces through the C ABI under the counter of allocations.c: after a warm-up no thread of the process may
 * allocate or map memory. Started as: through_c COUNT WARM COUNTED, by `collect run`.
 */
#define _GNU_SOURCE
#include <collect/collect.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORLDS 8
#define AT_ONCE 4

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition,                           \
              collect_last_error_message());                                                       \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

static float *buffers;
static size_t count;

static void blocking(collect_world *world)
{
  CHECK(collect_allreduce(world, buffers, buffers, count, COLLECT_F32, COLLECT_MAX, NULL, NULL) ==
        COLLECT_OK);
}

static void requests(collect_world *world)
{
  collect_request *pending[AT_ONCE];
  for (int at = 0; at < AT_ONCE; at++) {
    float *buffer = buffers + (size_t)at * count;
    CHECK(collect_allreduce(world, buffer, buffer, count, COLLECT_F32, COLLECT_MAX, NULL,
                            &pending[at]) == COLLECT_OK);
  }
  for (int at = 0; at < AT_ONCE; at++) {
    CHECK(collect_request_wait(pending[at], 0) == COLLECT_OK);
    collect_request_free(pending[at]);
  }
}

/* A number of the preloaded counter. */
static long number(const char *name)
{
  long (*call)(void);
  *(void **)&call = dlsym(RTLD_DEFAULT, name);
  CHECK(call != NULL);
  return call();
}

static void set(const char *name, int value)
{
  void (*call)(int);
  *(void **)&call = dlsym(RTLD_DEFAULT, name);
  CHECK(call != NULL);
  call(value);
}

/* Nobody leaves a world, or begins another load, while others count. */
static void meet(collect_world **worlds, int many)
{
  for (int at = 0; at < many; at++)
    CHECK(collect_barrier(worlds[at], NULL, NULL) == COLLECT_OK);
}

static void load(collect_world **worlds, int many, void (*form)(collect_world *), int warm,
                 int counted)
{
  for (int at = 0; at < warm; at++)
    form(worlds[at % many]);
  meet(worlds, many);
  set("cost_switch", 1);
  for (int at = 0; at < counted; at++)
    form(worlds[at % many]);
  set("cost_switch", 0);
  meet(worlds, many);
  if (number("cost_allocations") != 0 || number("cost_mappings") != 0) {
    set("cost_report", 2);
    fprintf(stderr, "%d worlds, %zu elements, %s: %ld allocations, %ld mappings\n", many, count,
            form == blocking ? "blocking" : "requests", number("cost_allocations"),
            number("cost_mappings"));
    exit(1);
  }
}

int main(int argc, char **argv)
{
  collect_world *worlds[WORLDS];
  CHECK(argc == 4);
  count = strtoul(argv[1], NULL, 10);
  const int warm = atoi(argv[2]), counted = atoi(argv[3]);
  buffers = calloc(AT_ONCE * count, sizeof *buffers);
  CHECK(buffers != NULL);
  memset(buffers, 0, AT_ONCE * count * sizeof *buffers);
  CHECK(collect_world_create_from_env(NULL, &worlds[0]) == COLLECT_OK);
  for (int at = 1; at < WORLDS; at++)
    CHECK(collect_world_fork(worlds[0], NULL, &worlds[at]) == COLLECT_OK);
  for (int many = 1; many <= WORLDS; many += WORLDS - 1) {
    load(worlds, many, blocking, warm, counted);
    load(worlds, many, requests, warm / AT_ONCE, counted / AT_ONCE);
  }
  for (int at = 0; at < WORLDS; at++)
    collect_world_destroy(worlds[at]);
  free(buffers);
  return 0;
}
