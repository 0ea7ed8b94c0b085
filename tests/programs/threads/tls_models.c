/* Thread-local storage of the program and of a library loaded at run time, with destructors.
 *
 * @lib tls
 * @args {build}/libtls.so
 */
#ifdef LIB
static __thread int counter = 100;
static __thread char large[10000];
int bump(void) { return ++counter + (large[9999] += 1); }
#else
#include <dlfcn.h>
#include <pthread.h>
#include "check.h"

static __thread int local = 5;
static __thread char zeroed[5000];
static int (*bump)(void);
static pthread_key_t key;
static int destroyed;

static void destroy(void *value) { destroyed += (int)(long)value; }

static void *work(void *argument) {
  check(local == 5 && zeroed[4999] == 0);
  local = zeroed[4999] = 9;
  check(bump() == 102 && bump() == 104);
  pthread_setspecific(key, (void *)1);
  return argument;
}

int main(int argc, char **argv) {
  check(argc == 2);
  pthread_t threads[10];
  void *library = dlopen(argv[1], RTLD_NOW);
  check(library);
  bump = (int (*)(void))dlsym(library, "bump");
  pthread_key_create(&key, destroy);
  check(bump() == 102);
  for (int i = 0; i < 10; i++) check(pthread_create(&threads[i], NULL, work, NULL) == 0);
  for (int i = 0; i < 10; i++) check(pthread_join(threads[i], NULL) == 0);
  check(bump() == 104 && local == 5 && destroyed == 10);
  say("local");
  return 0;
}
#endif
