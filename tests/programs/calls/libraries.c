/* A watched function in libraries that are loaded at the same place in turn, and unloaded.
 *
 * @lib one -DNUMBER=1
 * @lib two -DNUMBER=2 -DPADDING
 * @args {build}/libone.so {build}/libtwo.so
 */
#ifdef LIB
#ifdef PADDING
long padding(long n) { return n * n * n + 3 * n * n - n; }
#endif
long number(long n) { return NUMBER * 100 + n; }
#else
#include <dlfcn.h>
#include "call_log.h"

int main(int argc, char **argv) {
  check(argc == 3);
  for (long i = 0; i < 20; i++) {
    void *library = dlopen(argv[1 + i % 2], RTLD_NOW | RTLD_LOCAL);
    check(library);
    long (*number)(long) = (long (*)(long))dlsym(library, "number");
    check(number);
    log_call("call", "number", i);
    log_call("return", "number", number(i));
    check(dlclose(library) == 0);
  }
  return 0;
}
#endif
