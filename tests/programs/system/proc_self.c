/* /proc/self shows the program, not what runs it: exe, cmdline, comm, environ, auxv, stat, status.
 *
 * @build pie static
 * @args one two
 */
#include <fcntl.h>
#include <libgen.h>
#include <sys/prctl.h>
#include <sys/auxv.h>
#include "check.h"

static char *slurp(const char *path, ssize_t *length) {
  static char bytes[65536];
  int fd = open(path, O_RDONLY);
  check(fd >= 0);
  *length = read(fd, bytes, sizeof bytes - 1);
  check(*length >= 0);
  bytes[*length] = 0;
  close(fd);
  return bytes;
}

int main(int argc, char **argv) {
  char exe[4096], absolute[4096];
  ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
  check(length > 0);
  exe[length] = 0;
  check(realpath(argv[0], absolute) && strcmp(absolute, exe) == 0);
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/exe", getpid());
  check(readlink(path, absolute, sizeof absolute) == length && memcmp(exe, absolute, (size_t)length) == 0);
  char *text = slurp("/proc/self/cmdline", &length);
  char *at = text;
  for (int i = 0; i < argc; i++, at += strlen(at) + 1) check(strcmp(at, argv[i]) == 0);
  check(at == text + length);
  text = slurp("/proc/self/comm", &length);
  check(strncmp(text, basename(exe), (size_t)length - 1) == 0 && text[length - 1] == '\n');
  char name[16];
  check(prctl(PR_GET_NAME, name) == 0 && strncmp(name, text, strlen(name)) == 0);
  text = slurp("/proc/self/environ", &length);
  check(memmem(text, (size_t)length, "BROWNOUT_WIRE", 13) == NULL);
  check(prctl(PR_SET_NAME, "renamed") == 0);
  check(strcmp(slurp("/proc/self/comm", &length), "renamed\n") == 0);
  text = slurp("/proc/self/auxv", &length);
  for (unsigned long *entry = (unsigned long *)text; entry[0]; entry += 2)
    if (entry[0] == AT_PHDR || entry[0] == AT_ENTRY || entry[0] == AT_BASE) check(entry[1] == getauxval(entry[0]));
  say("itself");
  return 0;
}
