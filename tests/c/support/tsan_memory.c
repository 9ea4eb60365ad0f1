// What code that rustc instruments calls in place of memcpy and its like, and GCC's runtime of
// ThreadSanitizer (12) does not have: that runtime sees the plain ones.
#include <string.h>

void *__tsan_memcpy(void *to, const void *from, size_t bytes);
void *__tsan_memmove(void *to, const void *from, size_t bytes);
void *__tsan_memset(void *to, int byte, size_t bytes);

void *__tsan_memcpy(void *to, const void *from, size_t bytes) { return memcpy(to, from, bytes); }

void *__tsan_memmove(void *to, const void *from, size_t bytes) { return memmove(to, from, bytes); }

void *__tsan_memset(void *to, int byte, size_t bytes) { return memset(to, byte, bytes); }
