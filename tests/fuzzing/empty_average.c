/* The average of nothing, after three additions and a clear. */
// finds: target-crashed in average
#include "store.h"

static struct { LINE uint64_t count, sum; } *s;

static void add(long a, long b, const char *word)
{
	SET(s->sum, s->sum + a);
	SET(s->count, s->count + 1);
}

static void clear(long a, long b, const char *word)
{
	if (s->count > 2)
		SET(s->count, 0);
}

static void average(long a, long b, const char *word)
{
	if (s->sum)
		SET(s->sum, s->sum / s->count);
}

static void start(void) { s = pool; }
static int check(void) { return 0; }
static const struct command commands[] = {{"add", add}, {"clear", clear}, {"average", average}, {0}};
