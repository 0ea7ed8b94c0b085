/* Two libraries with different code are loaded at the same place in turn, called and unloaded.
 *
 * @lib one -DNUMBER=1
 * @lib two -DNUMBER=2 -O0
 * @args {build}/libone.so {build}/libtwo.so
 */
#ifdef LIB
static int count;
__attribute__((constructor)) static void start(void) { count = 10; }
int number(void) { return NUMBER * 100 + count++; }
#else
#include <dlfcn.h>
#include "check.h"

int main(int argc, char **argv) {
  check(argc == 3);
  void *place = NULL;
  int same = 0;
  for (int i = 0; i < 300; i++) {
    void *library = dlopen(argv[1 + i % 2], RTLD_NOW | RTLD_LOCAL);
    check(library);
    int (*number)(void) = (int (*)(void))dlsym(library, "number");
    check(number);
    check(number() == (1 + i % 2) * 100 + 10 && number() == (1 + i % 2) * 100 + 11);
    Dl_info info;
    check(dladdr((void *)number, &info) != 0);
    same += place == info.dli_fbase;
    place = info.dli_fbase;
    check(dlclose(library) == 0);
  }
  check(same > 0);
  check(dlopen("/nowhere.so", RTLD_NOW) == NULL && dlerror());
  say("loaded 300 times");
  return 0;
}
#endif
