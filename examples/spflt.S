/*
 * Four threads of a Knights Corner core, each of which counts a region of its own, and the core: a laboratory
 * for SPFLT and for bit 21 of the event selects (Intel 327357-001, 1.4.2 and 1.4.3).
 *
 *     gcc -m32 -nostdlib -static -no-pie -Wl,-Ttext=0x200000 -Wl,--build-id=none -o spflt examples/spflt.S
 *     vpmu run --cpu knc --smp 4 --kernel spflt
 *
 * There is no operating system. Thread 0 wakes the others; each programs its two counters, enters CPL 3, and
 * comes back by INT 80h. Counter 0 counts the thread's instructions at CPL 3 while the thread's preference is
 * set, which SPFLT does from CPL 3, without a system call. Counter 1 counts those of all four threads.
 */

#define THREADS 4

/* 327357-001, tables 1-2 to 1-10. */
#define PERF_CNT 0x20
#define PERF_EVT_SEL 0x28
#define PERF_SPFLT_CONTROL 0x2c
#define PERF_GLOBAL_CTRL 0x2f
#define INSTRUCTIONS_EXECUTED 0x16
#define USR (1 << 16)
#define ALL_THREADS (1 << 21)
#define ENABLE (1 << 22)

/* The local APIC's interrupt command: to all but itself. */
#define ICR 0xfee00300
#define INIT 0x000c4500
#define STARTUP 0x000c4600

#define SERIAL 0x3f8
#define DEBUG_EXIT 0xf4
/* Where the other threads wake, in real mode: below 1 MiB, at a page that STARTUP names. */
#define WAKE 0x8000

/* Selectors; behind these, a task state for each thread. */
#define CODE 0x08
#define DATA 0x10
#define USER_CODE 0x1b
#define USER_DATA 0x23
#define TASKS 0x28
#define TASK_BYTES 0x68

.macro spflt_eax
	/* SPFLT EAX, which assemblers do not know: VEX.L0.F2.0F AE /6. */
	.byte 0xc5, 0xfb, 0xae, 0xf0
.endm

.macro write_msr number, value
	movl	$\number, %ecx
	movl	$\value, %eax
	xorl	%edx, %edx
	wrmsr
.endm

/* Waits until every thread is here for the \nth time. */
.macro barrier nth
	lock incl arrived
1:	cmpl	$\nth * THREADS, arrived
	jb	1b
.endm

	.text
	.globl	_start
	/* Multiboot's header. */
	.align	4
	.long	0x1badb002, 0, -0x1badb002

_start:	movl	$stacks + 4096, %esp
	movl	$wake, %esi
	movl	$WAKE, %edi
	movl	$wake_end - wake, %ecx
	cld
	rep movsb
	call	make_tables
	movl	$INIT, ICR
	movl	$STARTUP | WAKE >> 12, ICR
	lgdt	table
	ljmp	$CODE, $thread

	.code16
wake:	cli
	xorw	%ax, %ax
	movw	%ax, %ds
	lgdtl	WAKE + table_for_wake - wake
	movl	$1, %eax
	movl	%eax, %cr0
	ljmpl	$CODE, $thread
table_for_wake:
	.word	descriptors_end - descriptors - 1
	.long	descriptors
wake_end:
	.code32

/* Every thread: EBX is its number, in the order in which they come here; each has a stack of a page. */
thread:	movw	$DATA, %ax
	movw	%ax, %ds
	movw	%ax, %es
	movw	%ax, %ss
	movl	$1, %ebx
	lock xaddl %ebx, started
	movl	%ebx, %esp
	shll	$12, %esp
	addl	$stacks + 4096, %esp
	lidt	gates_pointer
	leal	TASKS(, %ebx, 8), %eax
	ltr	%ax

	write_msr PERF_EVT_SEL, INSTRUCTIONS_EXECUTED | USR | ENABLE
	write_msr PERF_EVT_SEL + 1, INSTRUCTIONS_EXECUTED | USR | ENABLE | ALL_THREADS
	/* Counter 0 obeys SPFLT; counter 1 does not. The preference is clear. */
	write_msr PERF_SPFLT_CONTROL, 1
	write_msr PERF_GLOBAL_CTRL, 3
	barrier	1

	pushl	$USER_DATA
	pushl	%esp
	pushl	$0
	pushl	$USER_CODE
	pushl	$user
	iretl

/* Counter 0 counts from behind the first SPFLT up to the second: 2 + 200 * (EBX + 1) + 2 instructions. There
   are three more, INT among them. */
user:	movl	$1, %eax
	spflt_eax
	leal	1(%ebx), %ecx
	imull	$100, %ecx
1:	decl	%ecx
	jnz	1b
	xorl	%eax, %eax
	spflt_eax
	int	$0x80

/* INT 80h. No thread reads before the last has come back. */
back:	movw	$DATA, %ax
	movw	%ax, %ds
	barrier	2
	write_msr PERF_GLOBAL_CTRL, 0
	xorl	%ecx, %ecx
	rdpmc
	movl	%eax, regions(, %ebx, 4)
	movl	$1, %ecx
	rdpmc
	movl	%eax, cores(, %ebx, 4)
	barrier	3
	testl	%ebx, %ebx
	jz	print
halt:	cli
	hlt
	jmp	halt

/* Thread 0 prints what all of them found. */
print:	movl	$text_thread, %esi
	call	print_text
	movl	%ebx, %eax
	call	print_number
	movl	$text_region, %esi
	call	print_text
	movl	regions(, %ebx, 4), %eax
	call	print_number
	movl	$text_core, %esi
	call	print_text
	movl	cores(, %ebx, 4), %eax
	call	print_number
	movl	$text_end, %esi
	call	print_text
	incl	%ebx
	cmpl	$THREADS, %ebx
	jb	print
	xorl	%eax, %eax
	outb	%al, $DEBUG_EXIT
	jmp	halt

/* The text at ESI, up to a zero. */
print_text:
	movl	$SERIAL, %edx
1:	lodsb
	testb	%al, %al
	jz	2f
	outb	%al, %dx
	jmp	1b
2:	ret

/* EAX, decimal. */
print_number:
	movl	$10, %ecx
	xorl	%edx, %edx
	divl	%ecx
	pushl	%edx
	testl	%eax, %eax
	jz	1f
	call	print_number
1:	popl	%eax
	addb	$'0', %al
	movl	$SERIAL, %edx
	outb	%al, %dx
	ret

/* A descriptor of each thread's task state, which has its stack of CPL 0, and the gate of INT 80h. */
make_tables:
	xorl	%ebx, %ebx
1:	imull	$TASK_BYTES, %ebx, %eax
	addl	$tasks, %eax
	leal	1(%ebx), %edx
	shll	$12, %edx
	addl	$stacks, %edx
	movl	%edx, 4(%eax)
	movl	$DATA, 8(%eax)
	leal	descriptors + TASKS(, %ebx, 8), %edi
	movw	$TASK_BYTES - 1, (%edi)
	movw	%ax, 2(%edi)
	shrl	$16, %eax
	movb	%al, 4(%edi)
	movw	$0x0089, 5(%edi)
	movb	%ah, 7(%edi)
	incl	%ebx
	cmpl	$THREADS, %ebx
	jb	1b
	movl	$back, %eax
	movw	%ax, gates + 8 * 0x80
	movw	$CODE, gates + 8 * 0x80 + 2
	movw	$0xee00, gates + 8 * 0x80 + 4
	shrl	$16, %eax
	movw	%ax, gates + 8 * 0x80 + 6
	ret

	.data
	.align	8
descriptors:
	.quad	0
	.quad	0x00cf9b000000ffff	/* CODE: flat, CPL 0 */
	.quad	0x00cf93000000ffff	/* DATA */
	.quad	0x00cffb000000ffff	/* USER_CODE: flat, CPL 3 */
	.quad	0x00cff3000000ffff	/* USER_DATA */
	.fill	THREADS, 8, 0
descriptors_end:
table:	.word	descriptors_end - descriptors - 1
	.long	descriptors
gates_pointer:
	.word	8 * 0x81 - 1
	.long	gates
started:
	.long	0
arrived:
	.long	0
text_thread:
	.asciz	"thread "
text_region:
	.asciz	": region "
text_core:
	.asciz	", core "
text_end:
	.asciz	"\n"

	.bss
	.align	4096
stacks:	.skip	THREADS * 4096
gates:	.skip	8 * 0x81
tasks:	.skip	THREADS * TASK_BYTES
regions:
	.skip	THREADS * 4
cores:	.skip	THREADS * 4
