/* host CODE INPUT OUTPUT: executes CODE on the bytes of INPUT and writes what it leaves to OUTPUT. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void *map(unsigned long at, size_t bytes, int rights, int flags, int fd) {
    void *got = mmap((void *)at, bytes, rights, flags | MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, 0);
    if (got != (void *)at)
        fail("mmap");
    return got;
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    struct stat code, input;
    int code_fd = open(argv[1], O_RDONLY), input_fd = open(argv[2], O_RDONLY);
    if (code_fd < 0 || input_fd < 0 || fstat(code_fd, &code) || fstat(input_fd, &input))
        fail("open");
    void (*function)(void) = map(CODE, code.st_size, PROT_READ | PROT_EXEC, 0, code_fd);
    char *from = map(INPUT, input.st_size + GUARD, PROT_READ | PROT_WRITE, MAP_ANONYMOUS, -1);
    char *to = map(OUTPUT, input.st_size + GUARD, PROT_READ | PROT_WRITE, MAP_ANONYMOUS, -1);
    int output_fd = open(argv[3], O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (output_fd < 0)
        fail(argv[3]);
    if (read(input_fd, from, input.st_size) != input.st_size)
        fail("read");
    function();
    if (write(output_fd, to, input.st_size) != input.st_size)
        fail("write");
    return 0;
}
