/* What the CPU can run: library.py asks the general library before it loads the other. */
#include "kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>

enum { FMA = 1 << 12, OSXSAVE = 1 << 27, AVX = 1 << 28, BMI = 1 << 3, AVX2 = 1 << 5, BMI2 = 1 << 8, WIDE_STATE = 6 };

/* The system must save the wide registers, too. */
static int saves_wide_registers(void)
{
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & WIDE_STATE) == WIDE_STATE;
}

KERNEL int64_t has_avx2(void)
{
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & (FMA | OSXSAVE | AVX)) != (FMA | OSXSAVE | AVX))
        return 0;
    if (!saves_wide_registers() || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return 0;
    return (b & (BMI | AVX2 | BMI2)) == (BMI | AVX2 | BMI2);
}
#else
KERNEL int64_t has_avx2(void)
{
    return 0;
}
#endif
