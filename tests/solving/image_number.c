/* A number in the persistent file from which another one is computed. */
// symbolic: pm:pool
#include "guarded.h"

static int is_met(const struct store *store)
{
	uint32_t word;
	memcpy(&word, store->key + 4, sizeof word);
	return store->runs > 0 && (word ^ 0x5a5a5a5a) + 17 == 0x10203040;
}
