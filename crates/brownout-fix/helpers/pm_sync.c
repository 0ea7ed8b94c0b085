/* Writes the pages of `size` bytes back to their file. */
#ifndef PM_SYNC
#define PM_SYNC
static inline void pm_sync(const volatile void *from, unsigned long size)
{
	unsigned long page = (unsigned long)from & ~((unsigned long)sysconf(_SC_PAGESIZE) - 1);
	if (msync((void *)page, (unsigned long)from + size - page, MS_SYNC) != 0)
		abort();
}
#endif
