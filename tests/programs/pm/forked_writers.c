/* Children and grandchildren write mappings they inherited and mappings of their own. */
#include "pm.h"

int main(int argc, char **argv) {
  const char *directory = directory_of(argc, argv);
  char *map = pm_map(directory, "file", 1 << 18);
  memset(map, 1, 5000);
  for (int i = 0; i < 8; i++) {
    pid_t child = fork();
    if (child == 0) {
      memset(map + i * 20000 + 100, 10 + i, 9999);
      char name[16];
      snprintf(name, sizeof name, "own%d", i);
      char *own = pm_map(directory, name, 1 << 16);
      memset(own + i, 40 + i, 1 << 15);
      if (fork() == 0) {
        memset(map + i * 20000 + 15000, 30 + i, 777);
        own[60000] = 'g';
        _exit(0);
      }
      wait(NULL);
      own[60001] = 'c';
      _exit(0);
    }
    if (i % 2) check(exit_status(child) == 0);
    map[200000 + i] = (char)i;
  }
  while (wait(NULL) > 0) {
  }
  memset(map + 250000, 2, 100);
  return 0;
}
