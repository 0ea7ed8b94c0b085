/* Programs that know their own calling context. Each function notes its return address; at an event the
 * program prints the addresses it expects, innermost first, and stops for the tracer. */
#include <stdint.h>
#include <stdio.h>

#define NOINLINE __attribute__((noinline, noclone))
#define MAX_DEPTH 100000

static __thread uintptr_t chain[MAX_DEPTH];
static __thread int depth;
/* Whether nothing is further out than the addresses noted. */
static int whole;

#define EXPECT(address) (chain[depth++] = (uintptr_t)(address))
#define ENTER EXPECT(__builtin_return_address(0))
/* The barrier keeps the call before it from becoming a tail call. */
#define LEAVE do { depth--; __asm__ volatile("" ::: "memory"); } while (0)
/* A store that the tracer takes for an event, and steps over. */
#define EVENT do { tell(); __asm__ volatile(STORE ::: "memory"); } while (0)
#define STORE "movl $1, 0xb0b0\n"

static NOINLINE void tell(void)
{
    for (int i = depth - 1; i >= 0; i--)
        printf("%lx ", (unsigned long)chain[i]);
    printf(whole ? "whole\n" : "\n");
    fflush(stdout);
}
