/* Stand-in for the CUDA runtime, libcudart.so.13: streams are threads of their own, device memory is host memory. */
#include "standin.h"
#include <pthread.h>

typedef int cudaError_t;
enum { SUCCESS = 0, INVALID_VALUE = 1, MEMORY_ALLOCATION = 2, INSUFFICIENT_DRIVER = 35, NO_DEVICE = 100,
       INVALID_DEVICE = 101, INVALID_HANDLE = 400, NOT_READY = 600 };

struct operation {
  void (*work)(void *);
  void *argument;
  struct operation *next;
};

struct stream {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct operation *first, *last;
  int busy, ending;
};

/* Of the last record, which is pending while done < recorded. */
struct event {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  long recorded, done;
};

static __thread int device;
static __thread cudaError_t last_error;
static struct stream *default_stream;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static long allocated;

static cudaError_t result(cudaError_t error) {
  if (error != SUCCESS) last_error = error;
  return error;
}

static void *serve(void *argument) {
  struct stream *stream = argument;
  pthread_mutex_lock(&stream->lock);
  while (1) {
    while (stream->first == NULL && !stream->ending) pthread_cond_wait(&stream->changed, &stream->lock);
    struct operation *next = stream->first;
    if (next == NULL) break;
    stream->first = next->next;
    if (stream->first == NULL) stream->last = NULL;
    stream->busy = 1;
    pthread_mutex_unlock(&stream->lock);
    next->work(next->argument);
    free(next);
    pthread_mutex_lock(&stream->lock);
    stream->busy = 0;
    pthread_cond_broadcast(&stream->changed);
  }
  pthread_mutex_unlock(&stream->lock);
  return NULL;
}

static struct stream *new_stream(void) {
  struct stream *stream = calloc(1, sizeof *stream);
  pthread_mutex_init(&stream->lock, NULL);
  pthread_cond_init(&stream->changed, NULL);
  pthread_create(&stream->thread, NULL, serve, stream);
  return stream;
}

static void make_default(void) { default_stream = new_stream(); }

static struct stream *stream_of(void *handle) {
  pthread_once(&once, make_default);
  return handle == NULL ? default_stream : handle;
}

STANDIN_API void standin_enqueue(void *handle, void (*work)(void *), void *argument) {
  struct stream *stream = stream_of(handle);
  struct operation *operation = calloc(1, sizeof *operation);
  operation->work = work;
  operation->argument = argument;
  pthread_mutex_lock(&stream->lock);
  if (stream->last == NULL) stream->first = operation;
  else stream->last->next = operation;
  stream->last = operation;
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->lock);
}

STANDIN_API cudaError_t cudaDriverGetVersion(int *version) {
  *version = (int) standin_number("STANDIN_DRIVER", 13010);
  return SUCCESS;
}

STANDIN_API cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = 13010;
  return SUCCESS;
}

static int devices(void) {
  int visible[STANDIN_MAX_DEVICES];
  return standin_visible(visible, STANDIN_MAX_DEVICES);
}

STANDIN_API cudaError_t cudaGetDeviceCount(int *count) {
  if (standin_number("STANDIN_DRIVER", 13010) < 13000) return result(INSUFFICIENT_DRIVER);
  *count = devices();
  return result(*count == 0 ? NO_DEVICE : SUCCESS);
}

STANDIN_API cudaError_t cudaSetDevice(int index) {
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error != SUCCESS) return error;
  if (index < 0 || index >= count) return result(INVALID_DEVICE);
  device = index;
  return SUCCESS;
}

STANDIN_API cudaError_t cudaGetDevice(int *index) {
  *index = device;
  return SUCCESS;
}

STANDIN_API cudaError_t cudaGetLastError(void) {
  cudaError_t error = last_error;
  last_error = SUCCESS;
  return error;
}

STANDIN_API const char *cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case SUCCESS: return "cudaSuccess";
    case MEMORY_ALLOCATION: return "cudaErrorMemoryAllocation";
    case INSUFFICIENT_DRIVER: return "cudaErrorInsufficientDriver";
    case NO_DEVICE: return "cudaErrorNoDevice";
    case INVALID_DEVICE: return "cudaErrorInvalidDevice";
    case INVALID_HANDLE: return "cudaErrorInvalidResourceHandle";
    case NOT_READY: return "cudaErrorNotReady";
    default: return "cudaErrorUnknown";
  }
}

STANDIN_API const char *cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case MEMORY_ALLOCATION: return "out of memory";
    case INSUFFICIENT_DRIVER: return "CUDA driver version is insufficient for CUDA runtime version";
    case NO_DEVICE: return "no CUDA-capable device is detected";
    case INVALID_DEVICE: return "invalid device ordinal";
    default: return cudaGetErrorName(error);
  }
}

STANDIN_API cudaError_t cudaStreamCreateWithPriority(void **stream, unsigned flags, int priority) {
  *stream = new_stream();
  return SUCCESS;
}

STANDIN_API cudaError_t cudaStreamCreateWithFlags(void **stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

STANDIN_API cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0;
  *greatest = -5;
  return SUCCESS;
}

STANDIN_API cudaError_t cudaStreamQuery(void *handle) {
  struct stream *stream = stream_of(handle);
  pthread_mutex_lock(&stream->lock);
  int pending = stream->busy || stream->first != NULL;
  pthread_mutex_unlock(&stream->lock);
  return pending ? NOT_READY : SUCCESS;
}

STANDIN_API cudaError_t cudaStreamSynchronize(void *handle) {
  struct stream *stream = stream_of(handle);
  pthread_mutex_lock(&stream->lock);
  while (stream->busy || stream->first != NULL) pthread_cond_wait(&stream->changed, &stream->lock);
  pthread_mutex_unlock(&stream->lock);
  return SUCCESS;
}

STANDIN_API cudaError_t cudaStreamDestroy(void *handle) {
  struct stream *stream = handle;
  if (stream == NULL) return result(INVALID_HANDLE);
  pthread_mutex_lock(&stream->lock);
  stream->ending = 1;
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->lock);
  pthread_join(stream->thread, NULL);
  free(stream);
  return SUCCESS;
}

STANDIN_API cudaError_t cudaEventCreateWithFlags(void **handle, unsigned flags) {
  struct event *event = calloc(1, sizeof *event);
  pthread_mutex_init(&event->lock, NULL);
  pthread_cond_init(&event->changed, NULL);
  *handle = event;
  return SUCCESS;
}

struct mark {
  struct event *event;
  long number;
};

static void reach(void *argument) {
  struct mark *mark = argument;
  pthread_mutex_lock(&mark->event->lock);
  if (mark->event->done < mark->number) mark->event->done = mark->number;
  pthread_cond_broadcast(&mark->event->changed);
  pthread_mutex_unlock(&mark->event->lock);
  free(mark);
}

static void await(void *argument) {
  struct mark *mark = argument;
  pthread_mutex_lock(&mark->event->lock);
  while (mark->event->done < mark->number) pthread_cond_wait(&mark->event->changed, &mark->event->lock);
  pthread_mutex_unlock(&mark->event->lock);
  free(mark);
}

static struct mark *mark_of(struct event *event) {
  struct mark *mark = malloc(sizeof *mark);
  mark->event = event;
  mark->number = event->recorded;
  return mark;
}

STANDIN_API cudaError_t cudaEventRecord(void *handle, void *stream) {
  struct event *event = handle;
  pthread_mutex_lock(&event->lock);
  event->recorded++;
  struct mark *mark = mark_of(event);
  pthread_mutex_unlock(&event->lock);
  standin_enqueue(stream, reach, mark);
  return SUCCESS;
}

STANDIN_API cudaError_t cudaStreamWaitEvent(void *stream, void *handle, unsigned flags) {
  struct event *event = handle;
  pthread_mutex_lock(&event->lock);
  struct mark *mark = mark_of(event);
  pthread_mutex_unlock(&event->lock);
  standin_enqueue(stream, await, mark);
  return SUCCESS;
}

STANDIN_API cudaError_t cudaEventQuery(void *handle) {
  struct event *event = handle;
  pthread_mutex_lock(&event->lock);
  int pending = event->done < event->recorded;
  pthread_mutex_unlock(&event->lock);
  return pending ? NOT_READY : SUCCESS;
}

STANDIN_API cudaError_t cudaEventSynchronize(void *handle) {
  struct event *event = handle;
  pthread_mutex_lock(&event->lock);
  struct mark *mark = mark_of(event);
  pthread_mutex_unlock(&event->lock);
  await(mark);
  return SUCCESS;
}

/* Frees nothing: work that refers to the event may still be queued. */
STANDIN_API cudaError_t cudaEventDestroy(void *handle) {
  return handle == NULL ? result(INVALID_HANDLE) : SUCCESS;
}

STANDIN_API cudaError_t cudaMalloc(void **memory, size_t bytes) {
  long limit = standin_number("STANDIN_MALLOC_LIMIT", 1L << 40);
  if (__sync_add_and_fetch(&allocated, (long) bytes) > limit) {
    __sync_sub_and_fetch(&allocated, (long) bytes);
    return result(MEMORY_ALLOCATION);
  }
  *memory = malloc(bytes);
  return SUCCESS;
}

STANDIN_API cudaError_t cudaFree(void *memory) {
  free(memory);
  return SUCCESS;
}

struct call {
  void (*function)(void *);
  void *argument;
};

static void call(void *argument) {
  struct call *call = argument;
  call->function(call->argument);
  free(call);
}

STANDIN_API cudaError_t cudaLaunchHostFunc(void *stream, void (*function)(void *), void *argument) {
  struct call *request = malloc(sizeof *request);
  request->function = function;
  request->argument = argument;
  standin_enqueue(stream, call, request);
  return SUCCESS;
}

struct copy {
  void *target;
  const void *source;
  size_t bytes;
};

static void copy(void *argument) {
  struct copy *copy = argument;
  memcpy(copy->target, copy->source, copy->bytes);
  free(copy);
}

STANDIN_API cudaError_t cudaMemcpyAsync(void *target, const void *source, size_t bytes, int kind, void *stream) {
  struct copy *request = malloc(sizeof *request);
  request->target = target;
  request->source = source;
  request->bytes = bytes;
  standin_enqueue(stream, copy, request);
  return SUCCESS;
}
