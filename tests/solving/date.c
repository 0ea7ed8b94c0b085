/* A date, of which the parts must fit together. */
#include "guarded.h"

static int is_met(const struct store *store)
{
	int year, month, day;
	if (sscanf((char *)in, "%4d-%2d-%2d", &year, &month, &day) != 3)
		return 0;
	return year == 2024 && month == 2 && day == 29;
}
