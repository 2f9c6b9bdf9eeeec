/*
 * Your first performance-monitor interrupt (PMI), without an operating system.
 *
 *     make -C examples/bare
 *     vpmu run --cpu k8 --kernel examples/bare/pmi
 *
 * Counter 0 counts retired instructions. It is set PERIOD below its overflow, so that it overflows after
 * PERIOD instructions; the local APIC then delivers the vector that its entry LVTPC holds. The handler sets
 * the counter again. A loop of known length is counted twice: by the interrupts, and by the counter itself.
 *
 * Registers: AMD "BIOS and Kernel Developer's Guide", 26094, section 10.2; local APIC: Intel SDM volume 3.
 */
#include <stdint.h>

#define PERFEVTSEL0 0xc0010000	/* what counter 0 counts */
#define PERFCTR0 0xc0010004	/* counter 0, 48 bits wide */

#define RETIRED_INSTRUCTIONS 0xc0
#define OS (1 << 17)	/* count at CPL 0 */
#define INT (1 << 20)	/* interrupt on overflow */
#define EN (1 << 22)	/* count */

/* Registers of the local APIC. */
#define APIC(offset) (*(volatile uint32_t *)(0xfee00000 + (offset)))
#define EOI APIC(0x0b0)
#define SPURIOUS APIC(0x0f0)	/* bit 8 enables the local APIC */
#define LVTPC APIC(0x340)	/* what an overflow leads to: bits 7:0 are the vector, bit 16 masks it */

#define PMI_VECTOR 0x40
#define SERIAL 0x3f8
#define CODE 0x08

#define PERIOD 10000
#define ROUNDS 50000	/* of two instructions each */

struct gate {
	uint16_t low, selector, flags, high;
};

static struct gate gates[PMI_VECTOR + 1];
static volatile uint32_t interrupts;

static void wrmsr(uint32_t number, uint64_t value)
{
	__asm__ volatile("wrmsr" : : "c"(number), "A"(value) : "memory");
}

static uint64_t rdpmc(uint32_t counter)
{
	uint64_t value;

	__asm__ volatile("rdpmc" : "=A"(value) : "c"(counter) : "memory");
	return value;
}

static void print(const char *text)
{
	for (; *text; text++)
		__asm__ volatile("outb %0, %1" : : "a"(*text), "Nd"((uint16_t)SERIAL));
}

static void print_number(uint32_t number)
{
	char digits[11], *at = digits + 10;

	*at = 0;
	do {
		*--at = '0' + number % 10;
		number /= 10;
	} while (number);
	print(at);
}

/* Counts up to the overflow in PERIOD events; a write takes the low 48 bits. */
static void set_counter(void)
{
	wrmsr(PERFCTR0, -(uint64_t)PERIOD);
}

struct frame;
__attribute__((interrupt)) static void on_pmi(struct frame *frame)
{
	(void)frame;
	interrupts++;
	set_counter();	/* for the next one */
	EOI = 0;	/* tell the local APIC that it has been handled */
}

static void install(uint8_t vector, void (*handler)(struct frame *))
{
	const struct {
		uint16_t limit;
		uint32_t base;
	} __attribute__((packed)) table = { sizeof gates - 1, (uint32_t)gates };
	uint32_t at = (uint32_t)handler;

	/* 8E00h: present, for CPL 0, a 32-bit interrupt gate. */
	gates[vector] = (struct gate){ at, CODE, 0x8e00, at >> 16 };
	__asm__ volatile("lidt %0" : : "m"(table));
}

int main(void)
{
	uint32_t rounds = ROUNDS, left;

	install(PMI_VECTOR, on_pmi);	/* the handler, into the table of vectors */
	SPURIOUS = 0x1ff;		/* enable the local APIC */
	LVTPC = PMI_VECTOR;

	set_counter();			/* -10000 */
	__asm__ volatile("sti");
	wrmsr(PERFEVTSEL0, RETIRED_INSTRUCTIONS | OS | INT | EN);
	__asm__ volatile("1: decl %0; jnz 1b" : "+r"(rounds));	/* 50,000 rounds */
	wrmsr(PERFEVTSEL0, 0);
	__asm__ volatile("cli");

	/* What the counter has counted since the last interrupt: it stands that far above -PERIOD. */
	left = rdpmc(0) + PERIOD;
	print("interrupts: ");
	print_number(interrupts);
	print(", each after ");
	print_number(PERIOD);
	print(" instructions\ninstructions since the last: ");
	print_number(left);
	print("\n");
	/* 0 tells `vpmu test` that all is well. */
	return interrupts == ROUNDS * 2 / PERIOD ? 0 : 1;
}
