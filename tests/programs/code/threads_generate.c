/* One thread rewrites a function, others call it; each version is published with a flag. */
#include <pthread.h>
#include "generated.h"

static unsigned char *pages[2];
static int published = -1;

static void *calls(void *argument) {
  int now;
  while ((now = __atomic_load_n(&published, __ATOMIC_ACQUIRE)) < 200) {
    if (now < 0) continue;
    int got = call(pages[now % 2]);
    check(got >= now && got <= 200 && got % 2 == now % 2);
  }
  return argument;
}

int main(void) {
  pthread_t threads[3];
  for (int i = 0; i < 2; i++) pages[i] = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < 3; i++) check(pthread_create(&threads[i], NULL, calls, NULL) == 0);
  for (int version = 0; version <= 200; version++) {
    /* A new page takes the place of the old one at once, so that no thread meets a page it cannot run. */
    unsigned char *fresh = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    write_function(fresh, version);
    check(mprotect(fresh, 4096, PROT_READ | PROT_EXEC) == 0);
    check(mremap(fresh, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, pages[version % 2]) == pages[version % 2]);
    __atomic_store_n(&published, version, __ATOMIC_RELEASE);
    for (volatile int spin = 0; spin < 2000; spin++) {
    }
  }
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  say("published");
  return 0;
}
