/* Files are mapped where the program asks: fixed, not to replace, and as a hint; raw pointers stored in them hold. */
#include "pm.h"

struct node {
  struct node *next;
  long value;
};

int main(int argc, char **argv) {
  static const uintptr_t wanted[] = {0x10000000000, 0x20000000000, 0x7e0000000000, 0x300000000, 0x50000000};
  const char *directory = directory_of(argc, argv);
  for (unsigned i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    char name[16];
    snprintf(name, sizeof name, "file%u", i);
    int fd = pm_open(directory, name, 1 << 20);
    int flags = i == 0 ? MAP_FIXED : i == 1 ? MAP_FIXED_NOREPLACE : 0;
    void *map = mmap((void *)wanted[i], 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, 0);
    check(map == (void *)wanted[i]);
    struct node *nodes = map, *head = NULL;
    for (int n = 0; n < 1000; n++) {
      nodes[n * 7].value = n;
      nodes[n * 7].next = head;
      head = &nodes[n * 7];
    }
    check(munmap(map, 1 << 20) == 0);
    check(mmap((void *)wanted[i], 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == (void *)wanted[i]);
    long sum = 0;
    for (struct node *node = head; node; node = node->next) sum += node->value++;
    check(sum == 999 * 500);
    close(fd);
  }
  return 0;
}
