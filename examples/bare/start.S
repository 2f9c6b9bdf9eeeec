/*
 * Where the guest begins: multiboot's header, a stack, segments of our own, and then main().
 *
 * A multiboot loader enters _start in 32-bit protected mode, with paging and interrupts off. It leaves a
 * descriptor table somewhere in memory; an interrupt reloads CS from it, so we bring our own.
 */

#define CODE 0x08
#define DATA 0x10
#define DEBUG_EXIT 0xf4

	.section .text.start, "ax"
	.globl	_start
	/* Magic, flags, checksum: they add up to zero. */
	.align	4
	.long	0x1badb002, 0, -0x1badb002

_start:	lgdt	descriptors_pointer
	ljmp	$CODE, $1f
1:	movw	$DATA, %ax
	movw	%ax, %ds
	movw	%ax, %es
	movw	%ax, %ss
	movl	$stack_end, %esp
	call	main
	/* The status of the run is main's value * 2 + 1. */
	outl	%eax, $DEBUG_EXIT
2:	cli
	hlt
	jmp	2b

	.data
	.align	8
descriptors:
	.quad	0
	.quad	0x00cf9b000000ffff	/* CODE: flat, 32-bit, CPL 0 */
	.quad	0x00cf93000000ffff	/* DATA */
descriptors_pointer:
	.word	. - descriptors - 1
	.long	descriptors

	.bss
	.align	16
	.skip	4096
stack_end:

	.section .note.GNU-stack, "", @progbits
