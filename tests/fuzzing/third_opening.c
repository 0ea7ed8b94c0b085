/* The mistake shows when files are opened for the third time: it needs images that earlier inputs have left. */
// finds: missing-flush or transient-data in upgrade
#include "store.h"

static struct { LINE uint64_t opened; LINE uint64_t value; LINE uint64_t format; } *s;

static void upgrade(void) { s->format = 2; }

static void set(long a, long b, const char *word)
{
	if (s->opened >= 3 && s->format == 1)
		upgrade();
	SET(s->value, a);
}

static void start(void)
{
	s = pool;
	if (!s->format)
		SET(s->format, 1);
	SET(s->opened, s->opened + 1);
}
static int check(void) { return 0; }
static const struct command commands[] = {{"set", set}, {0}};
