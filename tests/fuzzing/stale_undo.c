/* A version is durable while its change can still be undone. */
// finds: recovery-failed in commit
// recover: {program} pool check
#include "store.h"

static struct { LINE uint64_t undo_valid, undo_slot, undo_value; LINE uint64_t data[8]; LINE uint64_t version; } *s;

static void commit(void)
{
	SET(s->version, s->version + 1); /* before the undo entry is gone */
	SET(s->undo_valid, 0);
}

static void set(long a, long b, const char *word)
{
	uint64_t slot = a & 7;
	if (b < 1 || b > 500)
		return;
	SET(s->undo_slot, slot);
	SET(s->undo_value, s->data[slot]);
	SET(s->undo_valid, 1);
	SET(s->data[slot], b);
	commit();
}

static void start(void)
{
	s = pool;
	if (s->undo_valid) {
		SET(s->data[s->undo_slot & 7], s->undo_value);
		SET(s->undo_valid, 0);
	}
}
static int check(void)
{
	s = pool;
	uint64_t changed = 0;
	if (s->undo_valid)
		s->data[s->undo_slot & 7] = s->undo_value;
	for (int slot = 0; slot < 8; slot++)
		changed += s->data[slot] != 0;
	return s->version && !changed;
}
static const struct command commands[] = {{"set", set}, {0}};
