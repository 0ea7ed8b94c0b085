/* `gate POOL MODE`: the main thread takes a lock, stores a sum and makes it durable, and releases the lock. Meanwhile a reader enters
 * the sum into a book.
 *
 * MODE is `reader` if the reader goes through the lock before it loads, and `other` if it takes no lock and loads late, while another
 * thread, which never loads, goes through the lock. */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct pool {
  volatile uint64_t sum;
  char gap[4088];
  volatile uint64_t book;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct pool *pool;
static int is_gated;
static volatile int is_stored;

static void persist(volatile void *place) {
  __asm__ volatile("clflush %0; sfence" : "+m"(*(volatile char *)place)::"memory");
}

static void pass_gate(void) {
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
}

/* From now on, the memory is no longer private to one thread. */
static void *visitor(void *unused) {
  if (pool->sum != 0)
    pool->book = 1;
  return unused;
}

static void *reader(void *unused) {
  if (is_gated)
    pass_gate();
  while (!is_stored)
    usleep(1000);
  pool->book = pool->sum;
  persist(&pool->book);
  return unused;
}

static void *other(void *unused) {
  pass_gate();
  return unused;
}

int main(int argc, char **argv) {
  pthread_t threads[3];
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (argc < 3 || fd < 0 || ftruncate(fd, 8192) != 0)
    return 2;
  pool = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (pool == MAP_FAILED)
    return 2;
  is_gated = strcmp(argv[2], "reader") == 0;
  pthread_create(&threads[0], NULL, visitor, NULL);
  pthread_join(threads[0], NULL);
  pthread_mutex_lock(&mutex);
  pthread_create(&threads[1], NULL, reader, NULL);
  pthread_create(&threads[2], NULL, other, NULL);
  pool->sum = 100000;
  persist(&pool->sum);
  pthread_mutex_unlock(&mutex);
  is_stored = 1;
  pthread_join(threads[1], NULL);
  pthread_join(threads[2], NULL);
  return 0;
}
