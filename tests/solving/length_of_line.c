/* A line of more than forty characters that ends in a mark. */
#include "guarded.h"

static int is_met(const struct store *store)
{
	size_t length = strcspn((char *)in, "\n");
	return length > 40 && in[length - 1] == '!';
}
