/* trampolines.S — MPI_X and PMPI_X for every name in names.h: one load and one jump through a slot.
 *
 * Arguments are never read, so the door needs no MPI header and no argument can be spoilt. A slot begins at a stub
 * that calls thalweg_resolve(index) once, then jumps to what that returns. Only integer argument registers are saved:
 * no MPI function takes floating-point arguments.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "names.h"

/* In a program that MPI is linked into, PMPI_X is the MPI's own; the linker puts __wrap_PMPI_X in its place where it is
 * told to (linked/linked_mpi.c). */
#ifdef THALWEG_LINKED
#define PROFILING_NAME(name) __wrap_PMPI_##name
#else
#define PROFILING_NAME(name) PMPI_##name
#endif

#define GLOBAL(name) .globl name; .type name, %function;
#define BOTH_NAMES(name) GLOBAL(MPI_##name) GLOBAL(PROFILING_NAME(name))

    .set next_index, 0

#if defined(__x86_64__)

#define TRAMPOLINE(name) \
    BOTH_NAMES(name) \
    .balign 16; \
    MPI_##name: PROFILING_NAME(name): endbr64; jmp *(thalweg_slots + 8 * next_index)(%rip); \
    .set next_index, next_index + 1;
#define STUB(name) \
    stub_##name: endbr64; movl $next_index, %r11d; jmp resolve_and_go; \
    .set next_index, next_index + 1;

    .text
SLOTS_NAMED(TRAMPOLINE)
    .set next_index, 0
SLOTS_NAMED(STUB)

resolve_and_go:
    pushq %rdi
    pushq %rsi
    pushq %rdx
    pushq %rcx
    pushq %r8
    pushq %r9
    subq $8, %rsp
    movl %r11d, %edi
    call thalweg_resolve
    movq %rax, %r11
    addq $8, %rsp
    popq %r9
    popq %r8
    popq %rcx
    popq %rdx
    popq %rsi
    popq %rdi
    jmp *%r11

#elif defined(__aarch64__)

#define TRAMPOLINE(name) \
    BOTH_NAMES(name) \
    .balign 16; \
    MPI_##name: PROFILING_NAME(name): hint 34; \
    adrp x16, thalweg_slots + 8 * next_index; \
    add x16, x16, :lo12:thalweg_slots + 8 * next_index; ldr x17, [x16]; br x17; \
    .set next_index, next_index + 1;
#define STUB(name) \
    stub_##name: hint 36; mov w16, next_index; b resolve_and_go; \
    .set next_index, next_index + 1;

    .text
SLOTS_NAMED(TRAMPOLINE)
    .set next_index, 0
SLOTS_NAMED(STUB)

resolve_and_go:
    stp x29, x30, [sp, -96]!
    mov x29, sp
    stp x0, x1, [sp, 16]
    stp x2, x3, [sp, 32]
    stp x4, x5, [sp, 48]
    stp x6, x7, [sp, 64]
    str x8, [sp, 80]
    mov w0, w16
    bl thalweg_resolve
    mov x17, x0
    ldp x0, x1, [sp, 16]
    ldp x2, x3, [sp, 32]
    ldp x4, x5, [sp, 48]
    ldp x6, x7, [sp, 64]
    ldr x8, [sp, 80]
    ldp x29, x30, [sp], 96
    br x17

#else
#error "the door has trampolines for x86-64 and aarch64 only"
#endif

/* A slot is eight aligned bytes, so the door's stores to it are atomic. */
#define SLOT(name) .quad stub_##name;
    .data
    .balign 8
    .globl thalweg_slots
    .hidden thalweg_slots
    .type thalweg_slots, %object
thalweg_slots:
SLOTS_NAMED(SLOT)
    .size thalweg_slots, . - thalweg_slots

    .section .note.GNU-stack, "", %progbits
