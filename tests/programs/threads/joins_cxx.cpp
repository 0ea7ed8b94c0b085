/* C++ threads that are joined, moved, detached, and joined by their destructor.
 *
 * With an argument, it is the file to which it appends who started whom (`start CHILD PARENT`) and who joined whom
 * (`join JOINER JOINED`).
 *
 * @flags -std=c++20 -O2 -pthread
 */
#include <atomic>
#include <cstdio>
#include <fcntl.h>
#include <thread>
#include <unistd.h>
#include <vector>

static int relations = -1;

static int own_id() { return gettid(); }

static void started(int parent, int *id) {
  *id = own_id();
  dprintf(relations, "start %d %d\n", *id, parent);
}

static void joined(int id) { dprintf(relations, "join %d %d\n", own_id(), id); }

int main(int count, char **arguments) {
  if (count > 1) relations = open(arguments[1], O_CREAT | O_APPEND | O_WRONLY, 0600);
  const int main_id = own_id();
  std::vector<std::thread> threads;
  std::vector<int> ids(8);
  for (int &id : ids) threads.emplace_back(started, main_id, &id);
  for (size_t i = 0; i < threads.size(); i++) {
    threads[i].join();
    joined(ids[i]);
  }
  int id;
  {
    std::jthread thread(started, main_id, &id);
  }
  joined(id);
  std::atomic<bool> done = false;
  std::thread([&] {
    int own;
    started(main_id, &own);
    done = true;
  }).detach();
  while (!done) std::this_thread::yield();
  std::puts("all joined");
}
