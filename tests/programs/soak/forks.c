/* Children come and go, and write persistent memory that they inherited. */
#include "soak.h"

int main(int argc, char **argv) {
  soak_start(argc, argv);
  volatile int *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, soak_file(4096), 0);
  check(map != MAP_FAILED);
  for (int round = 0; soak_on(); round++) {
    pid_t child = fork();
    check(child >= 0);
    if (child == 0) {
      map[round % 1024] = round;
      _exit(round % 50);
    }
    check(exit_status(child) == round % 50 && map[round % 1024] == round);
  }
  say("waited");
  return 0;
}
