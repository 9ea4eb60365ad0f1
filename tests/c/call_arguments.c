// As arguments.c, for options of calls, the collectives with counts and displacements, messages,
// reductions and batches: every mistake gets an error and nothing else, and what is right is
// served, in a world of one rank.
#include "check.h"

static const size_t one[1] = {1}, two[1] = {2}, far[1] = {(size_t)-1}, none[1] = {0};

// Options as a later version of the library may have them.
typedef struct {
  collect_call_options now;
  uint64_t later;
} newer_call_options;

static collect_call_options call_options(void) {
  collect_call_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  return options;
}

static int options_of_any_age(collect_world *world) {
  newer_call_options newer;
  collect_call_options options = call_options();
  options.struct_size = 0;
  REFUSED(collect_barrier(world, &options, NULL));
  options = call_options();
  options.struct_size = 4097;
  REFUSED(collect_barrier(world, &options, NULL));
  options = call_options();
  FINE(collect_barrier(world, &options, NULL));
  options.algorithm = 6;
  REFUSED(collect_barrier(world, &options, NULL));
  options.algorithm = COLLECT_ALGORITHM_RING; // of allreduce
  REFUSED(collect_barrier(world, &options, NULL));
  options.algorithm = COLLECT_ALGORITHM_DISSEMINATION;
  options.timeout_ns = -1;
  FINE(collect_barrier(world, &options, NULL));
  options.reserved = 1;
  CHECK(collect_barrier(world, &options, NULL) == COLLECT_ERR_UNSUPPORTED);
  options.reserved = 0;
  options.key = 5;
  REFUSED(collect_barrier(world, &options, NULL));
  LAST_TEXT_HAS("key is 5 and has_key is 0");
  options.has_key = 1;
  FINE(collect_barrier(world, &options, NULL));
  options.has_key = 2;
  REFUSED(collect_barrier(world, &options, NULL));
  options.has_key = 0;
  options.key = 0;
  options.degree = 65536;
  REFUSED(collect_barrier(world, &options, NULL));
  options.degree = 3; // dissemination has none
  REFUSED(collect_barrier(world, &options, NULL));
  options.degree = 0;
  options.factor = 2.0;
  REFUSED(collect_barrier(world, &options, NULL));
  options.factor = 0.0;
  FINE(collect_barrier(world, &options, NULL));
  options.reserved = 1;
  options.struct_size = sizeof(size_t); // an older caller: the rest is not there
  FINE(collect_barrier(world, &options, NULL));

  memset(&newer, 0, sizeof newer);
  newer.now.struct_size = sizeof newer;
  FINE(collect_barrier(world, &newer.now, NULL));
  newer.later = 1;
  CHECK(collect_barrier(world, &newer.now, NULL) == COLLECT_ERR_UNSUPPORTED);
  newer.now.struct_size = sizeof newer.now;
  FINE(collect_barrier(world, &newer.now, NULL));
  return 0;
}

static int gathers(collect_world *world) {
  const int32_t send[2] = {1, 2};
  int32_t recv[4] = {0, 0, 0, 0};
  const size_t too_many = (size_t)-1 / 8 + 1;
  REFUSED(collect_gather(NULL, send, recv, 1, COLLECT_I32, 0, NULL, NULL));
  REFUSED(collect_gather(world, NULL, recv, 1, COLLECT_I32, 0, NULL, NULL));
  REFUSED(collect_gather(world, send, NULL, 1, COLLECT_I32, 0, NULL, NULL));
  REFUSED(collect_gather(world, send, recv, 1, 77, 0, NULL, NULL));
  REFUSED(collect_gather(world, send, recv, 1, COLLECT_I32, 1, NULL, NULL));
  REFUSED(collect_gather(world, send, recv, 1, COLLECT_I32, -1, NULL, NULL));
  REFUSED(collect_gather(world, send, recv, too_many, COLLECT_F64, 0, NULL, NULL));
  REFUSED(collect_gather(world, recv, recv + 1, 2, COLLECT_I32, 0, NULL, NULL));
  REFUSED(collect_gatherv(NULL, send, 1, recv, one, NULL, COLLECT_I32, 0, NULL, NULL));
  REFUSED(collect_gatherv(world, NULL, 1, recv, one, NULL, COLLECT_I32, 0, NULL, NULL));
  REFUSED(collect_gatherv(world, send, 1, NULL, one, NULL, COLLECT_I32, 0, NULL, NULL));
  REFUSED(collect_gatherv(world, send, 1, recv, NULL, NULL, COLLECT_I32, 0, NULL, NULL));
  LAST_TEXT_HAS("counts must not be NULL");
  REFUSED(collect_gatherv(world, send, 1, recv, two, NULL, COLLECT_I32, 0, NULL, NULL));
  LAST_TEXT_HAS("the counts say 2");
  REFUSED(collect_gatherv(world, send, 1, recv, one, far, COLLECT_I32, 0, NULL, NULL));
  LAST_TEXT_HAS("rank 0's 1 elements from element");
  REFUSED(collect_gatherv(world, send, 1, recv, one, NULL, 0, 0, NULL, NULL));
  REFUSED(collect_gatherv(world, send, 1, recv, one, NULL, COLLECT_I32, 2, NULL, NULL));
  REFUSED(collect_allgatherv(NULL, send, 1, recv, one, NULL, COLLECT_I32, NULL, NULL));
  REFUSED(collect_allgatherv(world, NULL, 1, recv, one, NULL, COLLECT_I32, NULL, NULL));
  REFUSED(collect_allgatherv(world, send, 1, NULL, one, NULL, COLLECT_I32, NULL, NULL));
  REFUSED(collect_allgatherv(world, send, 1, recv, NULL, NULL, COLLECT_I32, NULL, NULL));
  REFUSED(collect_allgatherv(world, send, 2, recv, one, NULL, COLLECT_I32, NULL, NULL));
  REFUSED(collect_allgatherv(world, send, 1, recv, one, far, COLLECT_I32, NULL, NULL));
  REFUSED(collect_allgatherv(world, send, 1, recv, one, NULL, -5, NULL, NULL));
  CHECK(recv[0] == 0 && recv[3] == 0);

  FINE(collect_gather(world, send, recv, 2, COLLECT_I32, 0, NULL, NULL));
  CHECK(recv[0] == 1 && recv[1] == 2 && recv[2] == 0);
  FINE(collect_gatherv(world, send, 1, recv, one, two, COLLECT_I32, 0, NULL, NULL));
  FINE(collect_allgatherv(world, send + 1, 1, recv, one, one, COLLECT_I32, NULL, NULL));
  CHECK(recv[0] == 1 && recv[1] == 2 && recv[2] == 1 && recv[3] == 0);
  FINE(collect_gatherv(world, NULL, 0, NULL, none, far, COLLECT_I32, 0, NULL, NULL));
  return 0;
}

static int scatters(collect_world *world) {
  const int32_t send[4] = {1, 2, 3, 4};
  int32_t recv[2] = {0, 0};
  REFUSED(collect_scatter(NULL, send, recv, 1, COLLECT_I32, 0, NULL, NULL));
  REFUSED(collect_scatter(world, NULL, recv, 1, COLLECT_I32, 0, NULL, NULL));
  REFUSED(collect_scatter(world, send, NULL, 1, COLLECT_I32, 0, NULL, NULL));
  REFUSED(collect_scatter(world, send, recv, 1, COLLECT_I32, 9, NULL, NULL));
  REFUSED(collect_scatterv(NULL, send, one, NULL, recv, 1, COLLECT_I32, 0, NULL, NULL));
  REFUSED(collect_scatterv(world, NULL, one, NULL, recv, 1, COLLECT_I32, 0, NULL, NULL));
  REFUSED(collect_scatterv(world, send, NULL, NULL, recv, 1, COLLECT_I32, 0, NULL, NULL));
  REFUSED(collect_scatterv(world, send, one, NULL, NULL, 1, COLLECT_I32, 0, NULL, NULL));
  REFUSED(collect_scatterv(world, send, two, NULL, recv, 1, COLLECT_I32, 0, NULL, NULL));
  REFUSED(collect_scatterv(world, send, one, far, recv, 1, COLLECT_I32, 0, NULL, NULL));
  REFUSED(collect_alltoall(NULL, send, recv, 1, COLLECT_I32, NULL, NULL));
  REFUSED(collect_alltoall(world, NULL, recv, 1, COLLECT_I32, NULL, NULL));
  REFUSED(collect_alltoall(world, send, NULL, 1, COLLECT_I32, NULL, NULL));
  REFUSED(collect_alltoall(world, send, recv, (size_t)-1, COLLECT_I32, NULL, NULL));
  REFUSED(collect_alltoallv(NULL, send, one, NULL, recv, one, NULL, COLLECT_I32, NULL, NULL));
  REFUSED(collect_alltoallv(world, send, NULL, NULL, recv, one, NULL, COLLECT_I32, NULL, NULL));
  LAST_TEXT_HAS("send_counts must not be NULL");
  REFUSED(collect_alltoallv(world, send, one, NULL, recv, NULL, NULL, COLLECT_I32, NULL, NULL));
  LAST_TEXT_HAS("recv_counts must not be NULL");
  REFUSED(collect_alltoallv(world, send, one, far, recv, one, NULL, COLLECT_I32, NULL, NULL));
  REFUSED(collect_alltoallv(world, recv, two, NULL, recv, one, NULL, COLLECT_I32, NULL, NULL));
  CHECK(recv[0] == 0 && recv[1] == 0);

  FINE(collect_scatter(world, send, recv, 2, COLLECT_I32, 0, NULL, NULL));
  CHECK(recv[0] == 1 && recv[1] == 2);
  FINE(collect_scatterv(world, send, one, two, recv, 1, COLLECT_I32, 0, NULL, NULL));
  CHECK(recv[0] == 3 && recv[1] == 2);
  FINE(collect_alltoall(world, send, recv, 2, COLLECT_I32, NULL, NULL));
  CHECK(recv[0] == 1 && recv[1] == 2);
  FINE(collect_alltoallv(world, send, one, two, recv, one, one, COLLECT_I32, NULL, NULL));
  CHECK(recv[0] == 1 && recv[1] == 3);
  return 0;
}

static int partial_reductions(collect_world *world) {
  const float send[2] = {1.0F, 2.0F};
  float recv[2] = {0.0F, 0.0F};
  REFUSED(collect_reduce_scatter(NULL, send, recv, 1, COLLECT_F32, COLLECT_SUM, NULL, NULL));
  REFUSED(collect_reduce_scatter(world, NULL, recv, 1, COLLECT_F32, COLLECT_SUM, NULL, NULL));
  REFUSED(collect_reduce_scatter(world, send, NULL, 1, COLLECT_F32, COLLECT_SUM, NULL, NULL));
  REFUSED(collect_reduce_scatter(world, send, recv, 1, COLLECT_F32, COLLECT_BOR, NULL, NULL));
  REFUSED(collect_reduce_scatterv(NULL, send, recv, one, COLLECT_F32, COLLECT_SUM, NULL, NULL));
  REFUSED(collect_reduce_scatterv(world, send, recv, NULL, COLLECT_F32, COLLECT_SUM, NULL, NULL));
  REFUSED(collect_reduce_scatterv(world, send, recv, far, COLLECT_F32, COLLECT_SUM, NULL, NULL));
  REFUSED(collect_reduce_scatterv(world, NULL, recv, one, COLLECT_F32, COLLECT_SUM, NULL, NULL));
  REFUSED(collect_scan(NULL, send, recv, 1, COLLECT_F32, COLLECT_SUM, NULL, NULL));
  REFUSED(collect_scan(world, send, NULL, 1, COLLECT_F32, COLLECT_SUM, NULL, NULL));
  REFUSED(collect_scan(world, send, recv, 1, COLLECT_F32, COLLECT_AVG, NULL, NULL));
  LAST_TEXT_HAS("use sum");
  REFUSED(collect_exscan(NULL, send, recv, 1, COLLECT_F32, COLLECT_SUM, NULL, NULL));
  REFUSED(collect_exscan(world, NULL, recv, 1, COLLECT_F32, COLLECT_SUM, NULL, NULL));
  REFUSED(collect_exscan(world, send, recv, 1, COLLECT_F32, 77, NULL, NULL));
  CHECK(recv[0] == 0.0F && recv[1] == 0.0F);

  FINE(collect_reduce_scatter(world, send, recv, 2, COLLECT_F32, COLLECT_AVG, NULL, NULL));
  CHECK(recv[0] == 1.0F && recv[1] == 2.0F);
  FINE(collect_reduce_scatterv(world, send, recv, one, COLLECT_F32, COLLECT_MAX, NULL, NULL));
  FINE(collect_scan(world, send, recv, 2, COLLECT_F32, COLLECT_SUM, NULL, NULL));
  recv[0] = 9.0F;
  FINE(collect_exscan(world, send, recv, 2, COLLECT_F32, COLLECT_SUM, NULL, NULL));
  CHECK(recv[0] == 9.0F && recv[1] == 2.0F);
  return 0;
}

static int messages(collect_world *world) {
  const int32_t send[1] = {5};
  int32_t recv[1] = {0}, from = 77;
  collect_call_options keyed = call_options();
  collect_request *request = NULL;
  keyed.has_key = 1;
  REFUSED(collect_send(NULL, send, 1, COLLECT_I32, 0, 3, NULL, NULL));
  REFUSED(collect_send(world, NULL, 1, COLLECT_I32, 0, 3, NULL, NULL));
  REFUSED(collect_send(world, send, 1, 77, 0, 3, NULL, NULL));
  REFUSED(collect_send(world, send, 1, COLLECT_I32, 1, 3, NULL, NULL));
  LAST_TEXT_HAS("receiver 1 is no rank");
  REFUSED(collect_send(world, send, 1, COLLECT_I32, COLLECT_ANY_RANK, 3, NULL, NULL));
  REFUSED(collect_send(world, send, 1, COLLECT_I32, 0, 3, &keyed, NULL));
  LAST_TEXT_HAS("tags");
  REFUSED(collect_recv(NULL, recv, 1, COLLECT_I32, 0, 3, NULL, NULL));
  REFUSED(collect_recv(world, NULL, 1, COLLECT_I32, 0, 3, NULL, NULL));
  REFUSED(collect_recv(world, recv, 1, COLLECT_I32, 1, 3, NULL, NULL));
  REFUSED(collect_recv(world, recv, 1, COLLECT_I32, -2, 3, NULL, NULL));
  REFUSED(collect_recv(world, recv, 1, COLLECT_I32, 0, 3, &keyed, NULL));
  REFUSED(collect_sendrecv(NULL, send, 1, 0, 3, recv, 1, 0, 3, COLLECT_I32, NULL, NULL));
  REFUSED(collect_sendrecv(world, send, 1, 5, 3, recv, 1, 0, 3, COLLECT_I32, NULL, NULL));
  REFUSED(collect_sendrecv(world, send, 1, 0, 3, recv, 1, 5, 3, COLLECT_I32, NULL, NULL));
  REFUSED(collect_sendrecv(world, send, 1, 0, 3, NULL, 1, 0, 3, COLLECT_I32, NULL, NULL));
  REFUSED(collect_sendrecv(world, recv, 1, 0, 3, recv, 1, 0, 3, COLLECT_I32, NULL, NULL));
  LAST_TEXT_HAS("overlaps");
  REFUSED(collect_sendrecv(world, send, 1, 0, 3, recv, 1, 0, 3, COLLECT_I32, &keyed, NULL));
  CHECK(recv[0] == 0);
  FINE(collect_world_error(world));

  FINE(collect_sendrecv(world, send, 1, 0, 3, recv, 1, 0, 3, COLLECT_I32, NULL, NULL));
  CHECK(recv[0] == 5);
  recv[0] = 0;
  FINE(collect_recv(world, recv, 1, COLLECT_I32, COLLECT_ANY_RANK, 4, NULL, &request));
  FINE(collect_send(world, send, 1, COLLECT_I32, 0, 4, NULL, NULL));
  FINE(collect_request_wait(request, -1));
  FINE(collect_request_source(request, &from));
  collect_request_free(request);
  CHECK(recv[0] == 5 && from == 0);
  return 0;
}

static void add(void *user, const void *left, const void *right, void *result, size_t count) {
  const int32_t *l = (const int32_t *)left, *r = (const int32_t *)right;
  int32_t *out = (int32_t *)result;
  for (size_t i = 0; i < count; i++)
    out[i] = l[i] + r[i];
  ++*(int *)user;
}

static void release(void *user) { *(int *)user = -1; }

static int reductions(collect_world *world) {
  int calls = 0;
  const int32_t send[4] = {1, 2, 3, 4};
  int32_t recv[4] = {0, 0, 0, 0};
  collect_call_options options = call_options();
  collect_reduction *reduction = NULL;
  REFUSED(collect_reduction_create(NULL, &calls, release, 4, 1, &reduction));
  REFUSED(collect_reduction_create(add, &calls, release, 4, 1, NULL));
  REFUSED(collect_reduction_create(add, &calls, release, 0, 1, &reduction));
  REFUSED(collect_reduction_create(add, &calls, release, 4097, 1, &reduction));
  REFUSED(collect_reduction_create(add, &calls, release, 4, 2, &reduction));
  LAST_TEXT_HAS("is_commutative must be 0 or 1");
  CHECK(reduction == NULL && calls == 0);
  FINE(collect_reduction_create(add, &calls, release, 8, 0, &reduction));

  REFUSED(collect_allreduce(world, send, recv, 2, COLLECT_U8, COLLECT_CUSTOM, &options, NULL));
  LAST_TEXT_HAS("without a reduction");
  options.reduction = reduction;
  REFUSED(collect_allreduce(world, send, recv, 2, COLLECT_U8, COLLECT_SUM, &options, NULL));
  REFUSED(collect_allreduce(world, send, recv, 2, COLLECT_F32, COLLECT_CUSTOM, &options, NULL));
  LAST_TEXT_HAS("pass u8");
  REFUSED(collect_broadcast(world, recv, 2, COLLECT_U8, 0, &options, NULL));
  options.algorithm = COLLECT_ALGORITHM_RING;
  REFUSED(collect_allreduce(world, send, recv, 2, COLLECT_U8, COLLECT_CUSTOM, &options, NULL));
  LAST_TEXT_HAS("rank order");
  options.algorithm = COLLECT_ALGORITHM_AUTO;
  options.factor = 2.0;
  REFUSED(collect_allreduce(world, send, recv, 2, COLLECT_U8, COLLECT_CUSTOM, &options, NULL));
  options.factor = 0.0;
  FINE(collect_allreduce(world, send, recv, 2, COLLECT_U8, COLLECT_CUSTOM, &options, NULL));
  CHECK(recv[0] == 1 && recv[3] == 4);
  FINE(collect_allreduce(world, recv, recv, 1, COLLECT_I64, COLLECT_CUSTOM, &options, NULL));

  options = call_options();
  options.factor = 1.5;
  REFUSED(collect_scan(world, send, recv, 2, COLLECT_I32, COLLECT_PREMUL_SUM, &options, NULL));
  REFUSED(collect_scan(world, send, recv, 2, COLLECT_I32, COLLECT_SUM, &options, NULL));
  options.factor = -3.0;
  FINE(collect_scan(world, send, recv, 4, COLLECT_I32, COLLECT_PREMUL_SUM, &options, NULL));
  CHECK(recv[0] == -3 && recv[3] == -12 && send[3] == 4);

  CHECK(calls != -1);
  collect_reduction_destroy(reduction);
  CHECK(calls == -1);
  collect_reduction_destroy(NULL);
  return 0;
}

static int batches(collect_world *world) {
  int calls = 0;
  int32_t value[1] = {2};
  collect_call_options options = call_options();
  collect_batch *batch = NULL;
  collect_request *request = NULL;
  collect_reduction *reduction = NULL;
  REFUSED(collect_batch_create(NULL));
  FINE(collect_batch_create(&batch));
  REFUSED(collect_batch_start(NULL, NULL));
  REFUSED(collect_batch_start(batch, NULL));
  LAST_TEXT_HAS("no operations");
  options.batch = batch;
  REFUSED(collect_barrier(world, &options, &request));
  LAST_TEXT_HAS("request must be NULL");
  REFUSED(collect_broadcast(world, NULL, 1, COLLECT_I32, 0, &options, NULL));
  REFUSED(collect_batch_start(batch, NULL));

  FINE(collect_barrier(world, &options, NULL));
  FINE(collect_reduction_create(add, &calls, release, 4, 1, &reduction));
  options.reduction = reduction;
  FINE(collect_allreduce(world, value, value, 1, COLLECT_I32, COLLECT_CUSTOM, &options, NULL));
  collect_reduction_destroy(reduction);
  CHECK(calls != -1);
  options.reduction = NULL;
  options.factor = 3.0;
  options.has_key = 1;
  FINE(collect_scan(world, value, value, 1, COLLECT_I32, COLLECT_PREMUL_SUM, &options, NULL));
  CHECK(value[0] == 2);
  for (int32_t round = 0, expected = 6; round < 5; round++, expected *= 3) {
    FINE(collect_batch_start(batch, round % 2 == 0 ? NULL : &request));
    if (round % 2 != 0) {
      FINE(collect_request_wait(request, -1));
      collect_request_free(request);
    }
    CHECK(value[0] == expected);
  }
  collect_batch_destroy(batch);
  FINE(collect_barrier(world, NULL, NULL)); // what the batch used has been let go of by then
  CHECK(calls == -1);
  collect_batch_destroy(NULL);
  return 0;
}

static int world(collect_store *store) {
  collect_world_options options;
  collect_world *world = NULL;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.timeout_ns = 60000000000;
  FINE(collect_world_create(store, 0, 1, &options, &world));
  const int failed = options_of_any_age(world) || gathers(world) || scatters(world) ||
                     partial_reductions(world) || messages(world) || reductions(world) ||
                     batches(world);
  collect_world_destroy(world);
  return failed;
}

int main(void) {
  collect_store *hash = NULL;
  FINE(collect_store_create_hash(&hash));
  const int failed = world(hash);
  collect_store_destroy(hash);
  return failed;
}
