/* A count is durable before the entry that it counts. */
// finds: recovery-failed in append
// recover: {program} pool check
#include "store.h"

static struct { LINE uint64_t count; LINE struct { uint64_t value, sum; } entry[32]; } *s;

static void append(long a, long b, const char *word)
{
	if (s->count >= 32)
		return;
	SET(s->count, s->count + 1); /* before the entry */
	SET(s->entry[s->count - 1].value, a);
	SET(s->entry[s->count - 1].sum, a ^ 77);
}

static void start(void) { s = pool; }
static int check(void)
{
	s = pool;
	for (uint64_t at = 0; at < s->count && at < 32; at++)
		if (s->entry[at].sum != (s->entry[at].value ^ 77))
			return 1;
	return 0;
}
static const struct command commands[] = {{"append", append}, {0}};
