// Of every function and every option that has a time: 0 is its default, a negative one is for ever,
// and a positive one is a limit. What comes late is waited for, what never comes is given up.
#define _DEFAULT_SOURCE
#define _XOPEN_SOURCE 700
#include "folder.h"
#include "pair.h"
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

// How late what comes late is: long enough to be waited for.
#define LATE_NS 20000000
// A limit that passes.
#define SHORT_NS 20000000
// The same where the scene itself must be made within it.
#define SHORT_FOR_A_WORLD_NS 2000000000
#define HOUR_NS 3600000000000

static const int64_t waits[] = {0, -1, INT64_MIN, HOUR_NS, INT64_MAX};

// What comes late, on a thread of its own; nothing if it never comes.
typedef struct {
  pthread_t thread;
  collect_status (*act)(void *of);
  void *of;
  collect_status status;
  int comes;
} late;

static void *come_late(void *argument) {
  late *what = (late *)argument;
  pause_ns(LATE_NS);
  what->status = what->act(what->of);
  if (what->status != COLLECT_OK) printf("what comes late: %s\n", collect_last_error_message());
  return NULL;
}

static void begin(int comes, collect_status (*act)(void *of), void *of, late *what) {
  what->act = act;
  what->of = of;
  what->comes = comes;
  what->status = COLLECT_OK;
  if (comes && pthread_create(&what->thread, NULL, come_late, what) != 0) abort();
}

static int end(late *what) {
  if (what->comes) CHECK(pthread_join(what->thread, NULL) == 0);
  CHECK(what->status == COLLECT_OK);
  return 0;
}

static char folder[] = "/tmp/collect-timeouts-XXXXXX";
static char folder_url[64];

// ---- Stores

typedef struct {
  char address[32];
  collect_store *server;
} place;

static collect_status serve(void *of) {
  place *at = (place *)of;
  return collect_store_serve(at->address, &at->server);
}

static int open_a_store(int64_t timeout_ns, int comes, collect_status *status) {
  // Held, but nobody listens there until the store does.
  struct sockaddr_in address;
  socklen_t length = sizeof address;
  place at;
  late server;
  char url[64];
  collect_store *store = NULL;
  const int yes = 1, held = socket(AF_INET, SOCK_STREAM, 0);
  memset(&address, 0, sizeof address);
  memset(&at, 0, sizeof at);
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(setsockopt(held, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0);
  CHECK(bind(held, (struct sockaddr *)&address, length) == 0);
  CHECK(getsockname(held, (struct sockaddr *)&address, &length) == 0);
  snprintf(at.address, sizeof at.address, "127.0.0.1:%u", (unsigned)ntohs(address.sin_port));
  snprintf(url, sizeof url, "tcp://%s", at.address);
  begin(comes, serve, &at, &server);
  *status = collect_store_open(url, timeout_ns, &store);
  if (end(&server)) return 1;
  collect_store_destroy(store);
  collect_store_destroy(at.server);
  close(held);
  return 0;
}

static collect_status set_a_key(void *of) {
  return collect_store_set((collect_store *)of, "key", "v", 1, -1);
}

static int get_a_key(int64_t timeout_ns, int comes, collect_status *status) {
  collect_store *store = NULL;
  late setter;
  char value;
  size_t bytes;
  FINE(collect_store_create_hash(&store));
  begin(comes, set_a_key, store, &setter);
  *status = collect_store_get(store, "key", timeout_ns, &value, 1, &bytes);
  if (end(&setter)) return 1;
  collect_store_destroy(store);
  return 0;
}

static collect_status unlock(void *of) {
  return flock(*(int *)of, LOCK_UN) == 0 ? COLLECT_OK : COLLECT_ERR_SYSTEM;
}

static int set_behind_a_lock(int64_t timeout_ns, int comes, collect_status *status) {
  collect_store *store = NULL;
  late holder;
  char path[64];
  FINE(collect_store_open(folder_url, -1, &store));
  snprintf(path, sizeof path, "%s/.lock", folder);
  int lock = open(path, O_WRONLY);
  CHECK(lock >= 0 && flock(lock, LOCK_EX) == 0);
  begin(comes, unlock, &lock, &holder);
  *status = collect_store_set(store, "key", "v", 1, timeout_ns);
  if (end(&holder)) return 1;
  close(lock);
  collect_store_destroy(store);
  return 0;
}

// ---- Creations

static collect_status create_other(void *of) {
  pair_rank *other = (pair_rank *)of;
  return collect_world_create(other->store, other->rank, 2, other->options, &other->world);
}

static collect_status barrier_of(void *of) {
  return collect_barrier((collect_world *)of, NULL, NULL);
}

// Destroys what there is of both ranks.
static int close_both(collect_world *one, collect_world *other) {
  collect_world *both[2];
  both[0] = one;
  both[1] = other;
  return pair_close(both);
}

static int create(int64_t timeout_ns, int comes, collect_status *status) {
  collect_world_options options = world_options(), patient = world_options();
  collect_world *world = NULL;
  pair_rank other;
  late creator;
  memset(&other, 0, sizeof other);
  FINE(collect_store_create_hash(&other.store));
  options.timeout_ns = timeout_ns;
  patient.timeout_ns = -1;
  other.rank = 1;
  other.options = &patient;
  begin(comes, create_other, &other, &creator);
  *status = collect_world_create(other.store, 0, 2, &options, &world);
  if (end(&creator)) return 1;
  collect_store_destroy(other.store);
  return close_both(world, other.world);
}

static int create_from_environment(int64_t timeout_ns, int comes, collect_status *status) {
  collect_world_options options = world_options(), patient = world_options();
  collect_world *world = NULL;
  pair_rank other;
  late creator;
  memset(&other, 0, sizeof other);
  CHECK(setenv("LIBCOLLECT_RANK", "0", 1) == 0 && setenv("LIBCOLLECT_SIZE", "2", 1) == 0);
  CHECK(setenv("LIBCOLLECT_STORE", folder_url, 1) == 0);
  FINE(collect_store_open(NULL, -1, &other.store));
  options.timeout_ns = timeout_ns;
  patient.timeout_ns = -1;
  other.rank = 1;
  other.options = &patient;
  begin(comes, create_other, &other, &creator);
  *status = collect_world_create_from_env(&options, &world);
  if (end(&creator)) return 1;
  collect_store_destroy(other.store);
  return close_both(world, other.world);
}

// Both ranks' own allgather: each thread brings its record, and takes both.
typedef struct {
  pthread_barrier_t met;
  char records[2][1024];
} meeting;

typedef struct {
  meeting *at;
  int32_t rank;
  int comes;
  collect_world *world;
} guest;

static int32_t meet(void *user, const void *mine, size_t bytes, void *all) {
  guest *here = (guest *)user;
  if (bytes != sizeof here->at->records[0]) return 1;
  memcpy(here->at->records[here->rank], mine, bytes);
  pthread_barrier_wait(&here->at->met);
  memcpy(all, here->at->records, 2 * bytes);
  pthread_barrier_wait(&here->at->met);
  return 0;
}

// Makes no link until it calls a barrier, late or never.
static void *create_lazily(void *argument) {
  guest *other = (guest *)argument;
  collect_world_options options = world_options();
  options.timeout_ns = -1;
  if (collect_world_create_with_exchange(meet, other, 1, 2, &options, &other->world) != COLLECT_OK)
    abort();
  pause_ns(LATE_NS);
  if (other->comes && collect_barrier(other->world, NULL, NULL) != COLLECT_OK) abort();
  return NULL;
}

// A creation that makes all links at once has ended when the other rank has met it in a barrier.
static int create_with_exchange(int64_t timeout_ns, int comes, collect_status *status) {
  collect_world_options options = world_options();
  pthread_t creator;
  meeting at;
  guest here, other;
  memset(&here, 0, sizeof here);
  here.at = &at;
  other = here;
  other.rank = 1;
  other.comes = comes;
  options.timeout_ns = timeout_ns;
  options.connect = COLLECT_CONNECT_EAGER;
  CHECK(pthread_barrier_init(&at.met, NULL, 2) == 0);
  CHECK(pthread_create(&creator, NULL, create_lazily, &other) == 0);
  *status = collect_world_create_with_exchange(meet, &here, 0, 2, &options, &here.world);
  CHECK(pthread_join(creator, NULL) == 0 && pthread_barrier_destroy(&at.met) == 0);
  return close_both(here.world, other.world);
}

// ---- Forks

static collect_status fork_other(void *of) {
  collect_world **worlds = (collect_world **)of;
  collect_fork_options options = fork_options();
  options.timeout_ns = -1;
  return collect_world_fork(worlds[1], &options, &worlds[2]);
}

// Forks `worlds[0]`; the other rank comes late or never.
static int fork_late(collect_world *worlds[2], int64_t timeout_ns, int comes,
                     collect_status *status) {
  collect_world *forks[2] = {NULL, NULL}, *theirs[3];
  collect_fork_options options = fork_options();
  late other;
  theirs[0] = theirs[2] = NULL;
  theirs[1] = worlds[1];
  options.timeout_ns = timeout_ns;
  begin(comes, fork_other, theirs, &other);
  *status = collect_world_fork(worlds[0], &options, &forks[0]);
  if (end(&other)) return 1;
  collect_world_destroy(forks[0]);
  collect_world_destroy(theirs[2]);
  return pair_close(worlds);
}

static int fork_a_world(int64_t timeout_ns, int comes, collect_status *status) {
  collect_world_options options = world_options();
  collect_world *worlds[2];
  options.timeout_ns = -1;
  return pair_open(&options, worlds) || fork_late(worlds, timeout_ns, comes, status);
}

static int fork_a_world_that_says(int64_t timeout_ns, int comes, collect_status *status) {
  collect_world_options options = world_options();
  collect_world *worlds[2];
  options.timeout_ns = timeout_ns;
  return pair_open(&options, worlds) || fork_late(worlds, 0, comes, status);
}

// ---- Operations

static int begin_a_pair(int64_t timeout_ns, collect_world *worlds[2]) {
  collect_world_options options = world_options();
  options.timeout_ns = timeout_ns;
  return pair_open(&options, worlds);
}

static int call(int64_t timeout_ns, int comes, collect_status *status) {
  collect_call_options options = call_options();
  collect_world *worlds[2];
  late other;
  options.timeout_ns = timeout_ns;
  if (begin_a_pair(-1, worlds)) return 1;
  begin(comes, barrier_of, worlds[1], &other);
  *status = collect_barrier(worlds[0], &options, NULL);
  return end(&other) || pair_close(worlds);
}

static int call_in_a_world_that_says(int64_t timeout_ns, int comes, collect_status *status) {
  collect_world *worlds[2];
  late other;
  if (begin_a_pair(timeout_ns, worlds)) return 1;
  begin(comes, barrier_of, worlds[1], &other);
  *status = collect_barrier(worlds[0], NULL, NULL);
  return end(&other) || pair_close(worlds);
}

static int call_in_a_fork_that_says(int64_t timeout_ns, int comes, collect_status *status) {
  collect_world *worlds[2], *forks[3] = {NULL, NULL, NULL};
  collect_fork_options options = fork_options();
  late forker, other;
  if (begin_a_pair(-1, worlds)) return 1;
  forks[1] = worlds[1];
  options.timeout_ns = timeout_ns;
  begin(1, fork_other, forks, &forker);
  FINE(collect_world_fork(worlds[0], &options, &forks[0]));
  if (end(&forker)) return 1;
  begin(comes, barrier_of, forks[2], &other);
  *status = collect_barrier(forks[0], NULL, NULL);
  if (end(&other)) return 1;
  collect_world_destroy(forks[0]);
  collect_world_destroy(forks[2]);
  return pair_close(worlds);
}

static collect_status send_to_0(void *of) {
  const int32_t value = 7;
  return collect_send((collect_world *)of, &value, 1, COLLECT_I32, 0, 5, NULL, NULL);
}

static int receive(int64_t timeout_ns, int comes, collect_status *status) {
  collect_call_options options = call_options();
  collect_world *worlds[2];
  int32_t value = 0;
  late sender;
  options.timeout_ns = timeout_ns;
  if (begin_a_pair(-1, worlds)) return 1;
  begin(comes, send_to_0, worlds[1], &sender);
  *status =
      collect_recv(worlds[0], &value, 1, COLLECT_I32, COLLECT_ANY_RANK, 5, &options, NULL);
  return end(&sender) || pair_close(worlds);
}

static int start_a_batch(int64_t timeout_ns, int comes, collect_status *status) {
  collect_call_options options = call_options();
  collect_world *worlds[2];
  late other;
  if (begin_a_pair(-1, worlds)) return 1;
  options.timeout_ns = timeout_ns;
  FINE(collect_batch_create(&options.batch));
  FINE(collect_barrier(worlds[0], &options, NULL));
  begin(comes, barrier_of, worlds[1], &other);
  *status = collect_batch_start(options.batch, NULL);
  collect_batch_destroy(options.batch);
  return end(&other) || pair_close(worlds);
}

// ---- Waits for requests: what has not ended goes on

static int wait_by(collect_status (*wait)(collect_request **list, int64_t timeout_ns),
                   int64_t timeout_ns, int comes, collect_status *status) {
  collect_world *worlds[2];
  collect_request *list[2];
  late other;
  if (begin_a_pair(-1, worlds)) return 1;
  FINE(collect_barrier(worlds[0], NULL, &list[0]));
  list[1] = NULL;
  begin(comes, barrier_of, worlds[1], &other);
  *status = wait(list, timeout_ns);
  CHECK(collect_request_test(list[0]) == (comes ? COLLECT_OK : COLLECT_IN_PROGRESS));
  collect_request_free(list[0]);
  return end(&other) || pair_close(worlds);
}

static collect_status one(collect_request **list, int64_t timeout_ns) {
  return collect_request_wait(list[0], timeout_ns);
}

static collect_status any(collect_request **list, int64_t timeout_ns) {
  size_t index;
  return collect_request_wait_any(list, 2, timeout_ns, &index);
}

static collect_status all(collect_request **list, int64_t timeout_ns) {
  return collect_request_wait_all(list, 2, timeout_ns);
}

static int wait_one(int64_t timeout_ns, int comes, collect_status *status) {
  return wait_by(one, timeout_ns, comes, status);
}

static int wait_any(int64_t timeout_ns, int comes, collect_status *status) {
  return wait_by(any, timeout_ns, comes, status);
}

static int wait_all(int64_t timeout_ns, int comes, collect_status *status) {
  return wait_by(all, timeout_ns, comes, status);
}

// A wait without a limit ends with the time-out of the operation.
static int wait_for_a_call(int64_t timeout_ns, int comes, collect_status *status) {
  collect_call_options options = call_options();
  collect_world *worlds[2];
  collect_request *request = NULL;
  late other;
  options.timeout_ns = timeout_ns;
  if (begin_a_pair(-1, worlds)) return 1;
  FINE(collect_barrier(worlds[0], &options, &request));
  begin(comes, barrier_of, worlds[1], &other);
  *status = collect_request_wait(request, 0);
  collect_request_free(request);
  return end(&other) || pair_close(worlds);
}

// ---- Destruction, which tells nobody; here it ends, whatever it is told

static collect_status destroy_other(void *of) {
  collect_world_destroy((collect_world *)of);
  return COLLECT_OK;
}

static int destroy(int64_t timeout_ns, int comes, collect_status *status) {
  collect_world_options options = world_options();
  collect_world *worlds[2];
  late other;
  options.destroy_timeout_ns = timeout_ns;
  if (pair_open(&options, worlds)) return 1;
  begin(comes, destroy_other, worlds[1], &other);
  collect_world_destroy(worlds[0]);
  *status = COLLECT_OK;
  if (!comes) collect_world_destroy(worlds[1]);
  return end(&other);
}

static const struct {
  const char *what;
  int (*run)(int64_t timeout_ns, int comes, collect_status *status);
  collect_status passed; // when a limit passes
  int64_t short_ns;
} rows[] = {
    {"collect_store_open", open_a_store, COLLECT_ERR_TIMED_OUT, SHORT_NS},
    {"collect_store_get", get_a_key, COLLECT_ERR_TIMED_OUT, SHORT_NS},
    {"collect_store_set", set_behind_a_lock, COLLECT_ERR_TIMED_OUT, SHORT_NS},
    {"collect_world_create", create, COLLECT_ERR_TIMED_OUT, SHORT_NS},
    {"collect_world_create_from_env", create_from_environment, COLLECT_ERR_TIMED_OUT, SHORT_NS},
    {"collect_world_create_with_exchange", create_with_exchange, COLLECT_ERR_TIMED_OUT, SHORT_NS},
    {"collect_world_fork", fork_a_world, COLLECT_ERR_TIMED_OUT, SHORT_NS},
    {"a fork as its parent", fork_a_world_that_says, COLLECT_ERR_TIMED_OUT, SHORT_FOR_A_WORLD_NS},
    {"a call", call, COLLECT_ERR_TIMED_OUT, SHORT_NS},
    {"a call as its world", call_in_a_world_that_says, COLLECT_ERR_TIMED_OUT, SHORT_FOR_A_WORLD_NS},
    {"a call as its fork", call_in_a_fork_that_says, COLLECT_ERR_TIMED_OUT, SHORT_FOR_A_WORLD_NS},
    {"a message", receive, COLLECT_ERR_TIMED_OUT, SHORT_NS},
    {"a batch", start_a_batch, COLLECT_ERR_TIMED_OUT, SHORT_NS},
    {"collect_request_wait", wait_one, COLLECT_IN_PROGRESS, SHORT_NS},
    {"collect_request_wait_any", wait_any, COLLECT_IN_PROGRESS, SHORT_NS},
    {"collect_request_wait_all", wait_all, COLLECT_IN_PROGRESS, SHORT_NS},
    {"a request", wait_for_a_call, COLLECT_ERR_TIMED_OUT, SHORT_NS},
    {"destroy_timeout_ns", destroy, COLLECT_OK, SHORT_NS},
};

static int check(size_t row, int64_t timeout_ns, int comes, collect_status expected) {
  collect_status status = 77;
  const int failed = rows[row].run(timeout_ns, comes, &status);
  if (!failed && status == expected) return 0;
  printf("%s with %lld: %s, not %s: %s\n", rows[row].what, (long long)timeout_ns,
         collect_status_name(status), collect_status_name(expected), collect_last_error_message());
  return 1;
}

static int all_rows(void) {
  for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++)
      if (check(row, waits[i], 1, COLLECT_OK)) return 1;
    if (check(row, rows[row].short_ns, 0, rows[row].passed)) return 1;
    // One that has passed at once, where the scene needs none of it.
    if (rows[row].short_ns == SHORT_NS && check(row, 1, 0, rows[row].passed)) return 1;
  }
  return 0;
}

int main(void) {
  CHECK(mkdtemp(folder) != NULL);
  snprintf(folder_url, sizeof folder_url, "file:%s", folder);
  const int failed = all_rows();
  CHECK(remove_folder(folder) == 0);
  return failed;
}
