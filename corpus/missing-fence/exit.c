/* The process ends as C programs end: the C library takes locks during exit, which are no fences to rely on. */
// variants: clwb clflushopt nt
// build: -pthread
#include "../pm.h"
#include <pthread.h>

static void *nothing(void *unused) { return unused; }

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  pthread_t thread; /* a process that has had threads takes its locks in earnest */
  pthread_create(&thread, NULL, nothing, NULL);
  pthread_join(thread, NULL);
  STORE(pm[0].word[0], 1); // expect[nt]: missing-fence
  FLUSH(pm[0]);            // expect[clwb, clflushopt]: missing-fence
  return 0;
}
