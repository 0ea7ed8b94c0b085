/* The eighth value is the last one that fits. Growing leaves a store unflushed. */
// finds: missing-flush or transient-data in grow
#include "store.h"

static struct { LINE uint64_t size, count; LINE uint64_t small[8]; LINE uint64_t large[64]; } *s;

static void grow(void)
{
	memcpy(s->large, s->small, sizeof s->small);
	persist(s->large, 32); /* a half of them */
	s->large[40] = 1;
	SET(s->size, 64);
}

static void insert(long a, long b, const char *word)
{
	if (s->size == 8 && s->count == 8)
		grow();
	if (s->count >= s->size)
		return;
	uint64_t *slot = (s->size == 8 ? s->small : s->large) + s->count;
	SET(*slot, a);
	SET(s->count, s->count + 1);
}

static void start(void)
{
	s = pool;
	if (!s->size) {
		SET(s->size, 8);
		SET(s->large[40], 0);
	}
}
static int check(void) { return 0; }
static const struct command commands[] = {{"insert", insert}, {0}};
