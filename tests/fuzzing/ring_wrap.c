/* A ring of twelve entries wraps around. */
// finds: missing-flush or transient-data in wrap
#include "store.h"

static struct { LINE uint64_t tail; LINE uint64_t wraps; LINE uint64_t entry[12]; } *s;

static void wrap(void)
{
	s->wraps++;
	SET(s->tail, 0);
}

static void log_entry(long a, long b, const char *word)
{
	SET(s->entry[s->tail % 12], a);
	if (s->tail + 1 >= 12)
		wrap();
	else
		SET(s->tail, s->tail + 1);
}

static void start(void)
{
	s = pool;
	if (!s->tail && !s->wraps)
		SET(s->wraps, 0);
}
static int check(void) { return 0; }
static const struct command commands[] = {{"log", log_entry}, {0}};
