/* A server, tested through its socket: it counts a record in before it has it, and then serves what is not there. */
// recover: {program} {dir}/pool serve {dir}/socket
// client: {program} {dir}/pool ask {dir}/socket
// check: --recover-ready unix:{dir}/socket
#include "../recovery.h"
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

struct store {
  uint64_t count, records[8];
};

static void put(struct store *store, uint64_t value) {
  uint64_t count = store->count;
  SET(store->count, count + 1); // expect: recovery-failed
  SET(store->records[count], value); // missing-store: recovery-failed
}

static struct sockaddr_un address(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  return address;
}

static int serve(struct store *store, int listener, struct sockaddr_un at) {
  if (bind(listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(listener, 8) != 0)
    return 1;
  for (;;) {
    int client = accept(listener, NULL, NULL);
    send(client, store, sizeof *store, MSG_NOSIGNAL);
    close(client);
  }
}

static int ask(int server, struct sockaddr_un at) {
  struct store answer;
  REQUIRE(connect(server, (struct sockaddr *)&at, sizeof at) == 0);
  REQUIRE(recv(server, &answer, sizeof answer, MSG_WAITALL) == sizeof answer);
  for (uint64_t record = 0; record < answer.count; record++)
    REQUIRE(answer.records[record] == 70 + record);
  return 0;
}

int main(int argc, char **argv) {
  int end = socket(AF_UNIX, SOCK_STREAM, 0);
  if (argc > 3 && strcmp(argv[2], "ask") == 0)
    return ask(end, address(argv[3]));
  struct store *store = (struct store *)map_pool(argv[1]);
  if (argc > 3)
    return serve(store, end, address(argv[3]));
  for (uint64_t value = 70; value < 74; value++)
    put(store, value);
  return 0;
}
