/* The file grows before the header says that it has. */
// recover: {program} {dir}/pool check
#include "../recovery.h"
#include <sys/stat.h>

static int grow(const char *path, struct line *header) {
  int failed = truncate(path, 2 * POOL_SIZE);
  SET(header->word[0], 2 * POOL_SIZE);
  return failed;
}

static int recover(const char *path, const struct line *header) {
  size_t size = header->word[0];
  int fd = open(path, O_RDONLY);
  if (size == 0)
    return 0;
  const volatile char *all = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
  REQUIRE(all != MAP_FAILED);
  return all[size - 1];
}

static struct line *map_header(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT, 0600);
  struct stat file;
  if (fd < 0 || fstat(fd, &file) != 0 || (file.st_size == 0 && ftruncate(fd, POOL_SIZE) != 0))
    exit(1);
  return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

int main(int argc, char **argv) {
  struct line *header = map_header(argv[1]);
  if (argc > 2)
    return recover(argv[1], header);
  SET(header->word[0], POOL_SIZE);
  return grow(argv[1], header);
}
