/* A code that a table translates, twice. */
#include "guarded.h"

static const unsigned char first[256] = { [3] = 9, [17] = 42, [201] = 77 };
static const unsigned short second[256] = { [9] = 1, [42] = 500, [77] = 1000 };

static int is_met(const struct store *store)
{
	return second[first[in[2]]] == 1000 && first[in[3]] == 42;
}
