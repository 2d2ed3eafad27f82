/* Where a map has segments: Occupancy of estimation/occupancy.py, one bit a cell. */
#ifndef PLUECKERNET_OCCUPANCY_H
#define PLUECKERNET_OCCUPANCY_H

#include "direction_index.h"

#define OCCUPANCY_SIZE 64 /* cells along each axis: the cells along the last axis are one word */

typedef struct {
    float cell_size;
    uint64_t words[OCCUPANCY_SIZE * OCCUPANCY_SIZE];
} Occupancy;

/* The number of the cell of a point; those outside count for the cells at the border. */
static inline int32_t occupancy_cell(const Occupancy *occupancy, float x, float y, float z)
{
    const float half = OCCUPANCY_SIZE / 2, size = occupancy->cell_size;
    int i = limited(x / size + half, OCCUPANCY_SIZE), j = limited(y / size + half, OCCUPANCY_SIZE);
    return (i * OCCUPANCY_SIZE + j) * OCCUPANCY_SIZE + limited(z / size + half, OCCUPANCY_SIZE);
}

static inline int is_occupied(const Occupancy *occupancy, int32_t cell)
{
    return (int)(occupancy->words[cell / OCCUPANCY_SIZE] >> (cell % OCCUPANCY_SIZE) & 1);
}

void occupancy_build(Occupancy *occupancy, int64_t count, const float *anchor, const float *direction,
                     const float *half_length, float cell_size);

#endif
