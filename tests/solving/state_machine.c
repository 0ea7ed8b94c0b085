/* A path through the states of a table. */
#include "guarded.h"

static const unsigned char next[6][4] = {
	{ 1, 0, 0, 0 }, { 0, 2, 0, 1 }, { 0, 0, 3, 0 }, { 4, 0, 0, 0 }, { 0, 0, 0, 5 }, { 5, 5, 5, 5 },
};

static int is_met(const struct store *store)
{
	unsigned state = 0;
	for (int i = 0; i < 8; i++)
		state = next[state][in[i] & 3];
	return state == 5;
}
