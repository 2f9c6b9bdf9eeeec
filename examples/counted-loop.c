/*
 * Your first counted loop: a program that programs a performance counter of a K7 or K8 by itself.
 *
 *     gcc -O1 -static -o counted-loop examples/counted-loop.c
 *     vpmu exec --cpu k8 --msr -- ./counted-loop
 *
 * Only the kernel may write the counters' registers (WRMSR is an instruction of CPL 0), so the program asks
 * its msr driver to: a write of 8 bytes to /dev/cpu/0/msr at offset N is WRMSR of register N on processor 0.
 * Reading takes no system call: RDPMC is allowed to programs where CR4.PCE is set, which the kernel's PMU
 * driver does for all programs once 2 is written to its file `rdpmc`.
 *
 * Registers: AMD "BIOS and Kernel Developer's Guide", 26094, section 10.2. The kernel's NMI watchdog has
 * counter 0; this takes counter 3.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define COUNTER 3
#define PERFEVTSEL 0xc0010000	/* and the number of the counter: what it counts */
#define PERFCTR 0xc0010004	/* and the number of the counter: the counter */

#define RETIRED_INSTRUCTIONS 0xc0
#define USR (1 << 16)	/* count at CPL 3 */
#define EN (1 << 22)	/* count */

#define ROUNDS 10000	/* of two instructions each */
#define PAUSE 100000	/* microseconds */

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void write_msr(int driver, uint32_t number, uint64_t value)
{
	if (pwrite(driver, &value, sizeof value, number) != sizeof value)
		fail("WRMSR by /dev/cpu/0/msr");
}

static uint64_t read_msr(int driver, uint32_t number)
{
	uint64_t value;

	if (pread(driver, &value, sizeof value, number) != sizeof value)
		fail("RDMSR by /dev/cpu/0/msr");
	return value;
}

static inline uint64_t rdpmc(uint32_t counter)
{
	uint32_t low, high;

	__asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(counter) : "memory");
	return (uint64_t)high << 32 | low;
}

static void allow_rdpmc(void)
{
	int file = open("/sys/bus/event_source/devices/cpu/rdpmc", O_WRONLY);

	if (file < 0 || write(file, "2", 1) != 1)
		fail("/sys/bus/event_source/devices/cpu/rdpmc");
	close(file);
}

int main(void)
{
	cpu_set_t first;
	uint64_t rounds = ROUNDS, before, after;
	int driver = open("/dev/cpu/0/msr", O_RDWR);

	if (driver < 0)
		fail("/dev/cpu/0/msr (is the module msr loaded?)");
	/* Each processor has counters of its own: stay on processor 0. */
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	if (sched_setaffinity(0, sizeof first, &first))
		fail("sched_setaffinity");
	allow_rdpmc();
	/* The counter counts whatever its processor executes: let the others do what they still have to. */
	usleep(PAUSE);

	write_msr(driver, PERFCTR + COUNTER, 0);
	write_msr(driver, PERFEVTSEL + COUNTER, RETIRED_INSTRUCTIONS | USR | EN);
	before = rdpmc(COUNTER);
	__asm__ volatile("1: dec %0; jnz 1b" : "+r"(rounds));
	after = rdpmc(COUNTER);
	write_msr(driver, PERFEVTSEL + COUNTER, 0);

	printf("RDPMC: %d rounds took %lu instructions\n", ROUNDS, (unsigned long)(after - before));
	printf("RDMSR: the counter is at %lu\n", (unsigned long)read_msr(driver, PERFCTR + COUNTER));
	return 0;
}
