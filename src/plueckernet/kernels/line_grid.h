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
    int32_t whole = (int32_t)value;
    return whole - ((float)whole > value);
}

static inline uint32_t cube_number(int32_t x, int32_t y, int32_t z)
{
    return ((uint32_t)x * 73856093u) ^ ((uint32_t)y * 19349663u) ^ ((uint32_t)z * 83492791u);
}

static inline uint32_t cell_number(uint32_t cube, int patch)
{
    return ((uint32_t)patch * 49979693u) ^ cube;
}

/* The rows of the lines in a cell: how many, and where they start. */
static inline int32_t lines_in_cell(const LineGrid *grid, uint32_t number, const int32_t **rows)
{
    uint32_t word = number >> 6, bit = number & 63;
    uint64_t bits = grid->bits[word];
    if (!(bits >> bit & 1))
        return 0;
    int32_t cell = grid->rank[word] + __builtin_popcountll(bits & (((uint64_t)1 << bit) - 1));
    *rows = grid->rows + grid->start[cell];
    return grid->start[cell + 1] - grid->start[cell];
}

#endif
