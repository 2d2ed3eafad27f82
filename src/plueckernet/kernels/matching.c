/* The most probable pairs of lines: putative_matches() of estimation/matching.py. */
#include "kernels.h"

#define KINDS 4096 /* of numbers by their first twelve bits: a sign, an exponent and three bits more */
#define KIND_SHIFT 20

typedef struct {
    float value;
    int32_t place;
} Entry;

/* A whole number that rises with a number, the least where that is not finite. */
static uint32_t rank_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if ((bits & 0x7f800000u) == 0x7f800000u)
        return 0;
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* The least kind of which not all numbers of that kind and above are too few. */
static uint32_t least_kind(int64_t count, const float *values, int64_t wanted)
{
    int32_t counts[KINDS] = {0};
    for (int64_t i = 0; i < count; i++)
        counts[rank_of(values[i]) >> KIND_SHIFT]++;
    uint32_t kind = KINDS - 1;
    for (int64_t found = counts[kind]; found < wanted && kind > 0; found += counts[kind])
        kind--;
    return kind;
}

/* The largest first, of equal ones the first. */
static int falls(Entry a, Entry b)
{
    uint32_t first = rank_of(a.value), second = rank_of(b.value);
    return first > second || (first == second && a.place < b.place);
}

/* By merging, with as much spare room. */
static Entry *sorted(Entry *entries, Entry *spare, int64_t count)
{
    for (int64_t width = 1; width < count; width *= 2) {
        for (int64_t start = 0; start < count; start += 2 * width) {
            int64_t middle = start + width < count ? start + width : count;
            int64_t stop = start + 2 * width < count ? start + 2 * width : count, left = start, right = middle;
            for (int64_t k = start; k < stop; k++) {
                int takes_right = left == middle || (right < stop && falls(entries[right], entries[left]));
                spare[k] = takes_right ? entries[right++] : entries[left++];
            }
        }
        Entry *other = entries;
        entries = spare;
        spare = other;
    }
    return entries;
}

/* The `wanted` largest numbers of a matrix, the largest first, and their rows and columns. There are at least so many;
   one that is not finite counts as minus infinity. Returns 0, or 1 without memory. */
KERNEL int largest_entries(int64_t rows, int64_t columns, const float *values, int64_t wanted, float *largest,
                           int64_t *row, int64_t *column)
{
    int64_t count = rows * columns, found = 0;
    uint32_t least = least_kind(count, values, wanted);
    Entry *entries = malloc(2 * sizeof(Entry) * (size_t)(count + 1));
    if (!entries)
        return 1;
    for (int64_t i = 0; i < count; i++) { /* written before it is known whether it counts */
        entries[found] = (Entry){values[i], (int32_t)i};
        found += rank_of(values[i]) >> KIND_SHIFT >= least;
    }
    Entry *order = sorted(entries, entries + count + 1, found);
    for (int64_t k = 0; k < wanted; k++) {
        largest[k] = isfinite(order[k].value) ? order[k].value : -INFINITY;
        row[k] = order[k].place / columns;
        column[k] = order[k].place % columns;
    }
    free(entries);
    return 0;
}
