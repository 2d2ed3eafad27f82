/* What the CPU can run: library.py asks the general library before it loads another. */
#include "kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>

enum { FMA = 1 << 12, OSXSAVE = 1 << 27, AVX = 1 << 28 };                           /* in ecx of leaf 1 */
enum { BMI = 1 << 3, AVX2 = 1 << 5, BMI2 = 1 << 8 };                                /* in ebx of leaf 7 */
enum { F = 1 << 16, DQ = 1 << 17, CD = 1 << 28, BW = 1 << 30, VL = (int)(1u << 31) }; /* of AVX-512, there */
enum { STATE_256 = 0x06, STATE_512 = 0xe6 };

/* The system must save the wide registers, too. */
static int saves_registers(uint32_t state)
{
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & state) == state;
}

/* Whether there are 256 bits with FMA and the features `wanted` of leaf 7. */
static int64_t runs(uint32_t wanted, uint32_t state)
{
    uint32_t a, b, c, d, basic = FMA | OSXSAVE | AVX;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & basic) != basic)
        return 0;
    return saves_registers(state) && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & wanted) == wanted;
}
#else
enum { BMI, AVX2, BMI2, F, DQ, CD, BW, VL, STATE_256, STATE_512 };

static int64_t runs(uint32_t wanted, uint32_t state)
{
    (void)wanted, (void)state;
    return 0;
}
#endif

KERNEL int64_t has_avx2(void)
{
    return runs(BMI | AVX2 | BMI2, STATE_256);
}

KERNEL int64_t has_avx512(void)
{
    return runs(BMI | AVX2 | BMI2 | F | DQ | CD | BW | (uint32_t)VL, STATE_512);
}
