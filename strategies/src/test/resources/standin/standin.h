/* What the three stand-ins share. */
#ifndef STANDIN_H
#define STANDIN_H
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>

static inline long standin_number(const char *name, long otherwise) {
  const char *text = getenv(name);
  return text == NULL || *text == 0 ? otherwise : atol(text);
}

/* The device numbers that CUDA_VISIBLE_DEVICES leaves, as the driver reads it: up to the first that does not exist. */
static inline int standin_visible(int *devices, int capacity) {
  int all = (int) standin_number("STANDIN_DEVICES", 2);
  const char *text = getenv("CUDA_VISIBLE_DEVICES");
  int count = 0;
  if (text == NULL) {
    for (; count < all && count < capacity; count++) devices[count] = count;
    return count;
  }
  while (*text != 0 && count < capacity) {
    char *end;
    long device = strtol(text, &end, 10);
    if (end == text || device < 0 || device >= all) break;
    devices[count++] = (int) device;
    text = *end == ',' ? end + 1 : end;
  }
  return count;
}

#define STANDIN_MAX_DEVICES 16
#define STANDIN_API __attribute__((visibility("default")))

/* Exported by the runtime's stand-in for NCCL's: runs work(argument) on a stream, in order, on the stream's thread. */
void standin_enqueue(void *stream, void (*work)(void *), void *argument);
#endif
