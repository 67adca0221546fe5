/* Stand-in for NVIDIA's management library, libnvidia-ml.so.1. */
#include "standin.h"

typedef struct { unsigned long long total, unused, used; } memory;
typedef struct { unsigned gpu, memory; } utilization;

STANDIN_API int nvmlInit_v2(void) { return 0; }
STANDIN_API int nvmlShutdown(void) { return 0; }

STANDIN_API int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device) {
  unsigned bus;
  if (sscanf(id, "%*x:%x:", &bus) != 1 || bus < 16) return 6; /* not found */
  *device = (void *) (long) (bus - 15);
  return 0;
}

STANDIN_API int nvmlDeviceGetMemoryInfo(void *device, memory *result) {
  result->total = (unsigned long long) standin_number("STANDIN_TOTAL_MIB", 8192) << 20;
  result->unused = (unsigned long long) standin_number("STANDIN_FREE_MIB", 6144) << 20;
  result->used = result->total - result->unused;
  return 0;
}

STANDIN_API int nvmlDeviceGetUtilizationRates(void *device, utilization *result) {
  result->gpu = 40 + (unsigned) (long) device;
  result->memory = 7;
  return 0;
}
