/* The guard ends before the store is durable. */
// build: -pthread -std=c++17
// check: --loads
#include "../pm.h"
#include "../turns.h"
#include <mutex>
#include <thread>

static std::mutex mutex;
static struct line *pm;

static void reader() {
  await_turn(0);
  std::lock_guard<std::mutex> guard(mutex);
  LOAD(pm[0].word[0]);
  end_turn();
}

static void writer() {
  await_turn(1);
  {
    std::lock_guard<std::mutex> guard(mutex);
    STORE(pm[0].word[0], 7); // expect: persistency-race
  }
  PERSIST(pm[0]);
}

int main(int argc, char **argv) {
  pm = map_pool(argv[1]);
  std::thread one(reader), other(writer);
  one.join();
  other.join();
  return argc - 2;
}
