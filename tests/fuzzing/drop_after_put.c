/* The counter of dropped values is not flushed, which shows once there is a value to drop. */
// finds: missing-flush or transient-data in drop
#include "store.h"

static struct { LINE uint64_t count; LINE uint64_t value[64]; LINE uint64_t dropped; } *s;

static void put(long a, long b, const char *word)
{
	if (s->count < 64) {
		SET(s->value[s->count], a);
		SET(s->count, s->count + 1);
	}
}

static void drop(long a, long b, const char *word)
{
	if (s->count) {
		SET(s->count, s->count - 1);
		s->dropped++;
	}
}

static void stat(long a, long b, const char *word)
{
	if (a == 7)
		persist(&s->dropped, 8);
}

static void start(void) { s = pool; if (!s->count) SET(s->dropped, 0); }
static int check(void) { return 0; }
static const struct command commands[] = {{"put", put}, {"drop", drop}, {"stat", stat}, {0}};
