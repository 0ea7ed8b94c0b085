/* Shared by the test programs: a check that names itself when it fails, and output that is safe
 * in signal handlers and across fork. */
#ifndef CHECK_H
#define CHECK_H

#include <cpuid.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Ends the program with status 99 unless the condition holds. */
#define check(condition)                                                                    \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      dprintf(2, "%s:%d: check failed: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno);  \
      _exit(99);                                                                            \
    }                                                                                       \
  } while (0)

/* Prints a line at once, without buffers that a fork would copy. */
__attribute__((unused)) static void say(const char *text) {
  char line[256];
  size_t length = strlen(text);
  memcpy(line, text, length);
  line[length] = '\n';
  check(write(1, line, length + 1) == (ssize_t)length + 1);
}

__attribute__((unused)) static void handle(int signal, void (*handler)(int, siginfo_t *, void *), int flags) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | flags;
  check(sigaction(signal, &action, NULL) == 0);
}

__attribute__((unused)) static void pause_ms(long milliseconds) {
  struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  while (nanosleep(&time, &time) != 0 && errno == EINTR) {
  }
}

/* Features by name: the level of the x86-64 ABI that has them, 0 if none has; where CPUID reports them (leaf, subleaf,
 * 0 to 3 for eax to edx, bit); and the state that the kernel must have enabled. */
struct cpu_feature {
  const char *name;
  int level;
  unsigned leaf, subleaf;
  int output, bit;
  unsigned state;
};

__attribute__((unused)) static const struct cpu_feature cpu_features[] = {
    {"sse4.1", 2, 1, 0, 2, 19, 0},         {"sse4.2", 2, 1, 0, 2, 20, 0},        {"rdrand", 2, 1, 0, 2, 30, 0},
    {"rdpid", 2, 7, 0, 2, 22, 0},          {"xsave", 2, 1, 0, 2, 27, 0},         {"xsaveopt", 3, 13, 1, 0, 0, 0},
    {"xsavec", 3, 13, 1, 0, 1, 0},         {"avx", 3, 1, 0, 2, 28, 0x6},         {"f16c", 3, 1, 0, 2, 29, 0x6},
    {"avx2", 3, 7, 0, 1, 5, 0x6},          {"bmi2", 3, 7, 0, 1, 8, 0},           {"avx512f", 4, 7, 0, 1, 16, 0xe6},
    {"avx512dq", 4, 7, 0, 1, 17, 0xe6},    {"avx512bw", 4, 7, 0, 1, 30, 0xe6},   {"avx512vl", 4, 7, 0, 1, 31, 0xe6},
    {"avx512vbmi2", 4, 7, 0, 2, 6, 0xe6},  {"rtm", 0, 7, 0, 1, 11, 0},           {"amx", 0, 7, 0, 3, 24, 0x60000},
    {"clflushopt", 0, 7, 0, 1, 23, 0},     {"clwb", 0, 7, 0, 1, 24, 0},          {"movdiri", 0, 7, 0, 2, 27, 0},
    {"movdir64b", 0, 7, 0, 2, 28, 0},      {"clzero", 0, 0x80000008, 0, 1, 0, 0},
};

/* Whether the CPU that the test runs as has a feature. BROWNOUT_TEST_CPU is a level of the x86-64 ABI (v2, v3 or v4) and
 * what that CPU has besides: v3+rtm+clwb. Without it, the test runs as on this machine. */
__attribute__((unused)) static int cpu_has(const char *name) {
  const struct cpu_feature *feature = cpu_features;
  while (strcmp(feature->name, name) != 0) check(++feature < cpu_features + sizeof cpu_features / sizeof *cpu_features);
  const char *tested = getenv("BROWNOUT_TEST_CPU");
  if (tested) {
    const char *extra = strncmp(name, "movdir", 6) == 0 ? "movdir" : name;
    const char *found = strchr(tested, '+');
    size_t length = strlen(extra);
    while (found && (strncmp(found + 1, extra, length) != 0 || (found[1 + length] != '+' && found[1 + length] != 0)))
      found = strchr(found + 1, '+');
    int in_level = feature->level != 0 && tested[1] - '0' >= feature->level;
    if (!in_level && !found) return 0;
  }
  unsigned outputs[4];
  if (!__get_cpuid_count(feature->leaf, feature->subleaf, &outputs[0], &outputs[1], &outputs[2], &outputs[3])) return 0;
  if (!(outputs[feature->output] >> feature->bit & 1)) return 0;
  if (feature->state == 0) return 1;
  unsigned a, b, c, d, enabled = 0, high;
  __cpuid(1, a, b, c, d);
  if (c >> 27 & 1) __asm__("xgetbv" : "=a"(enabled), "=d"(high) : "c"(0));
  return (enabled & feature->state) == feature->state;
}

/* The exit status of a child that must have exited. */
__attribute__((unused)) static int exit_status(pid_t child) {
  int status;
  check(waitpid(child, &status, 0) == child);
  check(WIFEXITED(status));
  return WEXITSTATUS(status);
}

/* The signal that killed a child that must have been killed. */
__attribute__((unused)) static int death_signal(pid_t child) {
  int status;
  check(waitpid(child, &status, 0) == child);
  check(WIFSIGNALED(status));
  return WTERMSIG(status);
}

#endif
