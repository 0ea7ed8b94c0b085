/* Recovery from a crash inside of recovery fails: it takes a crash image of a run on a crash image. */
// finds: target-crashed in start
#include "store.h"

static struct { LINE uint64_t state, value; } *s;

static void set(long a, long b, const char *word)
{
	SET(s->state, 1);
	SET(s->value, a);
	SET(s->state, 0);
}

static void start(void)
{
	s = pool;
	if (s->state == 2)
		abort(); /* recovery of an interrupted recovery is not written yet */
	if (s->state == 1) {
		SET(s->state, 2);
		SET(s->value, 0);
		SET(s->state, 0);
	}
}
static int check(void) { return 0; }
static const struct command commands[] = {{"set", set}, {0}};
