/* A non-temporal store that no fence follows, if the checkpoint is the last command and the value is large. */
// finds: missing-fence in checkpoint
#include "store.h"

static struct { LINE uint64_t value; LINE uint64_t checkpoint; } *s;

static void set(long a, long b, const char *word) { SET(s->value, a); }

static void checkpoint(long a, long b, const char *word)
{
	if (s->value > 100)
		_mm_stream_si64((long long *)&s->checkpoint, s->value);
}

static void start(void) { s = pool; }
static int check(void) { return 0; }
static const struct command commands[] = {{"set", set}, {"checkpoint", checkpoint}, {0}};
