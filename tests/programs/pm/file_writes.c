/* A mapped file is also written through descriptors: write, pwrite, writev, truncation, holes, copies, splices. */
#include <linux/falloc.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include "pm.h"

int main(int argc, char **argv) {
  const char *directory = directory_of(argc, argv);
  char path[4096], text[20000];
  int fd = pm_open(directory, "file", 40 * 4096), again, ends[2];
  volatile char *map = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  check(map != MAP_FAILED && pipe(ends) == 0);
  snprintf(path, sizeof path, "%s/scratch", directory);
  check(mkdir(path, 0700) == 0);
  int source = pm_open(path, "source", 0);
  for (int i = 0; i < 20000; i++) text[i] = (char)noise();
  check(write(source, text, sizeof text) == sizeof text);
  for (int i = 0; i < 40 * 4096; i += 100) map[i] = (char)noise();

  check(pwrite(fd, text, 5000, 3000) == 5000 && lseek(fd, 20000, SEEK_SET) == 20000 && write(fd, text + 7, 4000) == 4000);
  struct iovec parts[3] = {{text, 10}, {text + 100, 4096}, {text + 9000, 1}};
  check(writev(fd, parts, 3) == 4107 && pwritev(fd, parts, 3, 30001) == 4107);
  map[30005] = 'x';
  snprintf(path, sizeof path, "%s/file", directory);
  again = open(path, O_WRONLY | O_APPEND); /* another description, at the end */
  check(again >= 0 && write(again, text, 6000) == 6000);
  map[41 * 4096] = 'y'; /* what the file has grown by is mapped */
  int copy = dup(fd);
  check(pwrite(copy, text + 50, 50, 50000) == 50);
  check(ftruncate(fd, 43 * 4096 - 100) == 0 && ftruncate(fd, 42 * 4096 + 10) == 0 && ftruncate(fd, 45 * 4096) == 0);
  map[44 * 4096] = 'z';
  check(truncate(path, 44 * 4096 + 50) == 0);
  check(fallocate(fd, 0, 44 * 4096, 3 * 4096) == 0);
  check(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096 * 5 + 100, 3 * 4096) == 0);
  map[6 * 4096 + 7] = 'h';
  if (fallocate(fd, FALLOC_FL_ZERO_RANGE, 4096 * 12 + 1, 2 * 4096) == -1) check(errno == EOPNOTSUPP);
  off_t from = 1000, to = 70000;
  check(copy_file_range(source, &from, fd, &to, 9000, 0) == 9000 || errno == EXDEV);
  from = 500;
  check(lseek(fd, 80000, SEEK_SET) == 80000 && sendfile(fd, source, &from, 7000) == 7000);
  check(write(ends[1], text, 3000) == 3000);
  to = 90001;
  check(splice(ends[0], NULL, fd, &to, 3000, 0) == 3000);
  if (madvise((void *)(map + 20 * 4096), 2 * 4096, MADV_REMOVE) == 0) map[20 * 4096 + 3] = 'r';
  check(pwrite(fd, (const void *)map, 10000, 100000) == 10000);          /* out of and into the same file */
  check(pread(fd, (void *)(map + 120000), 8000, 2000) == 8000);
  check(fsync(fd) == 0 && fdatasync(fd) == 0 && sync_file_range(fd, 0, 4096, SYNC_FILE_RANGE_WRITE) == 0);
  return 0;
}
