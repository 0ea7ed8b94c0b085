/* A list is a ring for a moment, and a store that was interrupted then never starts. */
// finds: target-hung in start
#include "store.h"

static struct { LINE uint64_t head; LINE uint64_t next[16]; } *s;

static void chain(long a, long b, const char *word)
{
	if (a < 1 || a > 15 || s->next[a])
		return;
	uint64_t old = s->head;
	if (!old) {
		SET(s->head, a);
		return;
	}
	SET(s->next[a], a); /* a ring for a moment */
	SET(s->head, a);
	SET(s->next[a], old);
}

static void start(void)
{
	s = pool;
	volatile uint64_t at = s->head;
	while (at)
		at = s->next[at & 15];
}
static int check(void) { return 0; }
static const struct command commands[] = {{"chain", chain}, {0}};
