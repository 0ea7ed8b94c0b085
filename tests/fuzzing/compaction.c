/* Two deletions cause a compaction, during which values are there twice. */
// finds: recovery-failed in compact
// recover: {program} pool check
#include "store.h"

static struct { LINE uint64_t count, removed; LINE uint64_t value[32]; } *s;

static void compact(void)
{
	uint64_t kept = 0;
	for (uint64_t at = 0; at < s->count; at++)
		if (s->value[at])
			SET(s->value[kept], s->value[at]), kept++;
	SET(s->count, kept);
	SET(s->removed, 0);
}

static void add(long a, long b, const char *word)
{
	if (s->count < 32 && a > 0 && a < 1000) {
		for (uint64_t at = 0; at < s->count; at++)
			if (s->value[at] == (uint64_t)a)
				return;
		SET(s->value[s->count], a);
		SET(s->count, s->count + 1);
	}
}

static void del(long a, long b, const char *word)
{
	for (uint64_t at = 0; at < s->count; at++)
		if (a > 0 && s->value[at] == (uint64_t)a) {
			SET(s->value[at], 0);
			SET(s->removed, s->removed + 1);
		}
	if (s->removed >= 2)
		compact();
}

static void start(void) { s = pool; }
static int check(void)
{
	s = pool;
	for (uint64_t at = 0; at < s->count && at < 32; at++)
		for (uint64_t other = at + 1; other < s->count && other < 32; other++)
			if (s->value[at] && s->value[at] == s->value[other])
				return 1;
	return 0;
}
static const struct command commands[] = {{"add", add}, {"del", del}, {0}};
