/* The segments of a map by the cells that they pass within the inlier distance: LineGrid of estimation/line_grid.py,
   with the same cells and numbers. */
#ifndef PLUECKERNET_LINE_GRID_H
#define PLUECKERNET_LINE_GRID_H

#include "direction_index.h"

/* One bit says whether a cell has lines: most have none, and the bits of all cells stay in the cache. */
typedef struct {
    int patches;
    float cell_size;
    uint32_t mask;   /* of the number of a cell */
    uint64_t *bits;  /* of each number */
    int32_t *rank;   /* occupied cells before each word of bits */
    int32_t *start;  /* of the rows of each occupied cell */
    int32_t *rows;
} LineGrid;

/* Returns 0, or 1 if there was no memory. */
int line_grid_build(LineGrid *grid, int64_t count, const float *anchor, const float *direction,
                    const float *half_length, double distance, double angle);
void line_grid_free(LineGrid *grid);

static inline int32_t floored(float value)
{
    value = value > -1e9f ? value : -1e9f; /* also of NaN */
    value = value < 1e9f ? value : 1e9f;
    return (int32_t)floorf(value);
}

static inline uint32_t cube_number(int32_t x, int32_t y, int32_t z)
{
    return ((uint32_t)x * 73856093u) ^ ((uint32_t)y * 19349663u) ^ ((uint32_t)z * 83492791u);
}

static inline uint32_t cell_number(uint32_t cube, int patch)
{
    return ((uint32_t)patch * 49979693u) ^ cube;
}

static inline int has_lines(const LineGrid *grid, uint32_t number)
{
    return (int)(grid->bits[number >> 6] >> (number & 63) & 1);
}

/* The place of a cell among those that have lines. */
static inline int32_t occupied_place(const LineGrid *grid, uint32_t number)
{
    uint64_t below = ((uint64_t)1 << (number & 63)) - 1;
    return grid->rank[number >> 6] + __builtin_popcountll(grid->bits[number >> 6] & below);
}

#endif
