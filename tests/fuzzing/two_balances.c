/* Money is nowhere for a moment. */
// finds: recovery-failed in transfer
// recover: {program} pool check
#include "store.h"

static struct { LINE uint64_t ready; LINE uint64_t balance[4]; } *s;

static void transfer(long a, long b, const char *word)
{
	uint64_t from = a & 3, to = b & 3;
	if (from == to || s->balance[from] < 10)
		return;
	SET(s->balance[from], s->balance[from] - 10);
	SET(s->balance[to], s->balance[to] + 10);
}

static void start(void)
{
	s = pool;
	if (!s->ready) {
		SET(s->balance[0], 100);
		SET(s->ready, 1);
	}
}
static int check(void)
{
	s = pool;
	uint64_t sum = s->balance[0] + s->balance[1] + s->balance[2] + s->balance[3];
	return s->ready && sum != 100;
}
static const struct command commands[] = {{"transfer", transfer}, {0}};
