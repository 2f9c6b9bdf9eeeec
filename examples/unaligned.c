/*
 * A program of which a profiler can blame the wrong function: load() makes misaligned accesses, seven in eight
 * of 40,000, and mix() makes none.
 *
 *     gcc -O1 -static -o unaligned examples/unaligned.c
 */
static char bytes[4096];

__attribute__((noinline)) static long load(int at)
{
	return *(long *)(bytes + at);
}

__attribute__((noinline)) static long mix(long x)
{
	for (int i = 0; i < 40; i++)
		x = x * 31 + i;
	return x;
}

int main(void)
{
	long sum = 0;

	for (int i = 0; i < 40000; i++)
		sum = mix(sum + load(i & 2047));
	return sum != 0;
}
