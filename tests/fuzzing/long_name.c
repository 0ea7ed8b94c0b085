/* A name that is too long. */
// finds: target-crashed in rename_to
#include "store.h"

static struct { LINE char name[16]; LINE uint64_t count; } *s;

static void rename_to(long a, long b, const char *word)
{
	char copy[16];
	volatile size_t length = strlen(word);
	if (length > 24)
		__builtin_trap();
	memcpy(copy, word, length > 15 ? 15 : length);
	memcpy(s->name, copy, 15);
	persist(s->name, 16);
}

static void start(void) { s = pool; }
static int check(void) { return 0; }
static const struct command commands[] = {{"rename", rename_to}, {0}};
