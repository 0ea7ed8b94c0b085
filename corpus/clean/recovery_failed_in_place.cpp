/* A value of two words is written to a second place, and one word says which of the two places counts. */
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
    SET(positions[!current].x, positions[current].x + distance);
    SET(positions[!current].y, positions[current].y + distance);
    SET(current, !current);
  }
  int recover() const {
    REQUIRE(positions[current].is_on_the_diagonal());
    return 0;
  }

private:
  Position positions[2];
  uint64_t current;
};

int main(int argc, char **argv) {
  Robot *robot = reinterpret_cast<Robot *>(map_pool(argv[1]));
  if (argc > 2)
    return robot->recover();
  for (int step = 1; step < 4; step++)
    robot->move(step);
  return 0;
}
