/* The head of a list is durable before the node that it refers to. */
// finds: target-crashed in start
#include "store.h"

static struct { LINE uint64_t head, used; LINE struct { uint64_t value, next, magic; } node[32]; } *s;

static void add(long a, long b, const char *word)
{
	if (s->used >= 31)
		return;
	uint64_t old = s->head;
	SET(s->used, s->used + 1);
	SET(s->head, s->used); /* before the node is complete */
	SET(s->node[s->used].value, a);
	SET(s->node[s->used].next, old);
	SET(s->node[s->used].magic, 42);
}

static void start(void)
{
	s = pool;
	for (uint64_t at = s->head, left = 64; at && left; at = s->node[at].next, left--)
		if (s->node[at].magic != 42)
			__builtin_trap();
}
static int check(void) { return 0; }
static const struct command commands[] = {{"add", add}, {0}};
