/* Two sums as Adler-32 has them, over bytes that must be letters. */
#include "guarded.h"

static int is_met(const struct store *store)
{
	uint32_t a = 1, b = 0, wanted;
	for (int i = 4; i < 12; i++) {
		if (in[i] < 'a' || in[i] > 'z')
			return 0;
		a = (a + in[i]) % 65521;
		b = (b + a) % 65521;
	}
	memcpy(&wanted, in, sizeof wanted);
	return wanted == (b << 16 | a);
}
