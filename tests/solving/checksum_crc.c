/* A CRC-32 of eight bytes, computed bit by bit. */
#include "guarded.h"

static int is_met(const struct store *store)
{
	uint32_t crc = 0xffffffff, wanted;
	for (int i = 4; i < 12; i++) {
		crc ^= in[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
	}
	memcpy(&wanted, in, sizeof wanted);
	return in[4] == 'R' && in[5] == 2 && ~crc == wanted;
}
