/* The fifth key of a node splits it. */
// finds: missing-flush or transient-data in split
#include "store.h"

struct node { LINE uint64_t count; uint64_t key[4]; };
static struct { LINE uint64_t nodes; LINE uint64_t splits; struct node node[16]; } *s;

static void split(struct node *full)
{
	if (s->nodes >= 15)
		return;
	struct node *new = &s->node[s->nodes];
	SET(new->key[0], full->key[2]);
	SET(new->key[1], full->key[3]);
	SET(new->count, 2);
	s->splits++;
	SET(s->nodes, s->nodes + 1);
	SET(full->count, 2);
}

static void insert(long a, long b, const char *word)
{
	struct node *node = &s->node[(uint64_t)a % s->nodes];
	if (node->count == 4)
		split(node);
	if (node->count < 4) {
		SET(node->key[node->count], a);
		SET(node->count, node->count + 1);
	}
}

static void start(void)
{
	s = pool;
	if (!s->nodes) {
		SET(s->splits, 0);
		SET(s->nodes, 1);
	}
}
static int check(void) { return 0; }
static const struct command commands[] = {{"insert", insert}, {0}};
