/* An optimising compiler merges neighbouring stores into one, with the line of one of them. */
#include "../pm.h"

struct header {
  uint32_t magic;
  uint32_t version;
  uint32_t flags;
  uint32_t count;
};

static void flush(const void *from, size_t size) {
  for (uintptr_t line = (uintptr_t)from & ~63ul; line < (uintptr_t)from + size; line += 64)
    FLUSH(*(char *)line);
}

int main(int argc, char **argv) {
  struct header *header = (struct header *)map_pool(argv[1]);
  flush(header, sizeof *header);
  header->magic = 0x1234;
  header->version = 7;
  header->flags = 1;
  header->count = 0;
  // repair: flush(header, sizeof *header);
  FENCE();
  return 0;
}
