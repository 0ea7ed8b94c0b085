/* A word anywhere in the line, and another one behind it. */
#include "guarded.h"

static int is_met(const struct store *store)
{
	char *found = strstr((char *)in, "mode=");
	return found && !strncmp(found + 5, "safe", 4);
}
