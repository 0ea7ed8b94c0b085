/* Libraries are loaded, used and unloaded; exceptions to the usual place keep them moving.
 *
 * @lib moving -g
 * @flags -ldl
 * @args {build}/libmoving.so
 */
#ifdef LIB
static int calls;
int moving(int number) { return number + ++calls; }
#else
#include <dlfcn.h>
#include "soak.h"

int main(int argc, char **argv) {
  soak_start(argc, argv);
  for (int round = 0; soak_on(); round++) {
    void *in_the_way = mmap(NULL, (size_t)(round % 7 + 1) * 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *library = dlopen(argv[1], RTLD_NOW);
    check(library != NULL);
    int (*moving)(int) = (int (*)(int))dlsym(library, "moving");
    check(moving(round) == round + 1);
    check(dlclose(library) == 0);
    munmap(in_the_way, (size_t)(round % 7 + 1) * 4096);
  }
  say("loaded");
  return 0;
}
#endif
