// A thread that calls allreduce again and again until it is cancelled, which may be in the midst of a call. It is in C,
// since the cancellation unwinds its stack.
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct calls {
  int32_t (*allreduce)(void *world, const void *send, void *recv, size_t count, int32_t type, int32_t op,
                       const void *options, void **request);
  void *world;
  uint64_t *send;
  uint64_t *recv;
  uint64_t count;
  uint64_t size;      // of the world
  uint64_t completed; // calls
  int32_t status;     // of the last call
  int32_t wrong;      // numbers
};

enum { U64 = 8, SUM = 1 };

// The last number says whether somebody wants no more.
void *cancelled_run(void *argument) {
  struct calls *calls = argument;
  for (;;) {
    for (uint64_t i = 0; i + 1 < calls->count; i++) calls->send[i] = calls->completed + i;
    calls->send[calls->count - 1] = 0;
    calls->status = calls->allreduce(calls->world, calls->send, calls->recv, calls->count, U64, SUM, NULL, NULL);
    if (calls->status != 0) return NULL;
    for (uint64_t i = 0; i + 1 < calls->count; i++) {
      if (calls->recv[i] != (calls->completed + i) * calls->size) calls->wrong++;
    }
    calls->completed++;
    pthread_testcancel();
  }
}
