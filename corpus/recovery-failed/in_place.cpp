/* A value of two words is changed in place, word by word: there is no log to tell that it is half changed. */
// variants: clwb clflush
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct Position {
  uint64_t x, y;
  bool is_on_the_diagonal() const { return x == y; }
};

class Robot {
public:
  void move(uint64_t distance) {
    SET(position.x, position.x + distance); // expect: recovery-failed
    SET(position.y, position.y + distance); // missing-store: recovery-failed
  }
  int recover() const {
    REQUIRE(position.is_on_the_diagonal());
    return 0;
  }

private:
  Position position;
};

int main(int argc, char **argv) {
  Robot *robot = reinterpret_cast<Robot *>(map_pool(argv[1]));
  if (argc > 2)
    return robot->recover();
  for (int step = 1; step < 4; step++)
    robot->move(step);
  return 0;
}
