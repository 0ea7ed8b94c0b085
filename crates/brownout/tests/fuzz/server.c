/* A store behind a socket: of TCP, or at the path in the second argument. The first connection is served. A `boom` over another one after
   a `put` ends the server. `closed` is written when the server is asked to end. */
#include <fcntl.h>
#include <immintrin.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct store {
	uint64_t puts;
	_Alignas(64) uint64_t closed;
	_Alignas(64) uint64_t forgotten;
};

static struct store *store;
static volatile sig_atomic_t is_ending;
static int connections;

static void persist(const void *address)
{
	_mm_clflush(address);
	_mm_sfence();
}

static void end(int signal)
{
	is_ending = signal;
}

static int serve(int connection)
{
	char text[4096] = "";
	if (read(connection, text, sizeof text - 1) <= 0)
		return 0;
	if (!strncmp(text, "put", 3)) {
		store->puts++;
		persist(&store->puts);
	} else if (!strncmp(text, "boom", 4) && store->puts && connections > 1) {
		abort();
	}
	return write(connection, "ok\n", 3) == 3;
}

static int listening(const char *path)
{
	struct sockaddr_un local = {.sun_family = AF_UNIX};
	struct sockaddr_in anywhere = {.sin_family = AF_INET, .sin_port = htons(7000)};
	int listener = socket(path ? AF_UNIX : AF_INET, SOCK_STREAM, 0);
	if (path)
		strncpy(local.sun_path, path, sizeof local.sun_path - 1);
	if (path ? bind(listener, (void *)&local, sizeof local) : bind(listener, (void *)&anywhere, sizeof anywhere))
		exit(3);
	listen(listener, 4);
	return listener;
}

int main(int argc, char **argv)
{
	int file = open(argv[1], O_RDWR | O_CREAT, 0644);
	if (file < 0 || ftruncate(file, 4096))
		return 2;
	store = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	signal(SIGTERM, end);
	struct pollfd polled[2] = {{listening(argc > 2 ? argv[2] : 0), POLLIN, 0}, {-1, POLLIN, 0}};
	while (!is_ending) {
		if (poll(polled, 2, -1) < 0)
			continue;
		if (polled[1].revents && !serve(polled[1].fd)) {
			close(polled[1].fd);
			polled[1].fd = -1;
		} else if (polled[0].revents && polled[1].fd < 0) {
			polled[1].fd = accept(polled[0].fd, 0, 0);
			connections++;
		}
	}
	store->forgotten++;
	persist(&store->closed);
	store->closed = 1;
	persist(&store->closed);
	return 0;
}
