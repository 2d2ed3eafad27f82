/* Builds the grid of occupied cells. */
#include "occupancy.h"

/* Each word with those at both sides of it, in rows of words that are `step` apart. */
static void widen(uint64_t *words, int step)
{
    uint64_t wide[OCCUPANCY_SIZE * OCCUPANCY_SIZE];
    for (int k = 0; k < OCCUPANCY_SIZE * OCCUPANCY_SIZE; k++) {
        int place = k / step % OCCUPANCY_SIZE;
        uint64_t before = place > 0 ? words[k - step] : 0, after = place < OCCUPANCY_SIZE - 1 ? words[k + step] : 0;
        wide[k] = words[k] | before | after;
    }
    memcpy(words, wide, sizeof wide);
}

void occupancy_build(Occupancy *occupancy, int64_t count, const float *anchor, const float *direction,
                     const float *half_length, float cell_size)
{
    memset(occupancy, 0, sizeof *occupancy);
    occupancy->cell_size = cell_size;
    uint64_t *words = occupancy->words;
    for (int64_t i = 0; i < count; i++) {
        const float *a = anchor + 3 * i, *d = direction + 3 * i;
        int samples = 1 + limited(ceilf(2 * half_length[i] / cell_size) - 1, 2 * OCCUPANCY_SIZE);
        for (int k = 0; k < samples; k++) {
            float along = (((float)k + 0.5f) / (float)samples * 2 - 1) * half_length[i];
            int32_t cell = occupancy_cell(occupancy, a[0] + along * d[0], a[1] + along * d[1], a[2] + along * d[2]);
            words[cell / OCCUPANCY_SIZE] |= (uint64_t)1 << (cell % OCCUPANCY_SIZE);
        }
    }
    widen(words, OCCUPANCY_SIZE);
    widen(words, 1);
    for (int k = 0; k < OCCUPANCY_SIZE * OCCUPANCY_SIZE; k++)
        words[k] |= words[k] << 1 | words[k] >> 1;
}
