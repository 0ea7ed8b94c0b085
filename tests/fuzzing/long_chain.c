/* The link to the third node of a bucket is not flushed. */
// finds: missing-flush or transient-data in link_third
#include "store.h"

static struct node { uint64_t key, next; } *node;
static struct { LINE uint64_t used; LINE uint64_t head[4]; LINE struct { LINE struct node n; } node[64]; } *s;

static void link_third(uint64_t at, uint64_t to) { s->node[at].n.next = to; }

static void add(long a, long b, const char *word)
{
	if (s->used >= 63)
		return;
	uint64_t new = s->used + 1, *head = &s->head[a & 3];
	SET(s->node[new].n.key, a);
	SET(s->used, new);
	if (!*head) {
		SET(*head, new);
		return;
	}
	uint64_t at = *head, length = 1;
	while (s->node[at].n.next && length < 64)
		at = s->node[at].n.next, length++;
	if (length < 2)
		SET(s->node[at].n.next, new);
	else
		link_third(at, new);
}

static void start(void) { s = pool; node = 0; }
static int check(void) { return 0; }
static const struct command commands[] = {{"add", add}, {0}};
