/* Starts writing the cache lines of `size` bytes back to memory; a fence has to follow. */
#ifndef PM_WRITE_BACK
#define PM_WRITE_BACK
static inline void pm_write_back(const volatile void *from, unsigned long size)
{
	static int best; /* 1 clflush, 2 clflushopt, 3 clwb */
	int use = __atomic_load_n(&best, __ATOMIC_RELAXED);
	if (use == 0) {
		unsigned a, b = 0, c, d;
		__get_cpuid_count(7, 0, &a, &b, &c, &d);
		use = b & (1u << 24) ? 3 : b & (1u << 23) ? 2 : 1;
		__atomic_store_n(&best, use, __ATOMIC_RELAXED);
	}
	unsigned long line = (unsigned long)from & ~63ul;
	for (; line < (unsigned long)from + size; line += 64) {
		volatile char *byte = (volatile char *)line;
		if (use == 3)
			__asm__ volatile(".byte 0x66; xsaveopt %0" : "+m"(*byte)::"memory");
		else if (use == 2)
			__asm__ volatile(".byte 0x66; clflush %0" : "+m"(*byte)::"memory");
		else
			__asm__ volatile("clflush %0" : "+m"(*byte)::"memory");
	}
}
#endif
