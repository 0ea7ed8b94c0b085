/* A user is in a group before the group is registered: recovery throws, and nobody catches. */
// recover: {program} {dir}/pool check
#include "../recovery.h"
#include <map>

struct Registry {
  struct {
    uint64_t id, size;
  } groups[4];
  struct {
    uint64_t id, group;
  } users[4];

  void add(int place, uint64_t group) {
    SET(users[place].group, group);
    SET(users[place].id, 1 + place); // expect: recovery-crashed
    SET(groups[place].id, group); // missing-store: recovery-crashed
  }

  int recover() const {
    std::map<uint64_t, uint64_t> sizes;
    for (auto &group : groups)
      sizes[group.id] = 0;
    for (auto &user : users)
      if (user.id != 0)
        sizes.at(user.group)++;
    return 0;
  }
};

int main(int argc, char **argv) {
  Registry *registry = reinterpret_cast<Registry *>(map_pool(argv[1]));
  if (argc > 2)
    return registry->recover();
  for (int place = 0; place < 4; place++)
    registry->add(place, 500 + place);
  return 0;
}
