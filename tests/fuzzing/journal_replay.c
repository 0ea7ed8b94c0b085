/* Only recovery has the mistake, so only a crash image reaches it. The counter is flushed if `reset` follows. */
// finds: missing-flush or transient-data in replay
#include "store.h"

static struct { LINE uint64_t valid, slot, value; LINE uint64_t data[16]; LINE uint64_t replays; } *s;

static void replay(void)
{
	SET(s->data[s->slot & 15], s->value);
	s->replays++;
	SET(s->valid, 0);
}

static void set(long a, long b, const char *word)
{
	SET(s->slot, a & 15);
	SET(s->value, b);
	SET(s->valid, 1);
	SET(s->data[a & 15], b);
	SET(s->valid, 0);
}

static void reset(long a, long b, const char *word) { SET(s->replays, 0); }

static void start(void)
{
	s = pool;
	if (s->valid)
		replay();
	else if (!s->slot)
		SET(s->replays, 0);
}
static int check(void) { return 0; }
static const struct command commands[] = {{"set", set}, {"reset", reset}, {0}};
