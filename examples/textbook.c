/*
 * What every textbook promises, counted by a program of itself: a matrix read by rows or by columns, a
 * branch on bytes that are in random order or sorted.
 *
 *     gcc -O1 -static -o textbook examples/textbook.c
 *     vpmu exec --cpu k8 -- ./textbook
 *
 * It opens the kernel's generic events one after the other, which perf calls by the same names, and counts
 * at CPL 3 only. An event that the processor's driver does not have is shown as "-".
 */
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROWS 256
#define COLUMNS 1024
#define BYTES 65536

static int matrix[ROWS][COLUMNS];
static unsigned char bytes[BYTES];
static volatile long sink;

static void by_rows(void)
{
	long sum = 0;

	for (int row = 0; row < ROWS; row++)
		for (int column = 0; column < COLUMNS; column++)
			sum += matrix[row][column];
	sink = sum;
}

static void by_columns(void)
{
	long sum = 0;

	for (int column = 0; column < COLUMNS; column++)
		for (int row = 0; row < ROWS; row++)
			sum += matrix[row][column];
	sink = sum;
}

static void add_large_ones(void)
{
	long sum = 0;

	for (int n = 0; n < BYTES; n++) {
		if (bytes[n] >= 128) {
			sum += bytes[n];
			/* Keeps the compiler from a conditional move. */
			__asm__ volatile("" : "+r"(sum));
		}
	}
	sink = sum;
}

static int ascending(const void *a, const void *b)
{
	return *(const unsigned char *)a - *(const unsigned char *)b;
}

/* Counts an event while `body` runs; -1 if there is no such event. */
static int64_t count(uint32_t type, uint64_t config, void (*body)(void))
{
	struct perf_event_attr event = {
		.size = sizeof event, .type = type, .config = config,
		.disabled = 1, .exclude_kernel = 1, .exclude_hv = 1,
	};
	uint64_t counted = 0;
	int fd = syscall(SYS_perf_event_open, &event, 0, -1, -1, 0);

	if (fd < 0)
		return -1;
	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	body();
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	if (read(fd, &counted, sizeof counted) != sizeof counted)
		exit(1);
	close(fd);
	return counted;
}

static void show(const char *what, void (*body)(void))
{
	const uint64_t l1d_misses = PERF_COUNT_HW_CACHE_L1D |
		PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_MISS << 16;
	const int64_t counts[] = {
		count(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, body),
		count(PERF_TYPE_HW_CACHE, l1d_misses, body),
		count(PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES, body),
		count(PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND, body),
		count(PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND, body),
	};

	printf("%-12s", what);
	for (int n = 0; n < 5; n++) {
		if (counts[n] < 0)
			printf("%24s", "-");
		else
			printf("%24lld", (long long)counts[n]);
	}
	printf("\n");
}

int main(void)
{
	memset(matrix, 1, sizeof matrix);
	for (int n = 0; n < BYTES; n++)
		bytes[n] = rand() >> 7;
	printf("%-12s%24s%24s%24s%24s%24s\n", "", "instructions", "L1-dcache-load-misses", "branch-misses",
	       "stalled-cycles-frontend", "stalled-cycles-backend");
	show("rows", by_rows);
	show("columns", by_columns);
	show("unsorted", add_large_ones);
	qsort(bytes, BYTES, 1, ascending);
	show("sorted", add_large_ones);
	return 0;
}
