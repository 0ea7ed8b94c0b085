/* TCP, UDP, Unix sockets, socketpair, passed descriptors, sendmsg and recvmsg, epoll edge-triggered. */
#include <arpa/inet.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include "check.h"

static void pass_descriptor(int socket, int fd) {
  union { struct cmsghdr header; char bytes[CMSG_SPACE(sizeof(int))]; } control = {0};
  struct iovec part = {"x", 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
  memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
  check(sendmsg(socket, &message, 0) == 1);
}

static int take_descriptor(int socket) {
  union { struct cmsghdr header; char bytes[CMSG_SPACE(sizeof(int))]; } control;
  char byte;
  int fd;
  struct iovec part = {&byte, 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  check(recvmsg(socket, &message, 0) == 1);
  memcpy(&fd, CMSG_DATA(&control.header), sizeof fd);
  return fd;
}

int main(void) {
  int pair[2], ends[2], server = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof name;
  check(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && pipe(ends) == 0);
  pass_descriptor(pair[0], ends[1]);
  int passed = take_descriptor(pair[1]);
  char text[64] = {0};
  check(write(passed, "passed", 6) == 6 && read(ends[0], text, 64) == 6 && strcmp(text, "passed") == 0);
  check(bind(server, (void *)&name, size) == 0 && listen(server, 5) == 0 && getsockname(server, (void *)&name, &size) == 0);
  pid_t child = fork();
  if (child == 0) {
    int client = socket(AF_INET, SOCK_STREAM, 0);
    check(connect(client, (void *)&name, sizeof name) == 0);
    for (int i = 0; i < 1000; i++) check(send(client, &i, sizeof i, MSG_NOSIGNAL) == sizeof i);
    _exit(0);
  }
  int connection = accept4(server, NULL, NULL, SOCK_NONBLOCK), epoll = epoll_create1(0), numbers = 0;
  struct epoll_event event = {.events = EPOLLIN | EPOLLET | EPOLLRDHUP};
  check(epoll_ctl(epoll, EPOLL_CTL_ADD, connection, &event) == 0);
  long bytes = 0;
  while (!(event.events & EPOLLRDHUP) || numbers >= 0) {
    check(epoll_wait(epoll, &event, 1, 10000) == 1);
    char chunk[999];
    ssize_t got;
    while ((got = recv(connection, chunk, sizeof chunk, 0)) > 0) bytes += got;
    if (got == 0) break;
  }
  check(bytes == 4000 && exit_status(child) == 0);
  say("connected");
  return 0;
}
