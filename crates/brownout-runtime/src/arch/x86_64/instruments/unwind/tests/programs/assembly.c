/* Functions in assembly that say nothing about their frames. Each notes its return address itself. */
#include "chain.h"

void pushes(void (*)(void)), framed(void (*)(void)), branches(void (*)(void)), calls_leaf(void (*)(void));
uintptr_t noted;
extern char after_leaf[];

#define NOTE "  mov (%rsp), %rax\n  mov %rax, noted(%rip)\n"

__asm__(".text\n"
        "leaf: " STORE
        "  ret\n"
        "pushes:\n" NOTE
        "  push %rbx\n"
        "  push %rbp\n"
        "  mov $7, %ebp\n"
        "  sub $0x48, %rsp\n"
        "  call *%rdi\n"
        "  add $0x48, %rsp\n"
        "  pop %rbp\n"
        "  pop %rbx\n"
        "  ret\n"
        "framed:\n" NOTE
        "  push %rbp\n"
        "  mov %rsp, %rbp\n"
        "  push %r12\n"
        "  sub $0x1008, %rsp\n"
        "  call *%rdi\n"
        "  mov -8(%rbp), %r12\n"
        "  leave\n"
        "  ret\n"
        "branches:\n" NOTE
        "  sub $24, %rsp\n"
        "  call *%rdi\n"
        "  test %rsp, %rsp\n"
        "  jnz 1f\n"
        "  call *%rax\n"
        "  ud2\n"
        "1: add $24, %rsp\n"
        "  ret\n"
        "calls_leaf:\n" NOTE
        "  push %rbx\n"
        "  call *%rdi\n"
        "  call leaf\n"
        "after_leaf: pop %rbx\n"
        "  ret\n");

static NOINLINE void event(void)
{
    EXPECT(noted);
    ENTER;
    EVENT;
    depth -= 2;
}

static NOINLINE void expect_leaf(void)
{
    EXPECT(noted);
    EXPECT(after_leaf);
    tell();
    depth -= 2;
}

static NOINLINE void each(int n)
{
    volatile char room[n * 8 + 1];
    ENTER;
    room[0] = 1;
    pushes(event);
    framed(event);
    branches(event);
    calls_leaf(expect_leaf);
    LEAVE;
}

int main(void)
{
    ENTER;
    each(1);
    each(5);
    LEAVE;
    return 0;
}
