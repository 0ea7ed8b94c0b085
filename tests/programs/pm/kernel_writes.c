/* The kernel writes into persistent memory: input, messages, status, names, times, random bytes.
 *
 * @varying
 */
#include <dirent.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include "pm.h"

static char *next;

/* A fresh piece of persistent memory, misaligned by turns. */
static void *piece(size_t size) {
  next += 71;
  char *at = next;
  next += size + 64;
  return (void *)((uintptr_t)at & ~7UL);
}

static void input(const char *directory) {
  char path[4096];
  snprintf(path, sizeof path, "%s/scratch", directory);
  check(mkdir(path, 0700) == 0);
  int pair[2], source = pm_open(path, "source", 0);
  char text[9000];
  for (int i = 0; i < 9000; i++) text[i] = (char)noise();
  check(write(source, text, sizeof text) == sizeof text && lseek(source, 0, SEEK_SET) == 0);
  check(read(source, piece(5000), 5000) == 5000 && read(source, piece(9000), 9000) == 4000 && read(source, piece(10), 10) == 0);
  check(pread(source, (char *)piece(300) + 3, 300, 17) == 300);
  struct iovec *parts = piece(3 * sizeof *parts);
  for (int i = 0; i < 3; i++) parts[i] = (struct iovec){piece(100), 100};
  check(preadv(source, parts, 3, 5) == 300 && lseek(source, 0, SEEK_SET) == 0 && readv(source, parts, 3) == 300);
  check(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
  struct msghdr *message = piece(sizeof *message);
  *message = (struct msghdr){.msg_iov = parts, .msg_iovlen = 3, .msg_control = piece(256), .msg_controllen = 256, .msg_name = piece(128), .msg_namelen = 128};
  check(send(pair[0], text, 250, 0) == 250 && recvmsg(pair[1], message, 0) == 250);
  check(send(pair[0], text, 77, 0) == 77 && recv(pair[1], piece(200), 200, 0) == 77);
  socklen_t *length = piece(sizeof *length);
  *length = 100;
  check(send(pair[0], text, 78, 0) == 78 && recvfrom(pair[1], piece(200), 200, 0, piece(100), length) == 78);
  struct mmsghdr *several = piece(2 * sizeof *several);
  for (int i = 0; i < 2; i++) several[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
  check(send(pair[0], text, 10, 0) == 10 && send(pair[0], text, 20, 0) == 20 && recvmmsg(pair[1], several, 2, 0, NULL) == 2);
  *length = 4;
  check(getsockopt(pair[0], SOL_SOCKET, SO_TYPE, piece(4), length) == 0);
  struct iovec here = {piece(600), 600}, there = {text, 600};
  check(process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 600);
  struct iovec to = {piece(500), 500}, from = {text + 50, 500};
  check(process_vm_writev(getpid(), &from, 1, &to, 1, 0) == 500);
}

static void status(const char *directory) {
  int *numbers = piece(8 * sizeof(int));
  check(pipe(numbers) == 0 && pipe2(numbers + 2, O_CLOEXEC) == 0 && write(numbers[1], "x", 1) == 1);
  check(ioctl(numbers[0], FIONREAD, piece(4)) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, numbers + 4) == 0);
  struct pollfd *polls = piece(sizeof *polls);
  *polls = (struct pollfd){.fd = numbers[0], .events = POLLIN};
  check(poll(polls, 1, 1000) == 1);
  int epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0x1234567890};
  check(epoll_ctl(epoll, EPOLL_CTL_ADD, numbers[0], &event) == 0 && epoll_wait(epoll, piece(4 * sizeof event), 4, 1000) == 1);
  fd_set *set = piece(sizeof *set);
  FD_ZERO(set);
  FD_SET(numbers[0], set);
  struct timeval *wait_time = piece(sizeof *wait_time);
  wait_time->tv_sec = 5;
  check(select(numbers[0] + 1, set, NULL, NULL, wait_time) == 1);
  check(stat(directory, piece(sizeof(struct stat))) == 0 && statfs(directory, piece(sizeof(struct statfs))) == 0);
  check(syscall(SYS_statx, AT_FDCWD, directory, 0, 0x7ff, piece(256)) == 0);
  check(getcwd(piece(4096), 4096) && readlink("/proc/self/exe", piece(4096), 4096) > 0 && uname(piece(sizeof(struct utsname))) == 0);
  check(syscall(SYS_getdents64, open(directory, O_RDONLY | O_DIRECTORY), piece(4096), 4096) > 0);
  check(getrlimit(RLIMIT_NOFILE, piece(16)) == 0 && getrusage(RUSAGE_SELF, piece(sizeof(struct rusage))) == 0 && sysinfo(piece(sizeof(struct sysinfo))) == 0);
  check(getrandom(piece(700), 700, 0) == 700 && prctl(PR_GET_NAME, piece(16)) == 0 && times(piece(sizeof(struct tms))) != -1);
  check(syscall(SYS_sched_getaffinity, 0, 128, piece(128)) > 0 && syscall(SYS_getcpu, piece(4), piece(4), NULL) == 0);
  check(sigprocmask(SIG_BLOCK, NULL, piece(128)) == 0 && sigaction(SIGUSR1, NULL, piece(sizeof(struct sigaction))) == 0 && sigaltstack(NULL, piece(sizeof(stack_t))) == 0);
}

static void times_and_children(void) {
  check(clock_gettime(CLOCK_MONOTONIC, piece(16)) == 0 && gettimeofday(piece(16), NULL) == 0 && time(piece(8)) > 0); /* by the vDSO */
  check(syscall(SYS_clock_gettime, CLOCK_REALTIME, piece(16)) == 0 && clock_getres(CLOCK_REALTIME, piece(16)) == 0 && getitimer(ITIMER_REAL, piece(32)) == 0);
  pid_t child = fork();
  if (child == 0) _exit(3);
  check(wait4(child, piece(4), 0, piece(sizeof(struct rusage))) == child);
  child = fork();
  if (child == 0) _exit(4);
  check(waitid(P_PID, (id_t)child, piece(sizeof(siginfo_t)), WEXITED) == 0);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  sigprocmask(SIG_BLOCK, &set, NULL);
  raise(SIGUSR2);
  check(sigwaitinfo(&set, piece(sizeof(siginfo_t))) == SIGUSR2);
  raise(SIGUSR2);
  check(sigpending(piece(128)) == 0);
}

int main(int argc, char **argv) {
  const char *directory = directory_of(argc, argv);
  next = pm_map(directory, "file", 1 << 20);
  input(directory);
  status(directory);
  times_and_children();
  return 0;
}
