/* A target and its recovery in one, both of which do what a script says: `cargo xtask exploration` makes the scripts.
 *
 *   script SCRIPT POOL run            what the target does
 *   script SCRIPT POOL recover        what recovery does; prints what it has read, and exits with a status that depends on it
 *   script SCRIPT POOL each IMAGES    recovery on each image of a file, as a process of its own; prints how it ended
 *
 * A script has these parts, each a number of lines that the number before them says:
 *
 *   accesses   THREAD KIND OFFSET HEX     the target; thread 1 is started and joined for each run of its lines
 *   steps      KIND OFFSET HEX, 3 times   recovery; what it has read decides between the three
 *
 * and then VARIANT SPLIT EARLY EXPECTED LENIENT. The variant says how recovery does it: `l` in one process, `f` from step SPLIT
 * on in a forked child, `t` from there on in a second thread. It ends early after reading bytes whose sum modulo EARLY is 1. It
 * passes if the digest of what it read is EXPECTED, and if LENIENT is 1 also if that is even.
 *
 * The length of HEX is the width of the access, also where its value does not matter.
 *
 * @flags -pthread -Wl,-z,now */
#include "../check.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/uio.h>

enum { MOST_ACCESSES = 64, MOST_STEPS = 16, WIDEST = 16, TRANSCRIPT = 2048 };

struct access {
  int thread;
  char kind;
  unsigned offset, width;
  unsigned char bytes[WIDEST];
};

struct progress {
  unsigned sum;
  int ended;
  char transcript[TRANSCRIPT];
};

static struct access accesses[MOST_ACCESSES];
static struct access steps[MOST_STEPS][3];
static int access_count, step_count, split, lenient;
static unsigned early;
static unsigned long long expected;
static char variant;
static int pool_file;
static unsigned char *pool;

static void read_access(FILE *script, struct access *access) {
  char hex[2 * WIDEST + 1];
  check(fscanf(script, " %c %u %32s", &access->kind, &access->offset, hex) == 3);
  access->width = strlen(hex) / 2;
  for (unsigned at = 0; at < access->width; at++)
    check(sscanf(hex + 2 * at, "%2hhx", &access->bytes[at]) == 1);
}

static void read_script(const char *path) {
  FILE *script = fopen(path, "r");
  check(script != NULL && fscanf(script, "%d", &access_count) == 1 && access_count <= MOST_ACCESSES);
  for (int at = 0; at < access_count; at++) {
    check(fscanf(script, "%d", &accesses[at].thread) == 1);
    read_access(script, &accesses[at]);
  }
  check(fscanf(script, "%d", &step_count) == 1 && step_count <= MOST_STEPS);
  for (int at = 0; at < step_count; at++)
    for (int choice = 0; choice < 3; choice++)
      read_access(script, &steps[at][choice]);
  check(fscanf(script, " %c %d %u %llx %d", &variant, &split, &early, &expected, &lenient) == 5);
  fclose(script);
}

static void map(const char *path) {
  pool_file = open(path, O_RDWR);
  off_t size = lseek(pool_file, 0, SEEK_END);
  pool = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, pool_file, 0);
  check(pool_file >= 0 && pool != MAP_FAILED);
}

/* One store instruction of 1, 2, 4, 8 or 16 bytes. */
static void store(void *to, const void *from, unsigned width) {
  switch (width) {
  case 1: __asm__ volatile("movb %1, %0" : "=m"(*(uint8_t *)to) : "q"(*(const uint8_t *)from)); break;
  case 2: __asm__ volatile("movw %1, %0" : "=m"(*(uint16_t *)to) : "r"(*(const uint16_t *)from)); break;
  case 4: __asm__ volatile("movl %1, %0" : "=m"(*(uint32_t *)to) : "r"(*(const uint32_t *)from)); break;
  case 8: __asm__ volatile("movq %1, %0" : "=m"(*(uint64_t *)to) : "r"(*(const uint64_t *)from)); break;
  default:
    check(width == 16);
    __asm__ volatile("movdqu (%1), %%xmm0; movdqu %%xmm0, (%0)" ::"r"(to), "r"(from) : "xmm0", "memory");
  }
}

static void store_around_cache(void *to, const void *from, unsigned width) {
  switch (width) {
  case 4: __asm__ volatile("movnti %1, %0" : "=m"(*(uint32_t *)to) : "r"(*(const uint32_t *)from)); break;
  case 8: __asm__ volatile("movnti %1, %0" : "=m"(*(uint64_t *)to) : "r"(*(const uint64_t *)from)); break;
  default:
    check(width == 16);
    __asm__ volatile("movdqu (%1), %%xmm0; movntdq %%xmm0, (%0)" ::"r"(to), "r"(from) : "xmm0", "memory");
  }
}

static void copy(void *to, const void *from, size_t width) {
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(width)::"memory");
}

/* One load instruction of 1, 2, 4, 8 or 16 bytes. */
static void load(void *to, const void *from, unsigned width) {
  switch (width) {
  case 1: __asm__ volatile("movb %1, %0" : "=q"(*(uint8_t *)to) : "m"(*(const uint8_t *)from)); break;
  case 2: __asm__ volatile("movw %1, %0" : "=r"(*(uint16_t *)to) : "m"(*(const uint16_t *)from)); break;
  case 4: __asm__ volatile("movl %1, %0" : "=r"(*(uint32_t *)to) : "m"(*(const uint32_t *)from)); break;
  case 8: __asm__ volatile("movq %1, %0" : "=r"(*(uint64_t *)to) : "m"(*(const uint64_t *)from)); break;
  default:
    check(width == 16);
    __asm__ volatile("movdqu (%1), %%xmm0; movdqu %%xmm0, (%0)" ::"r"(to), "r"(from) : "xmm0", "memory");
  }
}

/* Exchanges and adds; `value` is then what was there. */
static void exchange_add(void *at, uint64_t *value, unsigned width) {
  if (width == 4)
    __asm__ volatile("lock xaddl %1, %0" : "+m"(*(uint32_t *)at), "+r"(*(uint32_t *)value));
  else
    __asm__ volatile("lock xaddq %1, %0" : "+m"(*(uint64_t *)at), "+r"(*value));
}

static void flush(const unsigned char *line) {
  if (cpu_has("clwb"))
    __asm__ volatile("clwb %0" : "+m"(*(volatile char *)line));
  else if (cpu_has("clflushopt"))
    __asm__ volatile("clflushopt %0" : "+m"(*(volatile char *)line));
  else
    __asm__ volatile("clflush %0" : "+m"(*(volatile char *)line));
}

static void perform(const struct access *access) {
  unsigned char *at = pool + access->offset;
  uint64_t value = 0;
  memcpy(&value, access->bytes, access->width < 8 ? access->width : 8);
  switch (access->kind) {
  case 's': store(at, access->bytes, access->width); break;
  case 'n': store_around_cache(at, access->bytes, access->width); break;
  case 'r': copy(at, access->bytes, access->width); break;
  case 'x': exchange_add(at, &value, access->width); break;
  case 'a': __asm__ volatile("addq %1, %0" : "+m"(*(uint64_t *)at) : "r"(value)); break;
  case 'w': flush(at); break;
  case 'c': __asm__ volatile("clflush %0" : "+m"(*(volatile char *)at)); break;
  case 'f': __asm__ volatile("sfence" ::: "memory"); break;
  case 'm': __asm__ volatile("mfence" ::: "memory"); break;
  case 'y': check(msync(pool + access->offset / 4096 * 4096, 4096, MS_SYNC) == 0); break;
  default: check(!"a kind of access");
  }
}

struct section {
  int from, to;
};

static void *perform_section(void *argument) {
  const struct section *section = argument;
  for (int at = section->from; at < section->to; at++)
    perform(&accesses[at]);
  return NULL;
}

static void run(void) {
  for (int from = 0, to; from < access_count; from = to) {
    for (to = from; to < access_count && accesses[to].thread == accesses[from].thread;)
      to++;
    struct section section = {from, to};
    pthread_t thread;
    if (accesses[from].thread == 0) {
      perform_section(&section);
    } else {
      check(pthread_create(&thread, NULL, perform_section, &section) == 0);
      check(pthread_join(thread, NULL) == 0);
    }
  }
}

static void note(struct progress *progress, const struct access *access, const unsigned char *bytes) {
  char *end = progress->transcript + strlen(progress->transcript);
  end += sprintf(end, "%c%u:", access->kind, access->offset);
  for (unsigned at = 0; at < access->width; at++)
    end += sprintf(end, "%02x", bytes[at]);
  for (unsigned at = 0; at < access->width; at++)
    progress->sum += bytes[at];
  strcpy(end, ";");
  progress->ended |= progress->sum % early == 1;
}

static void read_in_parts(unsigned char *bytes, const struct access *access) {
  unsigned first = access->width / 3;
  struct iovec parts[2] = {{bytes, first}, {bytes + first, access->width - first}};
  check(preadv(pool_file, parts, 2, access->offset) == (ssize_t)access->width);
}

static void recover_steps(struct progress *progress, int from, int to) {
  for (int at = from; at < to && !progress->ended; at++) {
    const struct access *access = &steps[at][progress->sum % 3];
    unsigned char bytes[WIDEST] = {0};
    uint64_t value = 1;
    switch (access->kind) {
    case 'l': load(bytes, pool + access->offset, access->width); break;
    case 'p': check(pread(pool_file, bytes, access->width, access->offset) == (ssize_t)access->width); break;
    case 'v': read_in_parts(bytes, access); break;
    case 'x':
      exchange_add(pool + access->offset, &value, access->width);
      memcpy(bytes, &value, access->width);
      break;
    default:
      perform(access);
      memcpy(bytes, access->bytes, access->width);
    }
    note(progress, access, bytes);
  }
}

static void *recover_rest(void *argument) {
  recover_steps(argument, split, step_count);
  return NULL;
}

static void recover_in_child(struct progress *progress) {
  int ends[2];
  check(pipe(ends) == 0);
  pid_t child = fork();
  check(child >= 0);
  if (child == 0) {
    recover_rest(progress);
    check(write(ends[1], progress, sizeof *progress) == sizeof *progress);
    _exit(7);
  }
  check(read(ends[0], progress, sizeof *progress) == sizeof *progress);
  check(exit_status(child) == 7);
}

static int recover(void) {
  static struct progress progress;
  pthread_t thread;
  recover_steps(&progress, 0, variant == 'l' ? step_count : split);
  if (variant == 'f')
    recover_in_child(&progress);
  if (variant == 't') {
    check(pthread_create(&thread, NULL, recover_rest, &progress) == 0);
    check(pthread_join(thread, NULL) == 0);
  }
  unsigned long long digest = 0xcbf29ce484222325;
  for (const char *at = progress.transcript; *at != 0; at++)
    digest = (digest ^ (unsigned char)*at) * 0x100000001b3;
  puts(progress.transcript);
  if (digest == expected || (lenient && digest % 2 == 0))
    return 0;
  return 1 + digest / 2 % 90;
}

static void recover_each(char **argv, const char *images) {
  char *recovery[] = {argv[0], argv[1], argv[2], "recover", NULL};
  int file = open(images, O_RDONLY), target = open(argv[2], O_RDWR);
  off_t size = lseek(target, 0, SEEK_END);
  char *image = malloc(size);
  check(file >= 0 && target >= 0 && image != NULL);
  while (read(file, image, size) == size) {
    check(pwrite(target, image, size, 0) == size);
    fflush(stdout);
    pid_t child = fork();
    check(child >= 0);
    if (child == 0) {
      execv("/proc/self/exe", recovery);
      check(!"recovery can be started");
    }
    printf("%d\n", exit_status(child));
  }
}

int main(int argc, char **argv) {
  check(argc >= 4);
  read_script(argv[1]);
  if (strcmp(argv[3], "each") == 0) {
    check(argc == 5);
    recover_each(argv, argv[4]);
    return 0;
  }
  map(argv[2]);
  if (strcmp(argv[3], "recover") == 0)
    return recover();
  run();
  return 0;
}
