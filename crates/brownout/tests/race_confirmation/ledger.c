/* `ledger POOL MODE`: a thread stores sums, and another one enters what it reads of them into a book. `ledger POOL check` is the
 * recovery: the book must not be ahead of the sum.
 *
 * MODE is `late` if the sum is made durable outside of the critical section, `early` if inside, `idle` if the reader does nothing
 * with what it reads, and `again` if it is as with `late`, in a pool whose book must have entries. */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct pool {
  volatile uint64_t sum;
  char gap[4088];
  volatile uint64_t book;
};

enum { ROUNDS = 3, FIRST_SUM = 100000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct pool *pool;
static volatile int has_read, is_over;
static int is_late, is_idle;

static void persist(volatile void *place) {
  __asm__ volatile("clflush %0; sfence" : "+m"(*(volatile char *)place)::"memory");
}

static void *reader(void *unused) {
  do {
    pthread_mutex_lock(&mutex);
    uint64_t sum = pool->sum;
    pthread_mutex_unlock(&mutex);
    if (!is_idle) {
      pool->book = sum;
      persist(&pool->book);
    }
    has_read = 1;
    usleep(500);
  } while (!is_over);
  return unused;
}

static void *writer(void *unused) {
  /* What only the writer knows of could not race. */
  while (!has_read)
    usleep(100);
  for (int round = 0; round < ROUNDS; round++) {
    pthread_mutex_lock(&mutex);
    pool->sum = FIRST_SUM + round;
    if (!is_late)
      persist(&pool->sum);
    pthread_mutex_unlock(&mutex);
    if (is_late)
      persist(&pool->sum);
    usleep(500);
  }
  is_over = 1;
  return unused;
}

int main(int argc, char **argv) {
  pthread_t threads[2];
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (argc < 3 || fd < 0 || ftruncate(fd, 8192) != 0)
    return 2;
  /* The first page alone is looked at first, as libraries do with the headers of pools. */
  void *header = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (header == MAP_FAILED || munmap(header, 4096) != 0)
    return 2;
  pool = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (pool == MAP_FAILED)
    return 2;
  if (strcmp(argv[2], "check") == 0) {
    if (pool->book > pool->sum)
      fprintf(stderr, "the book is ahead of the sum\n");
    return pool->book > pool->sum;
  }
  if (strcmp(argv[2], "again") == 0 && pool->book == 0)
    return 2;
  is_late = strcmp(argv[2], "early") != 0;
  is_idle = strcmp(argv[2], "idle") == 0;
  pthread_create(&threads[0], NULL, reader, NULL);
  pthread_create(&threads[1], NULL, writer, NULL);
  pthread_join(threads[0], NULL);
  pthread_join(threads[1], NULL);
  return 0;
}
