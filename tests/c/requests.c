// Requests, in a world of one rank over a store in memory: waits for several, callbacks,
// descriptors.
#define _POSIX_C_SOURCE 200112L
#include <collect/collect.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      printf("%s:%d: %s\nlast error: %s\n", __FILE__, __LINE__, #condition,                        \
             collect_last_error_message());                                                        \
      return 1;                                                                                    \
    }                                                                                              \
  } while (0)

#define FINE(call) CHECK((call) == COLLECT_OK)
#define REFUSED(call) CHECK((call) == COLLECT_ERR_INVALID_ARGUMENT)
#define LAST_TEXT_HAS(text) CHECK(strstr(collect_last_error_message(), (text)) != NULL)

// What a callback was called with; it tells through a pipe that it was.
typedef struct {
  int pipe[2];
  int32_t status;
  size_t message_bytes;
} note;

static void complete(void *user, collect_status status, const char *message) {
  note *said = (note *)user;
  said->status = status;
  said->message_bytes = strlen(message);
  if (write(said->pipe[1], "!", 1) != 1) abort();
}

static int callbacks_run_also_for_freed_requests(collect_world *world) {
  note said;
  char byte;
  collect_request *request = NULL;
  CHECK(pipe(said.pipe) == 0);
  for (int round = 0; round < 100; round++) {
    said.status = 77;
    FINE(collect_barrier(world, NULL, &request));
    REFUSED(collect_request_on_complete(request, NULL, &said));
    LAST_TEXT_HAS("function must not be NULL");
    FINE(collect_request_on_complete(request, complete, &said));
    collect_request_free(request);
    CHECK(read(said.pipe[0], &byte, 1) == 1);
    CHECK(said.status == COLLECT_OK && said.message_bytes == 0);
  }
  close(said.pipe[0]);
  close(said.pipe[1]);
  return 0;
}

// A chain of barriers, each started by the callback of the one before.
typedef struct {
  note said;
  collect_world *world;
  int left;
} chain;

static void go_on(void *user, collect_status status, const char *message) {
  chain *all = (chain *)user;
  collect_request *request = NULL;
  if (status != COLLECT_OK || all->left-- == 0) {
    complete(&all->said, status, message);
    return;
  }
  if (collect_barrier(all->world, NULL, &request) != COLLECT_OK) abort();
  if (collect_request_on_complete(request, go_on, all) != COLLECT_OK) abort();
  collect_request_free(request);
}

static int callbacks_start_operations(collect_world *world) {
  chain all;
  char byte;
  all.world = world;
  all.left = 100;
  CHECK(pipe(all.said.pipe) == 0);
  go_on(&all, COLLECT_OK, "");
  CHECK(read(all.said.pipe[0], &byte, 1) == 1);
  CHECK(all.said.status == COLLECT_OK);
  close(all.said.pipe[0]);
  close(all.said.pipe[1]);
  return 0;
}

static int descriptors_are_closed_with_their_request(collect_world *world) {
  struct pollfd entry = {-1, POLLIN, 0};
  int again = -1;
  collect_request *request = NULL;
  FINE(collect_barrier(world, NULL, &request));
  REFUSED(collect_request_eventfd(request, NULL));
  FINE(collect_request_eventfd(request, &entry.fd));
  CHECK(poll(&entry, 1, 60000) == 1 && (entry.revents & POLLIN) != 0);
  FINE(collect_request_test(request));
  FINE(collect_request_eventfd(request, &again));
  CHECK(again == entry.fd);
  collect_request_free(request);
  CHECK(poll(&entry, 1, 0) == 1 && (entry.revents & POLLNVAL) != 0);
  return 0;
}

static int several_requests(collect_world *world) {
  collect_request *requests[3] = {NULL, NULL, NULL};
  size_t index = 77;
  FINE(collect_barrier(world, NULL, &requests[1]));
  REFUSED(collect_request_wait_any(requests, 3, 0, NULL));
  FINE(collect_request_wait_any(requests, 3, 0, &index));
  CHECK(index == 1);
  requests[2] = requests[1]; // twice in the list
  FINE(collect_request_wait_any(requests + 1, 2, INT64_MAX, &index));
  CHECK(index == 0);
  FINE(collect_request_wait_all(requests, 3, -1));
  FINE(collect_barrier(world, NULL, &requests[0]));
  FINE(collect_request_wait_all(requests, 3, 60000000000));
  collect_request_free(requests[0]);
  collect_request_free(requests[1]);
  return 0;
}

static int only_receives_have_a_source(collect_world *world) {
  int32_t rank = 77;
  collect_request *request = NULL;
  FINE(collect_barrier(world, NULL, &request));
  REFUSED(collect_request_source(request, NULL));
  REFUSED(collect_request_source(request, &rank));
  FINE(collect_request_wait(request, -1));
  REFUSED(collect_request_source(request, &rank));
  LAST_TEXT_HAS("received no message");
  CHECK(rank == 77);
  collect_request_free(request);
  return 0;
}

int main(void) {
  collect_store *store = NULL;
  collect_world *world = NULL;
  FINE(collect_store_create_hash(&store));
  FINE(collect_world_create(store, 0, 1, NULL, &world));
  const int failed = callbacks_run_also_for_freed_requests(world) ||
                     callbacks_start_operations(world) ||
                     descriptors_are_closed_with_their_request(world) || several_requests(world) ||
                     only_receives_have_a_source(world);
  collect_world_destroy(world);
  collect_store_destroy(store);
  return failed;
}
