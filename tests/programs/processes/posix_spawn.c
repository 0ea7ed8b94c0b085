/* posix_spawn: file actions, attributes, and the error of a missing file is its result.
 *
 * @build pie static musl
 */
#include <fcntl.h>
#include <spawn.h>
#include "check.h"

extern char **environ;

int main(void) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  pid_t child;
  sigset_t set;
  char *const missing[] = {"nowhere", NULL};
  char *const shell[] = {"sh", "-c", "cat; echo err >&2; grep SigBlk /proc/self/status; exit 6", NULL};
  check(posix_spawn(&child, "/nowhere", NULL, NULL, missing, environ) == ENOENT);
  check(posix_spawnp(&child, "no-such-program", NULL, NULL, missing, environ) == ENOENT);
  int fd = open("in", O_CREAT | O_WRONLY, 0600);
  check(write(fd, "input\n", 6) == 6 && close(fd) == 0);
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "in", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "out", O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  posix_spawnattr_init(&attributes);
  sigemptyset(&set);
  sigaddset(&set, SIGRTMIN + 1);
  posix_spawnattr_setsigmask(&attributes, &set);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  check(posix_spawnp(&child, "sh", &actions, &attributes, shell, environ) == 0);
  check(exit_status(child) == 6);
  for (int i = 0; i < 30; i++) {
    char *const quick[] = {"true", NULL};
    check(posix_spawnp(&child, "true", NULL, NULL, quick, environ) == 0);
    check(exit_status(child) == 0);
  }
  check(system("exit 5") == 5 << 8);
  FILE *pipe = popen("echo from popen", "r");
  char line[64];
  check(fgets(line, sizeof line, pipe) && strcmp(line, "from popen\n") == 0 && pclose(pipe) == 0);
  say("spawned");
  return 0;
}
