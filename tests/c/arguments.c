// Every mistake that a caller can make gets an error and nothing else, and what is right is served:
// in a world of one rank, over a store in memory.
//
// arguments [FILE]: FILE is a regular file, by default this program; a store below it cannot be
// written.
#define _POSIX_C_SOURCE 200112L
#include "check.h"
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

static int before_the_first_failure(void) {
  int32_t rank = 7;
  CHECK(collect_version_number() == COLLECT_VERSION_NUMBER);
  CHECK(strcmp(collect_last_error_message(), "") == 0);
  FINE(collect_last_error_rank(&rank));
  CHECK(rank == -1);
  REFUSED(collect_last_error_rank(NULL));
  LAST_TEXT_HAS("rank must not be NULL");
  return 0;
}

static int statuses(void) {
  CHECK(strcmp(collect_status_name(COLLECT_OK), "COLLECT_OK") == 0);
  CHECK(strcmp(collect_status_name(COLLECT_ERR_PEER_LOST), "COLLECT_ERR_PEER_LOST") == 0);
  CHECK(strcmp(collect_status_name(12345), "unknown collect_status") == 0);
  CHECK(collect_status_group(COLLECT_IN_PROGRESS) == COLLECT_GROUP_NONE);
  CHECK(COLLECT_INTERRUPTED > 0 && COLLECT_INTERRUPTED != COLLECT_IN_PROGRESS);
  CHECK(collect_status_group(COLLECT_INTERRUPTED) == COLLECT_GROUP_NONE);
  CHECK(strcmp(collect_status_name(COLLECT_INTERRUPTED), "COLLECT_INTERRUPTED") == 0);
  CHECK(collect_status_group(COLLECT_ERR_FORKED) == COLLECT_GROUP_CALLER);
  CHECK(collect_status_group(COLLECT_ERR_STORE) == COLLECT_GROUP_CALL);
  CHECK(collect_status_group(COLLECT_ERR_ABORTED) == COLLECT_GROUP_WORLD);
  return 0;
}

static int types(void) {
  size_t bytes = 77;
  FINE(collect_datatype_size(COLLECT_F16, &bytes));
  CHECK(bytes == 2);
  REFUSED(collect_datatype_size(0, &bytes));
  REFUSED(collect_datatype_size(16, &bytes));
  REFUSED(collect_datatype_size(COLLECT_F16, NULL));
  CHECK(bytes == 2);
  return 0;
}

// A port at which nobody listens, as long as `*descriptor` is open; 0 if there is none.
static unsigned silent_port(int *descriptor) {
  struct sockaddr_in address;
  socklen_t length = sizeof address;
  memset(&address, 0, sizeof address);
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  *descriptor = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(*descriptor, (struct sockaddr *)&address, length) != 0) return 0;
  if (getsockname(*descriptor, (struct sockaddr *)&address, &length) != 0) return 0;
  return ntohs(address.sin_port);
}

static int stores_that_cannot_be_used(const char *file) {
  const int64_t short_ns = 200000000;
  char url[4200];
  int descriptor = -1;
  collect_store *store = NULL;
  REFUSED(collect_store_open("file:/tmp", 0, NULL));
  REFUSED(collect_store_open("", 0, &store));
  REFUSED(collect_store_open("carrier-pigeon://coop", 0, &store));
  REFUSED(collect_store_open("file:\xff", 0, &store));

  snprintf(url, sizeof url, "file:%s/below", file);
  const collect_status unwritable = collect_store_open(url, 0, &store);
  CHECK(collect_status_group(unwritable) == COLLECT_GROUP_CALL);
  LAST_TEXT_HAS("below");

  const unsigned port = silent_port(&descriptor);
  CHECK(port != 0);
  snprintf(url, sizeof url, "tcp://127.0.0.1:%u", port);
  CHECK(collect_store_open(url, short_ns, &store) == COLLECT_ERR_TIMED_OUT);
  LAST_TEXT_HAS(url + strlen("tcp://"));
  close(descriptor);

  CHECK(store == NULL);
  collect_store_destroy(NULL);
  return 0;
}

static int store(collect_store *store) {
  char buffer[8] = "untouch";
  size_t bytes = 77;
  uint64_t count = 77;
  REFUSED(collect_store_create_hash(NULL));
  REFUSED(collect_store_set(NULL, "key", "value", 5, 0));
  REFUSED(collect_store_set(store, NULL, "value", 5, 0));
  REFUSED(collect_store_set(store, "", "value", 5, 0));
  REFUSED(collect_store_set(store, "key", NULL, 5, 0));
  REFUSED(collect_store_set(store, "key", "value", (size_t)-1, 0));
  FINE(collect_store_set(store, "key", "value", 5, 0));

  REFUSED(collect_store_get(NULL, "key", 0, buffer, 8, &bytes));
  REFUSED(collect_store_get(store, NULL, 0, buffer, 8, &bytes));
  REFUSED(collect_store_get(store, "key", 0, NULL, 8, &bytes));
  REFUSED(collect_store_get(store, "key", 0, buffer, 8, NULL));
  REFUSED(collect_store_get(store, "key", 0, buffer, 4, &bytes));
  LAST_TEXT_HAS("5 bytes");
  CHECK(collect_store_get(store, "absent", 1000000, buffer, 8, &bytes) == COLLECT_ERR_TIMED_OUT);
  LAST_TEXT_HAS("absent");
  CHECK(bytes == 77 && strcmp(buffer, "untouch") == 0);
  FINE(collect_store_get(store, "key", 0, buffer, 8, &bytes));
  CHECK(bytes == 5 && memcmp(buffer, "valuech", 8) == 0);

  FINE(collect_store_set(store, "empty", NULL, 0, -1));
  FINE(collect_store_get(store, "empty", -1, NULL, 0, &bytes));
  CHECK(bytes == 0);

  REFUSED(collect_store_operations(NULL, &count));
  REFUSED(collect_store_operations(store, NULL));
  REFUSED(collect_store_bytes_read(NULL, &count));
  REFUSED(collect_store_bytes_read(store, NULL));
  CHECK(count == 77);
  FINE(collect_store_operations(store, &count));
  CHECK(count >= 5);
  FINE(collect_store_bytes_read(store, &count));
  CHECK(count >= 5);
  return 0;
}

static int32_t refuse(void *user, const void *mine, size_t bytes, void *all) {
  (void)mine;
  (void)all;
  *(size_t *)user = bytes;
  return 3;
}

static int creations_that_are_refused(collect_store *store) {
  collect_world *world = NULL;
  collect_world_options options;
  size_t bytes = 0;
  memset(&options, 0, sizeof options);
  REFUSED(collect_world_create(NULL, 0, 1, NULL, &world));
  REFUSED(collect_world_create(store, 0, 1, NULL, NULL));
  REFUSED(collect_world_create(store, 0, 1, &options, &world)); // struct_size was not set
  options.struct_size = sizeof options;
  REFUSED(collect_world_create(store, -1, 1, &options, &world));
  REFUSED(collect_world_create(store, 0, -1, &options, &world));
  REFUSED(collect_world_create(store, 0, 0, &options, &world));
  REFUSED(collect_world_create(store, 1, 1, &options, &world));
  options.wait = 3;
  REFUSED(collect_world_create(store, 0, 1, &options, &world));
  LAST_TEXT_HAS("3 is no collect_wait");
  options.wait = COLLECT_WAIT_BLOCK;
  options.connect = -1;
  REFUSED(collect_world_create(store, 0, 1, &options, &world));
  options.connect = COLLECT_CONNECT_EAGER;
  options.name = "\xff";
  REFUSED(collect_world_create(store, 0, 1, &options, &world));

  REFUSED(collect_world_create_from_env(NULL, NULL));
  REFUSED(collect_world_create_with_exchange(NULL, NULL, 0, 1, NULL, &world));
  REFUSED(collect_world_create_with_exchange(refuse, &bytes, 0, 1, NULL, NULL));
  REFUSED(collect_world_create_with_exchange(refuse, &bytes, 2, 2, NULL, &world));
  CHECK(bytes == 0);
  CHECK(collect_world_create_with_exchange(refuse, &bytes, 0, 2, NULL, &world) ==
        COLLECT_ERR_STORE);
  LAST_TEXT_HAS("returned 3");
  CHECK(bytes == 1024);
  CHECK(world == NULL);
  return 0;
}

// As a later header may have them.
typedef struct {
  collect_world_options now;
  int64_t later;
} newer_world_options;

static int newer_and_older_world_options(collect_store *store) {
  newer_world_options newer;
  collect_world *world = NULL;
  memset(&newer, 0, sizeof newer);
  newer.now.struct_size = sizeof newer.now;
  newer.now.interruptible = 2;
  REFUSED(collect_world_create(store, 0, 1, &newer.now, &world));
  LAST_TEXT_HAS("interruptible must be 0 or 1, it is 2");
  newer.now.interruptible = -1;
  REFUSED(collect_world_create(store, 0, 1, &newer.now, &world));
  newer.now.checksum = 2; // before it
  REFUSED(collect_world_create(store, 0, 1, &newer.now, &world));
  LAST_TEXT_HAS("checksum must be 0 or 1, it is 2");
  newer.now.checksum = -1;
  REFUSED(collect_world_create(store, 0, 1, &newer.now, &world));
  CHECK(world == NULL);

  // What the struct of an older header lacks is not looked at.
  newer.now.struct_size = offsetof(collect_world_options, heartbeat_ns);
  FINE(collect_world_create(store, 0, 1, &newer.now, &world));
  collect_world_destroy(world);
  world = NULL;

  newer.now.struct_size = sizeof newer;
  newer.now.checksum = newer.now.interruptible = 1;
  newer.now.heartbeat_ns = newer.now.destroy_timeout_ns = INT64_MIN;
  FINE(collect_world_create(store, 0, 1, &newer.now, &world));
  FINE(collect_barrier(world, NULL, NULL));
  collect_world_destroy(world);
  world = NULL;
  newer.later = 1;
  CHECK(collect_world_create(store, 0, 1, &newer.now, &world) == COLLECT_ERR_UNSUPPORTED);
  LAST_TEXT_HAS("does not know");
  newer.now.struct_size = 4097;
  REFUSED(collect_world_create(store, 0, 1, &newer.now, &world));
  CHECK(world == NULL);
  return 0;
}

static int accessors(collect_world *world) {
  int32_t value = 77;
  const char *name = NULL;
  REFUSED(collect_world_rank(NULL, &value));
  REFUSED(collect_world_rank(world, NULL));
  REFUSED(collect_world_size(NULL, &value));
  REFUSED(collect_world_size(world, NULL));
  REFUSED(collect_world_local_rank(NULL, &value));
  REFUSED(collect_world_local_rank(world, NULL));
  REFUSED(collect_world_local_size(NULL, &value));
  REFUSED(collect_world_local_size(world, NULL));
  REFUSED(collect_world_host_index(NULL, &value));
  REFUSED(collect_world_host_index(world, NULL));
  REFUSED(collect_world_name(NULL, &name));
  REFUSED(collect_world_name(world, NULL));
  REFUSED(collect_world_error(NULL));
  CHECK(value == 77 && name == NULL);

  FINE(collect_world_rank(world, &value));
  CHECK(value == 0);
  FINE(collect_world_size(world, &value));
  CHECK(value == 1);
  FINE(collect_world_local_rank(world, &value));
  CHECK(value == 0);
  FINE(collect_world_local_size(world, &value));
  CHECK(value == 1);
  FINE(collect_world_host_index(world, &value));
  CHECK(value == 0);
  FINE(collect_world_name(world, &name));
  CHECK(strcmp(name, "solo") == 0);
  FINE(collect_world_error(world));
  return 0;
}

static int allreduces(collect_world *world) {
  const float send[2] = {1.0F, 2.0F};
  float recv[2] = {0.0F, 0.0F};
  const size_t too_many = (size_t)-1 / 8 + 1;
  REFUSED(collect_allreduce(NULL, send, recv, 2, COLLECT_F32, COLLECT_SUM, NULL, NULL));
  LAST_TEXT_HAS("world must not be NULL");
  REFUSED(collect_allreduce(world, NULL, recv, 2, COLLECT_F32, COLLECT_SUM, NULL, NULL));
  REFUSED(collect_allreduce(world, send, NULL, 2, COLLECT_F32, COLLECT_SUM, NULL, NULL));
  REFUSED(collect_allreduce(world, send, recv, 2, 0, COLLECT_SUM, NULL, NULL));
  REFUSED(collect_allreduce(world, send, recv, 2, 77, COLLECT_SUM, NULL, NULL));
  REFUSED(collect_allreduce(world, send, recv, 2, COLLECT_F32, 0, NULL, NULL));
  REFUSED(collect_allreduce(world, send, recv, 2, COLLECT_F32, 11, NULL, NULL));
  REFUSED(collect_allreduce(world, send, recv, 2, COLLECT_F32, COLLECT_BXOR, NULL, NULL));
  REFUSED(collect_allreduce(world, send, recv, (size_t)-1, COLLECT_F32, COLLECT_SUM, NULL, NULL));
  REFUSED(collect_allreduce(world, send, recv, too_many, COLLECT_F64, COLLECT_SUM, NULL, NULL));
  REFUSED(collect_allreduce(world, recv, recv + 1, 2, COLLECT_F32, COLLECT_SUM, NULL, NULL));
  CHECK(recv[0] == 0.0F && recv[1] == 0.0F);
  FINE(collect_world_error(world));

  FINE(collect_allreduce(world, NULL, NULL, 0, COLLECT_F32, COLLECT_SUM, NULL, NULL));
  FINE(collect_allreduce(world, send, recv, 2, COLLECT_F32, COLLECT_SUM, NULL, NULL));
  CHECK(recv[0] == 1.0F && recv[1] == 2.0F);
  FINE(collect_allreduce(world, recv, recv, 2, COLLECT_F32, COLLECT_AVG, NULL, NULL));
  CHECK(recv[0] == 1.0F && recv[1] == 2.0F);
  return 0;
}

static int allreduces_of_several_buffers(collect_world *world) {
  int32_t values[3] = {1, 2, 3};
  int32_t many_values[70];
  void *buffers[3] = {&values[0], &values[1], &values[2]};
  void *holed[2] = {&values[0], NULL};
  void *same[2] = {&values[0], &values[0]};
  void *many[70];
  for (int32_t i = 0; i < 70; i++) {
    many_values[i] = i;
    many[i] = &many_values[i];
  }
  REFUSED(collect_allreduce_multi(NULL, buffers, 3, 1, COLLECT_I32, COLLECT_SUM, NULL, NULL));
  REFUSED(collect_allreduce_multi(world, NULL, 3, 1, COLLECT_I32, COLLECT_SUM, NULL, NULL));
  REFUSED(collect_allreduce_multi(world, buffers, 0, 1, COLLECT_I32, COLLECT_SUM, NULL, NULL));
  REFUSED(collect_allreduce_multi(world, buffers, 1025, 1, COLLECT_I32, COLLECT_SUM, NULL, NULL));
  REFUSED(
      collect_allreduce_multi(world, buffers, (size_t)-1, 1, COLLECT_I32, COLLECT_SUM, NULL, NULL));
  REFUSED(
      collect_allreduce_multi(world, buffers, 3, (size_t)-1, COLLECT_I32, COLLECT_SUM, NULL, NULL));
  REFUSED(collect_allreduce_multi(world, holed, 2, 1, COLLECT_I32, COLLECT_SUM, NULL, NULL));
  REFUSED(collect_allreduce_multi(world, same, 2, 1, COLLECT_I32, COLLECT_SUM, NULL, NULL));
  REFUSED(collect_allreduce_multi(world, buffers, 3, 1, 77, COLLECT_SUM, NULL, NULL));
  REFUSED(collect_allreduce_multi(world, buffers, 3, 1, COLLECT_I32, 77, NULL, NULL));
  CHECK(values[0] == 1 && values[1] == 2 && values[2] == 3);

  FINE(collect_allreduce_multi(world, holed, 2, 0, COLLECT_I32, COLLECT_SUM, NULL, NULL));
  FINE(collect_allreduce_multi(world, buffers, 3, 1, COLLECT_I32, COLLECT_SUM, NULL, NULL));
  CHECK(values[0] == 6 && values[1] == 6 && values[2] == 6);
  FINE(collect_allreduce_multi(world, many, 70, 1, COLLECT_I32, COLLECT_MAX, NULL, NULL));
  CHECK(many_values[0] == 69 && many_values[69] == 69);
  return 0;
}

static int broadcasts_and_barriers(collect_world *world) {
  double value = 4.0;
  REFUSED(collect_broadcast(NULL, &value, 1, COLLECT_F64, 0, NULL, NULL));
  REFUSED(collect_broadcast(world, NULL, 1, COLLECT_F64, 0, NULL, NULL));
  REFUSED(collect_broadcast(world, &value, 1, 77, 0, NULL, NULL));
  REFUSED(collect_broadcast(world, &value, 1, COLLECT_F64, 1, NULL, NULL));
  REFUSED(collect_broadcast(world, &value, 1, COLLECT_F64, -1, NULL, NULL));
  REFUSED(collect_broadcast(world, &value, (size_t)-1, COLLECT_F64, 0, NULL, NULL));
  REFUSED(collect_barrier(NULL, NULL, NULL));
  REFUSED(collect_reduce(NULL, &value, &value, 1, COLLECT_F64, COLLECT_SUM, 0, NULL, NULL));
  REFUSED(collect_reduce(world, NULL, &value, 1, COLLECT_F64, COLLECT_SUM, 0, NULL, NULL));
  REFUSED(collect_reduce(world, &value, NULL, 1, COLLECT_F64, COLLECT_SUM, 0, NULL, NULL));
  REFUSED(collect_reduce(world, &value, &value, 1, COLLECT_F64, COLLECT_SUM, 1, NULL, NULL));
  REFUSED(collect_reduce(world, &value, &value, 1, COLLECT_F64, COLLECT_BOR, 0, NULL, NULL));
  FINE(collect_reduce(world, &value, &value, 1, COLLECT_F64, COLLECT_SUM, 0, NULL, NULL));
  REFUSED(collect_allgather(NULL, &value, &value, 1, COLLECT_F64, NULL, NULL));
  REFUSED(collect_allgather(world, &value, NULL, 1, COLLECT_F64, NULL, NULL));
  REFUSED(collect_allgather(world, &value, &value, 1, 0, NULL, NULL));
  REFUSED(collect_allgather(world, &value, &value, (size_t)-1, COLLECT_F64, NULL, NULL));
  FINE(collect_allgather(world, &value, &value, 1, COLLECT_F64, NULL, NULL));
  FINE(collect_allgather(world, NULL, NULL, 0, COLLECT_F64, NULL, NULL));
  FINE(collect_broadcast(world, NULL, 0, COLLECT_F64, 0, NULL, NULL));
  FINE(collect_broadcast(world, &value, 1, COLLECT_F64, 0, NULL, NULL));
  CHECK(value == 4.0);
  FINE(collect_barrier(world, NULL, NULL));
  return 0;
}

static int requests(collect_world *world) {
  float value = 5.0F;
  collect_request *request = NULL;
  collect_request *none[2] = {NULL, NULL};
  size_t index = 77;
  int32_t number = 77;
  REFUSED(collect_request_test(NULL));
  REFUSED(collect_request_wait(NULL, 0));
  REFUSED(collect_request_wait_any(NULL, 1, 0, &index));
  LAST_TEXT_HAS("requests must not be NULL");
  REFUSED(collect_request_wait_any(NULL, 0, 0, &index));
  REFUSED(collect_request_wait_any(none, 2, 0, &index));
  LAST_TEXT_HAS("no request");
  REFUSED(collect_request_wait_all(NULL, 1, 0));
  REFUSED(collect_request_wait_all(NULL, 0, 0));
  REFUSED(collect_request_wait_all(none, 2, 0));
  REFUSED(collect_request_on_complete(NULL, NULL, NULL));
  REFUSED(collect_request_eventfd(NULL, &number));
  REFUSED(collect_request_source(NULL, &number));
  CHECK(index == 77 && number == 77);
  collect_request_free(NULL);
  REFUSED(collect_allreduce(world, &value, &value, 1, 77, COLLECT_SUM, NULL, &request));
  CHECK(request == NULL);

  for (int round = 0; round < 1000; round++) {
    FINE(collect_allreduce(world, &value, &value, 1, COLLECT_F32, COLLECT_SUM, NULL, &request));
    CHECK(collect_request_test(request) >= 0);
    CHECK(collect_request_wait(request, 0) >= 0);
    FINE(collect_request_wait(request, -1));
    FINE(collect_request_wait(request, 0));
    FINE(collect_request_test(request));
    collect_request_free(request);
  }
  CHECK(value == 5.0F);

  FINE(collect_barrier(world, NULL, &request));
  collect_request_free(request); // perhaps in flight
  FINE(collect_broadcast(world, &value, 1, COLLECT_F32, 0, NULL, &request));
  FINE(collect_request_wait(request, INT64_MAX));
  collect_request_free(request);
  return 0;
}

static int forks(collect_world *parent) {
  const int32_t twice[2] = {0, 0};
  const int32_t self[1] = {0};
  const char *name = NULL;
  collect_world *world = NULL;
  collect_fork_options options;
  memset(&options, 0, sizeof options);
  REFUSED(collect_world_fork(NULL, NULL, &world));
  REFUSED(collect_world_fork(parent, NULL, NULL));
  REFUSED(collect_world_fork(parent, &options, &world));
  options.struct_size = sizeof options;
  options.members_count = 1;
  REFUSED(collect_world_fork(parent, &options, &world));
  LAST_TEXT_HAS("members must not be NULL");
  options.members = twice;
  options.members_count = 2;
  REFUSED(collect_world_fork(parent, &options, &world));
  options.members_count = 0;
  REFUSED(collect_world_fork(parent, &options, &world));
  options.has_key = -1;
  REFUSED(collect_world_fork(parent, &options, &world));
  options.has_key = 0;
  options.reserved = 1;
  CHECK(collect_world_fork(parent, &options, &world) == COLLECT_ERR_UNSUPPORTED);
  options.reserved = 0;
  CHECK(world == NULL);
  options.members = self;
  options.members_count = 1;
  options.name = "fork";
  FINE(collect_world_fork(parent, &options, &world));
  FINE(collect_world_name(world, &name));
  CHECK(strcmp(name, "fork") == 0);
  FINE(collect_barrier(world, NULL, NULL));

  REFUSED(collect_world_abort(NULL, "enough"));
  REFUSED(collect_world_abort(world, "\xff"));
  FINE(collect_world_error(world));
  FINE(collect_world_abort(world, "enough"));
  CHECK(collect_world_error(world) == COLLECT_ERR_ABORTED);
  LAST_TEXT_HAS("enough");
  CHECK(collect_barrier(world, NULL, NULL) == COLLECT_ERR_ABORTED);
  FINE(collect_barrier(parent, NULL, NULL));
  collect_world_destroy(world);
  return 0;
}

static int handles_go_in_any_order(collect_world *parent) {
  collect_world *world = NULL;
  collect_request *request = NULL;
  FINE(collect_world_fork(parent, NULL, &world));
  FINE(collect_barrier(world, NULL, &request));
  FINE(collect_request_wait(request, -1));
  collect_world_destroy(world);
  FINE(collect_request_test(request));
  collect_request_free(request);
  collect_world_destroy(NULL);
  return 0;
}

static int world(collect_store *store) {
  collect_world_options options;
  collect_world *world = NULL;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.name = "solo";
  options.timeout_ns = 60000000000;
  FINE(collect_world_create(store, 0, 1, &options, &world));
  const int failed = accessors(world) || allreduces(world) ||
                     allreduces_of_several_buffers(world) || broadcasts_and_barriers(world) ||
                     requests(world) || forks(world) || handles_go_in_any_order(world);
  collect_world_destroy(world);
  return failed;
}

/* A store that this process serves: others open its URL, and nobody else can have its address. */
static int served(void) {
  collect_store *server = NULL, *client = NULL;
  char value[4];
  size_t bytes = 0;
  REFUSED(collect_store_serve(NULL, &server));
  REFUSED(collect_store_serve("127.0.0.1:0", NULL));
  REFUSED(collect_store_serve("nowhere", &server));
  CHECK(server == NULL);
  CHECK(collect_store_url(NULL) == NULL);
  FINE(collect_store_serve("127.0.0.1:0", &server));
  CHECK(strncmp(collect_store_url(server), "tcp://127.0.0.1:", 16) == 0);
  FINE(collect_store_open(collect_store_url(server), 60000000000, &client));
  CHECK(strcmp(collect_store_url(client), collect_store_url(server)) == 0);
  FINE(collect_store_set(client, "key", "abc", 3, 60000000000));
  FINE(collect_store_get(server, "key", 60000000000, value, sizeof value, &bytes));
  CHECK(bytes == 3 && memcmp(value, "abc", 3) == 0);
  collect_store_destroy(client);
  client = NULL;
  CHECK(collect_store_serve(collect_store_url(server) + 6, &client) == COLLECT_ERR_STORE);
  CHECK(client == NULL);
  collect_store_destroy(server);
  return 0;
}

int main(int argc, char **argv) {
  collect_store *hash = NULL;
  if (before_the_first_failure() || statuses() || types()) return 1;
  if (stores_that_cannot_be_used(argc > 1 ? argv[1] : argv[0])) return 1;
  if (served()) return 1;
  FINE(collect_store_create_hash(&hash));
  CHECK(collect_store_url(hash) == NULL);
  const int failed = store(hash) || creations_that_are_refused(hash) ||
                     newer_and_older_world_options(hash) || world(hash);
  collect_store_destroy(hash);
  return failed;
}
