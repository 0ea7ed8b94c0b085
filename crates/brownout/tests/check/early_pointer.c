/* A node that is linked before it is durable. */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

struct node {
	_Alignas(64) volatile uint64_t value;
	struct node *volatile next;
};

struct list {
	struct node *volatile head;
	struct node node;
};

static void persist(volatile void *place)
{
	_mm_clflush((void *)place);
	_mm_sfence();
}

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
	if (argc != 2 || fd < 0 || ftruncate(fd, 4096) != 0)
		return 10;
	struct list *list = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (list == MAP_FAILED)
		return 11;
	list->node.value = 7;
	list->node.next = list->head;
	list->head = &list->node;
	persist(&list->head);
	persist(&list->node);
	return 0;
}
