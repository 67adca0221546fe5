/*
 * Stand-in for NCCL, libnccl.so.2: ranks meet in POSIX shared memory that is named by the unique id, as threads or
 * processes. Like the real one, a collective of which ranks ask for different things never ends, a lost peer shows as an
 * asynchronous error while the collective hangs on, and only an abort ends it. A communicator that does not block queues
 * a collective only once it has been asked for its state.
 */
#define _GNU_SOURCE
#include "standin.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, UNHANDLED_CUDA = 1, SYSTEM_ERROR = 2, INTERNAL_ERROR = 3, INVALID_ARGUMENT = 4, INVALID_USAGE = 5,
       REMOTE_ERROR = 6, IN_PROGRESS = 7 };
enum { SUM = 0, PROD = 1, MAX = 2, MIN = 3, AVG = 4 };
enum { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST };
enum { INT8, UINT8, INT32, UINT32, INT64, UINT64, FLOAT16, FLOAT32, FLOAT64, BFLOAT16, TYPES };
enum { MAX_RANKS = 8, CHUNK = 1 << 16, ID_BYTES = 128 };

static const int WIDTH[TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
static const char *const KINDS[] = {"AllReduce", "ReduceScatter", "AllGather", "Broadcast"};

typedef struct { char internal[ID_BYTES]; } ncclUniqueId;

/* The head of NCCL's. */
typedef struct {
  size_t size;
  unsigned magic, version;
  int blocking;
} ncclConfig_t;

struct call {
  int kind, type, op, root;
  size_t count;
  int color, key;
};

struct shared {
  int ranks, joined, arrived, generation;
  int pids[MAX_RANKS];
  struct call calls[MAX_RANKS];
  char slots[MAX_RANKS][CHUNK];
};

struct ncclComm {
  struct shared *shared;
  char name[128];
  int rank, ranks, blocking, splits, device;
  volatile int state, aborted;
  long collectives;
  pthread_mutex_t lock;
  struct work *parked;
  int asked;
};

struct work {
  struct ncclComm *comm;
  struct call call;
  const void *input;
  void *output;
  void *stream;
  int fails;
  struct work *next;
};

static __thread int group_depth;
static __thread struct work *grouped;
static __thread char last_error[256];

static void note(const char *what, int rank) {
  const char *path = getenv("STANDIN_LOG");
  if (path == NULL) return;
  FILE *file = fopen(path, "a");
  if (file == NULL) return;
  fprintf(file, "%s %d\n", what, rank);
  fclose(file);
}

static int fails(struct ncclComm *comm, const char *where) {
  const char *wanted = getenv("STANDIN_NCCL_FAIL");
  return wanted != NULL && strcmp(wanted, where) == 0
      && standin_number("STANDIN_NCCL_RANK", comm->rank) == comm->rank;
}

static void pause_shortly(void) {
  struct timespec nap = {0, 20000};
  nanosleep(&nap, NULL);
}

static void look_for_the_dead(struct ncclComm *comm) {
  if (standin_number("STANDIN_NCCL_DEAF", 0)) return;
  for (int rank = 0; rank < comm->ranks; rank++) {
    int pid = comm->shared->pids[rank];
    if (pid != 0 && kill(pid, 0) != 0 && errno == ESRCH && comm->state == SUCCESS) {
      snprintf(last_error, sizeof last_error, "stand-in: rank %d is gone", rank);
      comm->state = REMOTE_ERROR;
    }
  }
}

/* Waits for all ranks; 0 after an abort. */
static int barrier(struct ncclComm *comm) {
  struct shared *shared = comm->shared;
  int generation = __atomic_load_n(&shared->generation, __ATOMIC_ACQUIRE);
  if (__atomic_add_fetch(&shared->arrived, 1, __ATOMIC_ACQ_REL) == comm->ranks) {
    __atomic_store_n(&shared->arrived, 0, __ATOMIC_RELEASE);
    __atomic_add_fetch(&shared->generation, 1, __ATOMIC_ACQ_REL);
    return !comm->aborted;
  }
  for (long look = 0; __atomic_load_n(&shared->generation, __ATOMIC_ACQUIRE) == generation; look++) {
    if (comm->aborted) return 0;
    if (look % 500 == 499) look_for_the_dead(comm);
    pause_shortly();
  }
  return 1;
}

static void hang(struct ncclComm *comm) {
  while (!comm->aborted) {
    look_for_the_dead(comm);
    pause_shortly();
  }
}

static float from_bf16(uint16_t bits) {
  uint32_t wide = (uint32_t) bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

static uint16_t to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t) ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static double load(const char *from, int type, size_t i) {
  switch (type) {
    case INT8: return ((const int8_t *) from)[i];
    case UINT8: return ((const uint8_t *) from)[i];
    case INT32: return ((const int32_t *) from)[i];
    case UINT32: return ((const uint32_t *) from)[i];
    case FLOAT16: return (double) ((const _Float16 *) from)[i];
    case FLOAT32: return ((const float *) from)[i];
    case FLOAT64: return ((const double *) from)[i];
    default: return from_bf16(((const uint16_t *) from)[i]);
  }
}

static void store(char *to, int type, size_t i, double value) {
  switch (type) {
    case INT8: ((int8_t *) to)[i] = (int8_t) (long) value; break;
    case UINT8: ((uint8_t *) to)[i] = (uint8_t) (long) value; break;
    case INT32: ((int32_t *) to)[i] = (int32_t) (long) value; break;
    case UINT32: ((uint32_t *) to)[i] = (uint32_t) (long) value; break;
    case FLOAT16: ((_Float16 *) to)[i] = (_Float16) value; break;
    case FLOAT32: ((float *) to)[i] = (float) value; break;
    case FLOAT64: ((double *) to)[i] = value; break;
    default: ((uint16_t *) to)[i] = to_bf16((float) value); break;
  }
}

/* 64-bit integers, which a double does not hold. */
static void reduce_long(struct ncclComm *comm, struct call *call, char *output, size_t elements) {
  for (size_t i = 0; i < elements; i++) {
    int64_t value = ((int64_t *) comm->shared->slots[0])[i];
    for (int rank = 1; rank < comm->ranks; rank++) {
      int64_t next = ((int64_t *) comm->shared->slots[rank])[i];
      switch (call->op) {
        case MAX: value = next > value ? next : value; break;
        case MIN: value = next < value ? next : value; break;
        case PROD: value *= next; break;
        default: value += next;
      }
    }
    ((int64_t *) output)[i] = call->op == AVG ? value / comm->ranks : value;
  }
}

static void reduce(struct ncclComm *comm, struct call *call, char *output, size_t elements) {
  if (call->type == INT64 || call->type == UINT64) {
    reduce_long(comm, call, output, elements);
    return;
  }
  for (size_t i = 0; i < elements; i++) {
    double value = load(comm->shared->slots[0], call->type, i);
    for (int rank = 1; rank < comm->ranks; rank++) {
      double next = load(comm->shared->slots[rank], call->type, i);
      switch (call->op) {
        case MAX: value = next > value ? next : value; break;
        case MIN: value = next < value ? next : value; break;
        case PROD: value *= next; break;
        default: value += next;
      }
    }
    store(output, call->type, i, call->op == AVG ? value / comm->ranks : value);
  }
}

/* One part of `bytes` bytes: every rank that sends puts it into its slot, whoever receives takes from all. */
static int move(struct ncclComm *comm, struct work *work, size_t offset, size_t bytes, size_t piece) {
  struct shared *shared = comm->shared;
  struct call *call = &work->call;
  int width = WIDTH[call->type];
  if (call->kind != BROADCAST || comm->rank == call->root) {
    memcpy(shared->slots[comm->rank], (const char *) work->input + offset, bytes);
  }
  if (!barrier(comm)) return 0;
  char *output = work->output;
  switch (call->kind) {
    case ALL_REDUCE: reduce(comm, call, output + offset, bytes / width); break;
    case REDUCE_SCATTER:
      if (offset / piece == (size_t) comm->rank) reduce(comm, call, output + offset % piece, bytes / width);
      break;
    case ALL_GATHER:
      for (int rank = 0; rank < comm->ranks; rank++) memcpy(output + rank * piece + offset, shared->slots[rank], bytes);
      break;
    default: memcpy(output + offset, shared->slots[call->root], bytes);
  }
  return barrier(comm);
}

static int same(struct call *one, struct call *other) {
  return one->kind == other->kind && one->type == other->type && one->op == other->op && one->root == other->root
      && one->count == other->count;
}

static void run(void *argument) {
  struct work *work = argument;
  struct ncclComm *comm = work->comm;
  struct call *call = &work->call;
  if (work->fails) {
    comm->state = INTERNAL_ERROR;
    hang(comm);
  } else if (!comm->aborted) {
    comm->shared->calls[comm->rank] = *call;
    int going = barrier(comm);
    for (int rank = 0; going && rank < comm->ranks; rank++) {
      if (!same(call, &comm->shared->calls[rank])) {
        hang(comm);
        going = 0;
      }
    }
    going = going && barrier(comm);
    size_t piece = call->count * WIDTH[call->type];
    size_t total = call->kind == REDUCE_SCATTER ? piece * comm->ranks : piece;
    /* a part lies within one piece, so that it belongs to one rank */
    for (size_t start = 0; going && start < total; start += piece) {
      for (size_t at = 0; going && at < piece; at += CHUNK) {
        going = move(comm, work, start + at, piece - at < CHUNK ? piece - at : CHUNK, piece);
      }
    }
  }
  free(work);
}

static struct shared *attach(struct ncclComm *comm) {
  int file = shm_open(comm->name, O_CREAT | O_RDWR, 0600);
  if (file < 0 || ftruncate(file, sizeof(struct shared)) != 0) return NULL;
  void *memory = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return memory == MAP_FAILED ? NULL : memory;
}

/* Joins the ranks that name the same memory; leaves the state. */
static void join(struct ncclComm *comm) {
  struct shared *shared = attach(comm);
  if (shared == NULL) {
    comm->state = SYSTEM_ERROR;
    return;
  }
  int nobody = 0;
  int expected = 0;
  if ((!__atomic_compare_exchange_n(&shared->ranks, &nobody, comm->ranks, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)
       && nobody != comm->ranks)
      || !__atomic_compare_exchange_n(&shared->pids[comm->rank], &expected, getpid(), 0, __ATOMIC_ACQ_REL,
                                      __ATOMIC_ACQUIRE)) {
    comm->state = INVALID_USAGE;
    return;
  }
  comm->shared = shared;
  __atomic_add_fetch(&shared->joined, 1, __ATOMIC_ACQ_REL);
  while (__atomic_load_n(&shared->joined, __ATOMIC_ACQUIRE) < comm->ranks) {
    if (comm->aborted) return;
    pause_shortly();
  }
  if (!barrier(comm)) return;
  if (comm->rank == 0) shm_unlink(comm->name);
  comm->state = SUCCESS;
}

static void *join_thread(void *argument) {
  join(argument);
  return NULL;
}

static int blocking(ncclConfig_t *config, int otherwise) {
  return config == NULL || config->blocking == INT_MIN ? otherwise : config->blocking;
}

static int start(void *(*body)(void *), void *argument, struct ncclComm *comm) {
  if (comm->blocking) {
    body(argument);
    return comm->state;
  }
  pthread_t thread;
  pthread_create(&thread, NULL, body, argument);
  pthread_detach(thread);
  return IN_PROGRESS;
}

STANDIN_API int ncclGetVersion(int *version) {
  *version = 22903;
  return SUCCESS;
}

STANDIN_API int ncclGetUniqueId(ncclUniqueId *id) {
  unsigned char random[16];
  FILE *file = fopen("/dev/urandom", "r");
  if (file == NULL || fread(random, sizeof random, 1, file) != 1) return SYSTEM_ERROR;
  fclose(file);
  memset(id, 0, sizeof *id);
  int length = snprintf(id->internal, ID_BYTES, "/standin-nccl-");
  for (int i = 0; i < 16; i++) length += snprintf(id->internal + length, ID_BYTES - length, "%02x", random[i]);
  return SUCCESS;
}

static struct ncclComm *new_comm(const char *name, int rank, int ranks, int blocks) {
  struct ncclComm *comm = calloc(1, sizeof *comm);
  snprintf(comm->name, sizeof comm->name, "%.127s", name);
  comm->rank = rank;
  comm->ranks = ranks;
  comm->blocking = blocks;
  comm->state = IN_PROGRESS;
  pthread_mutex_init(&comm->lock, NULL);
  return comm;
}

/* NCCL's variables as it would find them, for the log. */
static void note_settings(void) {
  const char *threads = getenv("NCCL_NSOCKS_PERTHREAD");
  if (threads != NULL) note("NCCL_NSOCKS_PERTHREAD", atoi(threads));
}

STANDIN_API int ncclCommInitRankConfig(struct ncclComm **comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config) {
  *comm = NULL;
  if (ranks < 1 || ranks > MAX_RANKS || rank < 0 || rank >= ranks || id.internal[0] != '/'
      || (config != NULL && config->magic != 0xcafebeef)) {
    snprintf(last_error, sizeof last_error, "stand-in: rank %d of %d, or the id or the configuration", rank, ranks);
    return INVALID_ARGUMENT;
  }
  id.internal[ID_BYTES - 1] = 0;
  struct ncclComm *made = new_comm(id.internal, rank, ranks, blocking(config, 1));
  note("CommInitRank", rank);
  note_settings();
  if (fails(made, "init")) {
    snprintf(last_error, sizeof last_error, "stand-in: asked to fail");
    return SYSTEM_ERROR;
  }
  *comm = made;
  return start(join_thread, made, made);
}

STANDIN_API int ncclCommInitRank(struct ncclComm **comm, int ranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, ranks, id, rank, NULL);
}

struct split {
  struct ncclComm *parent, *child;
  struct ncclComm **result; /* filled in at the end only, as the real one does */
  int color, key, number;
};

static void *split_thread(void *argument) {
  struct split *split = argument;
  struct ncclComm *parent = split->parent;
  struct call *calls = parent->shared->calls;
  calls[parent->rank].color = split->color;
  calls[parent->rank].key = split->key;
  if (barrier(parent)) {
    int rank = 0;
    int ranks = 0;
    for (int other = 0; other < parent->ranks; other++) {
      if (calls[other].color != split->color) continue;
      ranks++;
      if (calls[other].key < split->key || (calls[other].key == split->key && other < parent->rank)) rank++;
    }
    barrier(parent);
    if (split->child != NULL) {
      split->child->rank = rank;
      split->child->ranks = ranks;
      snprintf(split->child->name, sizeof split->child->name, "%.90s.%d.%d", parent->name, split->number, split->color);
      join(split->child);
    }
  }
  *split->result = split->child;
  if (parent->state == IN_PROGRESS) parent->state = SUCCESS;
  free(split);
  return NULL;
}

STANDIN_API int ncclCommSplit(struct ncclComm *parent, int color, int key, struct ncclComm **child, ncclConfig_t *config) {
  *child = NULL;
  note("CommSplit", parent->rank);
  if (color < -1 || fails(parent, "split")) {
    snprintf(last_error, sizeof last_error, "stand-in: color %d", color);
    return INVALID_ARGUMENT;
  }
  struct split *split = calloc(1, sizeof *split);
  split->parent = parent;
  split->child = color < 0 ? NULL : new_comm("", 0, 0, blocking(config, parent->blocking));
  split->result = child;
  split->color = color;
  split->key = key;
  split->number = parent->splits++;
  parent->state = IN_PROGRESS;
  return start(split_thread, split, parent);
}

static void queue(struct work *work) {
  standin_enqueue(work->stream, run, work);
}

static int launch(struct work *work) {
  struct ncclComm *comm = work->comm;
  if (comm->blocking) {
    queue(work);
    return SUCCESS;
  }
  pthread_mutex_lock(&comm->lock);
  struct work **end = &comm->parked;
  while (*end != NULL) end = &(*end)->next;
  *end = work;
  pthread_mutex_unlock(&comm->lock);
  return IN_PROGRESS;
}

STANDIN_API int ncclGroupStart(void) {
  group_depth++;
  note("GroupStart", 0);
  return SUCCESS;
}

STANDIN_API int ncclGroupEnd(void) {
  if (group_depth == 0) return INVALID_USAGE;
  if (--group_depth > 0) return SUCCESS;
  int result = SUCCESS;
  while (grouped != NULL) {
    struct work *next = grouped;
    grouped = next->next;
    next->next = NULL;
    int launched = launch(next);
    if (launched != SUCCESS) result = launched;
  }
  return result;
}

static int collective(int kind, const void *input, void *output, size_t count, int type, int op, int root,
                      struct ncclComm *comm, void *stream) {
  if (comm == NULL || type < 0 || type >= TYPES || op < 0 || op > AVG || root < 0 || root >= comm->ranks) {
    snprintf(last_error, sizeof last_error, "stand-in: type %d, operation %d, root %d", type, op, root);
    return INVALID_ARGUMENT;
  }
  note(KINDS[kind], comm->rank);
  int due = comm->collectives++ >= standin_number("STANDIN_NCCL_AFTER", 0);
  if (due && fails(comm, "launch")) {
    snprintf(last_error, sizeof last_error, "stand-in: asked to fail");
    return UNHANDLED_CUDA;
  }
  struct work *work = calloc(1, sizeof *work);
  work->comm = comm;
  work->call = (struct call) {kind, type, op, root, count, 0, 0};
  work->input = input;
  work->output = output;
  work->stream = stream;
  work->fails = due && fails(comm, "async");
  if (group_depth > 0) {
    struct work **end = &grouped;
    while (*end != NULL) end = &(*end)->next;
    *end = work;
    return SUCCESS;
  }
  return launch(work);
}

STANDIN_API int ncclAllReduce(const void *input, void *output, size_t count, int type, int op, struct ncclComm *comm,
                              void *stream) {
  return collective(ALL_REDUCE, input, output, count, type, op, 0, comm, stream);
}

STANDIN_API int ncclReduceScatter(const void *input, void *output, size_t count, int type, int op, struct ncclComm *comm,
                                  void *stream) {
  return collective(REDUCE_SCATTER, input, output, count, type, op, 0, comm, stream);
}

STANDIN_API int ncclAllGather(const void *input, void *output, size_t count, int type, struct ncclComm *comm, void *stream) {
  return collective(ALL_GATHER, input, output, count, type, SUM, 0, comm, stream);
}

STANDIN_API int ncclBroadcast(const void *input, void *output, size_t count, int type, int root, struct ncclComm *comm,
                              void *stream) {
  return collective(BROADCAST, input, output, count, type, SUM, root, comm, stream);
}

STANDIN_API int ncclCommGetAsyncError(struct ncclComm *comm, int *error) {
  pthread_mutex_lock(&comm->lock);
  if (comm->parked != NULL && !comm->asked) {
    comm->asked = 1;
    *error = IN_PROGRESS;
  } else {
    comm->asked = 0;
    while (comm->parked != NULL) {
      struct work *next = comm->parked;
      comm->parked = next->next;
      queue(next);
    }
    *error = comm->state;
  }
  pthread_mutex_unlock(&comm->lock);
  return SUCCESS;
}

STANDIN_API int ncclCommCount(struct ncclComm *comm, int *count) {
  *count = comm->ranks;
  return SUCCESS;
}

STANDIN_API int ncclCommUserRank(struct ncclComm *comm, int *rank) {
  *rank = comm->rank;
  return SUCCESS;
}

STANDIN_API int ncclCommFinalize(struct ncclComm *comm) {
  note("CommFinalize", comm->rank);
  return comm->blocking ? SUCCESS : IN_PROGRESS;
}

/* Work may still refer to the communicator, so it is not freed. */
STANDIN_API int ncclCommDestroy(struct ncclComm *comm) {
  note("CommDestroy", comm->rank);
  comm->aborted = 1;
  return SUCCESS;
}

STANDIN_API int ncclCommAbort(struct ncclComm *comm) {
  note("CommAbort", comm->rank);
  if (comm->state == IN_PROGRESS) shm_unlink(comm->name); /* not all have come, so that nobody else would */
  comm->aborted = 1;
  return SUCCESS;
}

STANDIN_API const char *ncclGetLastError(struct ncclComm *comm) { return last_error; }

STANDIN_API const char *ncclGetErrorString(int error) {
  switch (error) {
    case SUCCESS: return "no error";
    case UNHANDLED_CUDA: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case SYSTEM_ERROR: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case INTERNAL_ERROR: return "internal error - please report this issue to the NCCL developers";
    case INVALID_ARGUMENT: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case INVALID_USAGE: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case REMOTE_ERROR: return "remote process exited or there was a network error";
    case IN_PROGRESS: return "NCCL operation in progress";
    default: return "unknown result code";
  }
}
