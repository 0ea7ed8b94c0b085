/* A CRC-8 of six bytes by a table, and a type that the record must have. */
#include "guarded.h"

static unsigned char table[256];

__attribute__((constructor)) static void fill(void)
{
	for (int value = 0; value < 256; value++) {
		unsigned crc = value;
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 0x80 ? crc << 1 ^ 0x107 : crc << 1;
		table[value] = crc;
	}
}

static int is_met(const struct store *store)
{
	unsigned char crc = 0;
	for (int i = 0; i < 6; i++)
		crc = table[crc ^ in[i]];
	return in[0] == 0xd7 && in[3] == 0x11 && crc == in[6];
}
