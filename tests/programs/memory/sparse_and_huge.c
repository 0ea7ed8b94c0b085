/* Large reservations, most of them never touched, cost nothing and behave. */
#include "check.h"

int main(void) {
  char *areas[20];
  for (int i = 0; i < 20; i++) {
    areas[i] = mmap(NULL, 1L << 38, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    check(areas[i] != MAP_FAILED);
    for (long at = 0; at < 1L << 38; at += 1L << 34) areas[i][at] = (char)i;
  }
  for (int i = 0; i < 20; i++)
    for (long at = 0; at < 1L << 38; at += 1L << 34) check(areas[i][at] == i && areas[i][at + 1] == 0);
  for (int i = 0; i < 20; i++) check(munmap(areas[i], 1L << 38) == 0);
  say("five terabytes");
  return 0;
}
