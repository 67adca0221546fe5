/* Stand-in for the CUDA driver, libcuda.so.1: devices that are not there. */
#include "standin.h"

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101,
       INVALID_CONTEXT = 201 };

static int initialized;
static int visible[STANDIN_MAX_DEVICES];
static int count;
static long retained[STANDIN_MAX_DEVICES];
static __thread long current;

STANDIN_API CUresult cuInit(unsigned flags) {
  long failure = standin_number("STANDIN_CUINIT", 0);
  if (failure != 0) return (int) failure;
  count = standin_visible(visible, STANDIN_MAX_DEVICES);
  if (count == 0) return NO_DEVICE;
  initialized = 1;
  return SUCCESS;
}

STANDIN_API CUresult cuDriverGetVersion(int *version) {
  *version = (int) standin_number("STANDIN_DRIVER", 13010);
  return SUCCESS;
}

static CUresult check(CUdevice device) {
  if (!initialized) return NOT_INITIALIZED;
  return device < 0 || device >= count ? INVALID_DEVICE : SUCCESS;
}

STANDIN_API CUresult cuDeviceGetCount(int *result) {
  if (!initialized) return NOT_INITIALIZED;
  *result = count;
  return SUCCESS;
}

STANDIN_API CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return check(ordinal);
}

STANDIN_API CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  if (check(device)) return check(device);
  snprintf(name, length, "Stand-in GPU");
  return SUCCESS;
}

STANDIN_API CUresult cuDeviceGetUuid(unsigned char *uuid, CUdevice device) {
  if (check(device)) return check(device);
  memset(uuid, 0xA0, 16);
  uuid[15] = (unsigned char) visible[device];
  return SUCCESS;
}

STANDIN_API CUresult cuDeviceGetUuid_v2(unsigned char *uuid, CUdevice device) {
  return cuDeviceGetUuid(uuid, device);
}

STANDIN_API CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
  if (check(device)) return check(device);
  switch (attribute) {
    case 75: *value = 9; return SUCCESS; /* compute capability, major */
    case 76: *value = 0; return SUCCESS; /* and minor */
    case 33: *value = 16 + visible[device]; return SUCCESS; /* PCI bus */
    case 34: *value = 0; return SUCCESS;
    case 50: *value = 0; return SUCCESS;
    default: *value = 0; return SUCCESS;
  }
}

STANDIN_API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  *bytes = (size_t) standin_number("STANDIN_TOTAL_MIB", 8192) << 20;
  return check(device);
}

STANDIN_API CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device) {
  if (check(device)) return check(device);
  snprintf(id, length, "0000:%02X:00.0", 16 + visible[device]);
  return SUCCESS;
}

STANDIN_API CUresult cuDevicePrimaryCtxRetain(void **context, CUdevice device) {
  if (check(device)) return check(device);
  if (standin_number("STANDIN_FREE_MIB", 6144) == 0) return OUT_OF_MEMORY;
  __sync_fetch_and_add(&retained[device], 1);
  *context = (void *) (long) (device + 1);
  return SUCCESS;
}

STANDIN_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  if (check(device)) return check(device);
  if (retained[device] == 0) return INVALID_CONTEXT;
  __sync_fetch_and_sub(&retained[device], 1);
  return SUCCESS;
}

STANDIN_API CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return cuDevicePrimaryCtxRelease_v2(device);
}

STANDIN_API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
  if (check(device)) return check(device);
  *flags = 0;
  *active = retained[device] > 0;
  return SUCCESS;
}

STANDIN_API CUresult cuCtxPushCurrent_v2(void *context) {
  if (context == NULL || current != 0) return INVALID_CONTEXT;
  current = (long) context;
  return SUCCESS;
}

STANDIN_API CUresult cuCtxPushCurrent(void *context) { return cuCtxPushCurrent_v2(context); }

STANDIN_API CUresult cuCtxPopCurrent_v2(void **context) {
  if (current == 0) return INVALID_CONTEXT;
  *context = (void *) current;
  current = 0;
  return SUCCESS;
}

STANDIN_API CUresult cuCtxPopCurrent(void **context) { return cuCtxPopCurrent_v2(context); }

STANDIN_API CUresult cuMemGetInfo_v2(size_t *unused, size_t *total) {
  if (current == 0) return INVALID_CONTEXT;
  *unused = (size_t) standin_number("STANDIN_FREE_MIB", 6144) << 20;
  *total = (size_t) standin_number("STANDIN_TOTAL_MIB", 8192) << 20;
  return SUCCESS;
}

STANDIN_API CUresult cuGetErrorName(CUresult error, const char **name) {
  switch (error) {
    case OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return SUCCESS;
    case NO_DEVICE: *name = "CUDA_ERROR_NO_DEVICE"; return SUCCESS;
    case 803: *name = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"; return SUCCESS;
    case 999: *name = "CUDA_ERROR_UNKNOWN"; return SUCCESS;
    default: *name = "CUDA_ERROR"; return SUCCESS;
  }
}

STANDIN_API CUresult cuGetErrorString(CUresult error, const char **text) {
  switch (error) {
    case OUT_OF_MEMORY: *text = "out of memory"; return SUCCESS;
    case NO_DEVICE: *text = "no CUDA-capable device is detected"; return SUCCESS;
    case 803: *text = "system has unsupported display driver / cuda driver combination"; return SUCCESS;
    default: *text = "unknown error"; return SUCCESS;
  }
}
