/* A table that has grown and is then emptied shrinks, and forgets a flush. */
// finds: missing-flush or transient-data in shrink
#include "store.h"

static struct { LINE uint64_t size, count, shrunk; LINE uint64_t value[64]; LINE uint64_t spare; } *s;

static void shrink(void)
{
	s->spare = s->size;
	SET(s->size, 4);
	SET(s->shrunk, 1);
}

static void push(long a, long b, const char *word)
{
	if (s->count == s->size && s->size < 64)
		SET(s->size, s->size * 2);
	if (s->count < s->size) {
		SET(s->value[s->count], a);
		SET(s->count, s->count + 1);
	}
}

static void pop(long a, long b, const char *word)
{
	if (s->count)
		SET(s->count, s->count - 1);
	if (s->size >= 16 && s->count <= 4)
		shrink();
}

static void start(void)
{
	s = pool;
	if (!s->size) {
		SET(s->spare, 0);
		SET(s->size, 4);
	}
}
static int check(void) { return 0; }
static const struct command commands[] = {{"push", push}, {"pop", pop}, {0}};
