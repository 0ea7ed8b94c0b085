/* A store that was interrupted inside of a move does not start again. */
// finds: target-crashed in start
#include "store.h"

static struct { LINE uint64_t open, a, b; } *s;

static void move(long a, long b, const char *word)
{
	if (a <= 0)
		return;
	SET(s->open, 1);
	SET(s->a, s->a - a);
	SET(s->b, s->b + a);
	SET(s->open, 0);
}

static void start(void)
{
	s = pool;
	if (s->open)
		abort();
}
static int check(void) { return 0; }
static const struct command commands[] = {{"move", move}, {0}};
