/* A slot that was deleted is used again: put, del and put in this order. */
// finds: missing-flush or transient-data in reuse
#include "store.h"

static struct { LINE uint64_t used; struct { LINE uint64_t key, is_free; } slot[16]; } *s;

static void reuse(uint64_t at, long a)
{
	SET(s->slot[at].is_free, 0);
	s->slot[at].key = a;
}

static void put(long a, long b, const char *word)
{
	for (uint64_t at = 0; at < s->used; at++)
		if (s->slot[at].is_free) {
			reuse(at, a);
			return;
		}
	if (s->used < 16) {
		SET(s->slot[s->used].key, a);
		SET(s->used, s->used + 1);
	}
}

static void del(long a, long b, const char *word)
{
	for (uint64_t at = 0; at < s->used; at++)
		if (s->slot[at].key == (uint64_t)a)
			SET(s->slot[at].is_free, 1);
}

static void start(void) { s = pool; }
static int check(void) { return 0; }
static const struct command commands[] = {{"put", put}, {"del", del}, {0}};
