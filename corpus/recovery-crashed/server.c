/* A server starts well from what the crash has left, and dies when a client asks for the record that it never got. */
// recover: {program} {dir}/pool serve
// client: {program} {dir}/pool ask
// check: --recover-ready tcp:7411
#include "../recovery.h"
#include <arpa/inet.h>
#include <string.h>

struct store {
  uint64_t count, offsets[8];
  struct line records[8];
};

static void put(struct store *store, uint64_t value) {
  uint64_t count = store->count;
  SET(store->records[count].word[0], value);
  SET(store->count, count + 1); // expect: recovery-crashed
  SET(store->offsets[count], (char *)&store->records[count] - (char *)store); // missing-store: recovery-crashed
}

static int serve(struct store *store, int listener, struct sockaddr *at) {
  int yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(listener, at, sizeof(struct sockaddr_in)) != 0 || listen(listener, 8) != 0)
    return 1;
  for (uint64_t asked;;) {
    int client = accept(listener, NULL, NULL);
    while (recv(client, &asked, 8, MSG_WAITALL) == 8) {
      uint64_t offset = asked < store->count ? store->offsets[asked] : sizeof(struct store);
      const volatile struct line *record = offset ? (struct line *)((char *)store + offset) : NULL;
      send(client, (const uint64_t[]){record->word[0]}, 8, MSG_NOSIGNAL);
    }
    close(client);
  }
}

static int ask(int server, struct sockaddr *at) {
  uint64_t answer;
  REQUIRE(connect(server, at, sizeof(struct sockaddr_in)) == 0);
  for (uint64_t record = 0; record < 8; record++) {
    REQUIRE(send(server, &record, 8, MSG_NOSIGNAL) == 8);
    if (recv(server, &answer, 8, MSG_WAITALL) != 8)
      return 1; /* The server is about to end; that says more. */
  }
  return 0;
}

int main(int argc, char **argv) {
  int end = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(7411), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  struct store *store = (struct store *)map_pool(argv[1]);
  if (argc > 2)
    return strcmp(argv[2], "ask") ? serve(store, end, (struct sockaddr *)&at) : ask(end, (struct sockaddr *)&at);
  for (uint64_t value = 70; value < 74; value++)
    put(store, value);
  return 0;
}
