/* The library that processes.c loads. */
int triple(int n) {
    return 3 * n; /* line: triple */
}
