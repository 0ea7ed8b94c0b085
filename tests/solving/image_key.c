/* A key that the persistent file must hold. */
// symbolic: pm:pool
#include "guarded.h"

static int is_met(const struct store *store)
{
	return store->runs > 0 && !memcmp(store->key, "recovering", 10);
}
