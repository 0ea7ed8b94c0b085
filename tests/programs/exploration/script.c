/* A target and its recovery in one, both of which do what a script says: `cargo xtask exploration` makes the scripts.
 *
 *   script SCRIPT POOL run            what the target does
 *   script SCRIPT POOL recover        what recovery does; prints what it has read, and exits with a status that depends on it
 *   script SCRIPT POOL rest           the second part of a recovery: standard input and output are its progress
 *   script SCRIPT POOL each IMAGES    recovery on each image of a file, as a process of its own; prints how it ended
 *
 * A script has these parts, each a number of lines that the number before them says:
 *
 *   accesses   THREAD KIND OFFSET HEX     the target; thread 1 is started and joined for each run of its lines
 *   steps      KIND OFFSET HEX, 3 times   recovery; what it has read decides between the three
 *
 * and then VARIANT SPLIT EARLY EXPECTED LENIENT. The variant says how recovery does it: `l` in one process, `f` from step SPLIT
 * on in a forked child, `e` from there on in a child that executes the program again, `t` in a second thread. It ends early after reading
 * bytes whose sum modulo EARLY is 1. It passes if the digest of what it read is EXPECTED, and if LENIENT is 1 also if that is even.
 *
 * The length of HEX is the width of the access, also where its value does not matter.
 *
 * @flags -pthread -Wl,-z,now */
#define _GNU_SOURCE
#include "../check.h"
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>

/* The name of a file in memory has at most 249 bytes. */
enum { MOST_ACCESSES = 64, MOST_STEPS = 16, WIDEST = 16, LONGEST_NAME = 249, TRANSCRIPT = 16384 };
/* Where recovery copies what it reads with `copy_file_range`; nothing else uses it. */
enum { SCRATCH = 6144 };

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

/* Through the elements of a vector. */
static void gather(unsigned char *bytes, const unsigned char *from) {
  static const int32_t order[4] = {0, 1, 2, 3};
  if (!cpu_has("avx2")) {
    load(bytes, from, 16);
    return;
  }
  __asm__ volatile("vpcmpeqd %%xmm2, %%xmm2, %%xmm2; vmovdqu (%1), %%xmm1; vpxor %%xmm0, %%xmm0, %%xmm0;"
                   "vpgatherdd %%xmm2, (%2,%%xmm1,4), %%xmm0; vmovdqu %%xmm0, (%0)" ::"r"(bytes),
                   "r"(order), "r"(from)
                   : "xmm0", "xmm1", "xmm2", "memory");
}

/* The first and the third of four elements. */
static void load_masked(unsigned char *bytes, const unsigned char *from) {
  static const int32_t mask[4] = {-1, 0, -1, 0};
  if (!cpu_has("avx")) {
    load(bytes, from, 4);
    load(bytes + 8, from + 8, 4);
    return;
  }
  __asm__ volatile("vmovdqu (%1), %%xmm1; vmaskmovps (%2), %%xmm1, %%xmm0; vmovdqu %%xmm0, (%0)" ::"r"(bytes),
                   "r"(mask), "r"(from)
                   : "xmm0", "xmm1", "memory");
}

static void load_privately(unsigned char *bytes, const struct access *access) {
  int protection = PROT_READ | (access->offset & 8 ? PROT_WRITE : 0);
  off_t page = access->offset / 4096 * 4096, size = lseek(pool_file, 0, SEEK_END) - page;
  unsigned char *mapped = mmap(NULL, size, protection, MAP_PRIVATE, pool_file, page);
  check(mapped != MAP_FAILED);
  load(bytes, mapped + access->offset % 4096, access->width);
  check(munmap(mapped, size) == 0);
}

/* What a system call sends to a pipe. */
static void read_through_pipe(unsigned char *bytes, const struct access *access) {
  int ends[2];
  ssize_t sent, width = access->width;
  off_t offset = access->offset;
  unsigned char *at = pool + access->offset;
  struct iovec parts[2] = {{at, width / 3}, {at + width / 3, width - width / 3}};
  check(pipe(ends) == 0);
  switch (access->kind) {
  case 'd': sent = sendfile(ends[1], pool_file, &offset, width); break;
  case 'o': sent = write(ends[1], at, width); break;
  default: sent = writev(ends[1], parts, 2);
  }
  check(sent == width && read(ends[0], bytes, width) == width);
  check(close(ends[0]) == 0 && close(ends[1]) == 0);
}

static void copy_in_file(unsigned char *bytes, const struct access *access) {
  off_t from = access->offset, to = SCRATCH;
  check(copy_file_range(pool_file, &from, pool_file, &to, access->width, 0) == (ssize_t)access->width);
  memcpy(bytes, pool + SCRATCH, access->width);
}

/* Whether the system finds the value there that a load finds. */
static void wait_for_word(unsigned char *bytes, const struct access *access) {
  uint32_t value, found, *word = (uint32_t *)(pool + access->offset);
  struct timespec none = {0, 0};
  memcpy(&value, access->bytes, sizeof value);
  check(syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &none, NULL, 0) == -1);
  int is_equal = errno == ETIMEDOUT;
  check(is_equal || errno == EAGAIN);
  load(&found, word, sizeof found);
  check(is_equal == (found == value));
  memcpy(bytes, &found, sizeof found);
}

/* The name that the system finds there: how much it reads depends on what it reads. */
static void name_file(struct progress *progress, const struct access *access) {
  char link[32], name[LONGEST_NAME + 32];
  int file = memfd_create((const char *)pool + access->offset, 0);
  check(file >= 0);
  sprintf(link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, name, sizeof name);
  const char prefix[] = "/memfd:", suffix[] = " (deleted)";
  length -= sizeof prefix - 1 + sizeof suffix - 1;
  check(length >= 0 && close(file) == 0);
  struct access part = *access;
  for (part.width = 1; length-- > 0; part.offset++)
    note(progress, &part, (unsigned char *)name + sizeof prefix - 1 + (part.offset - access->offset));
  note(progress, &part, (const unsigned char *)"");
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
    struct access part = *access;
    switch (access->kind) {
    case 'l': load(bytes, pool + access->offset, access->width); break;
    case 'q': copy(bytes, pool + access->offset, access->width); break;
    case 'g': gather(bytes, pool + access->offset); break;
    case 'k':
      load_masked(bytes, pool + access->offset);
      part.width = 4;
      note(progress, &part, bytes);
      part.offset += 8;
      note(progress, &part, bytes + 8);
      continue;
    case 'b': load_privately(bytes, access); break;
    case 'd':
    case 'o':
    case 'i': read_through_pipe(bytes, access); break;
    case 'j': copy_in_file(bytes, access); break;
    case 'u': wait_for_word(bytes, access); break;
    case 'h': name_file(progress, access); continue;
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

static void read_all(int file, struct progress *progress) {
  for (size_t at = 0; at < sizeof *progress;) {
    ssize_t got = read(file, (char *)progress + at, sizeof *progress - at);
    check(got > 0);
    at += got;
  }
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
  read_all(ends[0], progress);
  check(exit_status(child) == 7);
}

/* The rest of a recovery, in a program that was executed for it. */
static void recover_rest_for_parent(void) {
  static struct progress progress;
  read_all(0, &progress);
  recover_rest(&progress);
  check(write(1, &progress, sizeof progress) == sizeof progress);
}

static void recover_in_program(char **argv, struct progress *progress) {
  char *rest[] = {argv[0], argv[1], argv[2], "rest", NULL};
  int to[2], from[2];
  check(pipe(to) == 0 && pipe(from) == 0);
  pid_t child = fork();
  check(child >= 0);
  if (child == 0) {
    check(dup2(to[0], 0) == 0 && dup2(from[1], 1) == 1);
    execv("/proc/self/exe", rest);
    check(!"the program can be executed again");
  }
  check(write(to[1], progress, sizeof *progress) == sizeof *progress);
  read_all(from[0], progress);
  check(exit_status(child) == 0);
}

static int recover(char **argv) {
  static struct progress progress;
  pthread_t thread;
  recover_steps(&progress, 0, variant == 'l' ? step_count : split);
  if (variant == 'f')
    recover_in_child(&progress);
  if (variant == 'e')
    recover_in_program(argv, &progress);
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
    return recover(argv);
  if (strcmp(argv[3], "rest") == 0)
    recover_rest_for_parent();
  else
    run();
  return 0;
}
