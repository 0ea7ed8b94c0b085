/* A command works only after a word that the program knows. */
// finds: missing-flush or transient-data in wipe
#include "store.h"

static struct { LINE uint64_t unlocked; LINE uint64_t value[8]; } *s;

static void unlock(long a, long b, const char *word)
{
	if (!strcmp(word, "xyzzy"))
		SET(s->unlocked, 1);
}

static void wipe(long a, long b, const char *word)
{
	if (s->unlocked)
		s->value[a & 7] = 99;
}

static void start(void) { s = pool; SET(s->unlocked, 0); }
static int check(void) { return 0; }
static const struct command commands[] = {{"unlock", unlock}, {"wipe", wipe}, {0}};
