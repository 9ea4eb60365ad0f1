// What /proc tells of this process: threads that sleep, and what is left behind.
#ifndef COLLECT_TESTS_PROCESS_H
#define COLLECT_TESTS_PROCESS_H

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

// A thread's number, 0 while it is not known.
typedef pid_t task_id;

// Lets others know this thread's number.
static inline void tell_task(task_id *task) {
  __atomic_store_n(task, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
}

// What a thread does: 'R' runs, 'S' sleeps; 0 if it is gone.
static inline char task_state(pid_t task) {
  char path[64], line[256], *state;
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)task);
  FILE *file = fopen(path, "r");
  if (file == NULL) return 0;
  // After the name, which is in parentheses and may hold anything.
  state = fgets(line, sizeof line, file) != NULL ? strrchr(line, ')') : NULL;
  fclose(file);
  return state == NULL ? 0 : state[2];
}

static inline int is_there(const task_id *task) {
  return task_state(__atomic_load_n(task, __ATOMIC_ACQUIRE)) != 0;
}

// Returns when the thread sleeps. The program's deadline ends a wait that does not end.
static inline void await_sleep(const task_id *task) {
  struct timespec moment;
  moment.tv_sec = 0;
  moment.tv_nsec = 1000000;
  for (;;) {
    const pid_t number = __atomic_load_n(task, __ATOMIC_ACQUIRE);
    if (number != 0 && task_state(number) == 'S') return;
    nanosleep(&moment, NULL);
  }
}

static inline int entries_of(const char *path) {
  int count = 0;
  DIR *folder = opendir(path);
  if (folder == NULL) return -1;
  while (readdir(folder) != NULL)
    count++;
  closedir(folder);
  return count;
}

static inline int open_descriptors(void) { return entries_of("/proc/self/fd"); }
static inline int running_threads(void) { return entries_of("/proc/self/task"); }

#endif
