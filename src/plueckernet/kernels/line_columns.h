/* Lines coordinate by coordinate, and the squared residuals of one moved line against all of them, many at a time:
   pair_residuals() of estimation/scoring.py. */
#ifndef PLUECKERNET_LINE_COLUMNS_H
#define PLUECKERNET_LINE_COLUMNS_H

#include "kernels.h"

#ifdef __AVX512F__
#define LANES 16 /* counts of columns are multiples of this, so that no loop has a remainder */
#else
#define LANES 8
#endif
#define COLUMN_FIELDS 7 /* three coordinates of the anchor, three of the direction, the half length */

typedef struct {
    float distance, angle, slope;
    int directed;
} Threshold;

/* Anchors and half lengths are in units of the inlier distance. */
typedef struct {
    int64_t padded; /* columns, with those that fill the last lanes */
    float *x, *y, *z, *dx, *dy, *dz, *half;
} LineColumns;

typedef struct {
    float x, y, z, dx, dy, dz, half;
} MovedLine;

static inline int64_t padded_count(int64_t count)
{
    return (count + LANES - 1) / LANES * LANES;
}

/* Columns in an array of COLUMN_FIELDS * padded numbers. */
static inline LineColumns columns_in(float *memory, int64_t padded)
{
    return (LineColumns){padded,
                         memory,
                         memory + padded,
                         memory + 2 * padded,
                         memory + 3 * padded,
                         memory + 4 * padded,
                         memory + 5 * padded,
                         memory + 6 * padded};
}

static inline void set_column(LineColumns *columns, int64_t column, const float *anchor, const float *direction,
                              float half, float unit)
{
    columns->x[column] = anchor[0] * unit;
    columns->y[column] = anchor[1] * unit;
    columns->z[column] = anchor[2] * unit;
    columns->dx[column] = direction[0];
    columns->dy[column] = direction[1];
    columns->dz[column] = direction[2];
    columns->half[column] = half * unit;
}

static inline void set_columns(LineColumns *columns, int64_t count, const float *anchor, const float *direction,
                               const float *half_length, float unit)
{
    for (int64_t i = 0; i < count; i++)
        set_column(columns, i, anchor + 3 * i, direction + 3 * i, half_length ? half_length[i] : 0, unit);
    static const float nothing[3] = {0, 0, 0};
    for (int64_t i = count; i < columns->padded; i++)
        set_column(columns, i, nothing, nothing, 0, 1);
}

/* A line under a pose: a rotation row by row and a translation. */
static inline MovedLine moved_line(const float *rotation, const float *translation, const float *anchor,
                                   const float *direction, float half, float unit)
{
    const float *r = rotation, *a = anchor, *d = direction;
    return (MovedLine){(r[0] * a[0] + r[1] * a[1] + r[2] * a[2] + translation[0]) * unit,
                       (r[3] * a[0] + r[4] * a[1] + r[5] * a[2] + translation[1]) * unit,
                       (r[6] * a[0] + r[7] * a[1] + r[8] * a[2] + translation[2]) * unit,
                       r[0] * d[0] + r[1] * d[1] + r[2] * d[2],
                       r[3] * d[0] + r[4] * d[1] + r[5] * d[2],
                       r[6] * d[0] + r[7] * d[1] + r[8] * d[2],
                       half * unit};
}

/* The flags are constants where this is called, so that each loop has only what it needs. */
static inline __attribute__((always_inline)) float pair_square(const MovedLine *a, const LineColumns *columns, int64_t j,
                                                               const Threshold *threshold, float weight, int segments,
                                                               int special)
{
    float dx = columns->dx[j], dy = columns->dy[j], dz = columns->dz[j];
    float ox = columns->x[j] - a->x, oy = columns->y[j] - a->y, oz = columns->z[j] - a->z;
    float lever = ox * a->dx + oy * a->dy + oz * a->dz, back = ox * dx + oy * dy + oz * dz;
    float cosine = a->dx * dx + a->dy * dy + a->dz * dz;
    float value = ox * ox + oy * oy + oz * oz - 0.5f * (lever * lever + back * back);
    value = value < 0 ? 0 : value; /* NaN stays */
    if (special)
        value /= 1 + lever * threshold->slope * (lever * threshold->slope);
    value += (1 - cosine * cosine) * weight;
    if (segments) {
        float gap = fabsf(lever) - (a->half + columns->half[j]);
        gap = gap < 0 ? 0 : gap;
        value += gap * gap;
    }
    if (special)
        value = threshold->directed && cosine < 0 ? INFINITY : value;
    return value;
}

static inline float angle_weight(const Threshold *threshold)
{
    return 1 / (threshold->angle * threshold->angle);
}

static inline __attribute__((always_inline)) void residual_row_of_kind(const MovedLine *line,
                                                                        const LineColumns *columns, int64_t first,
                                                                        int64_t count, const Threshold *threshold,
                                                                        float *square, int segments, int special)
{
    const MovedLine a = *line;
    const LineColumns own = *columns;
    const Threshold limit = *threshold;
    const float weight = angle_weight(threshold);
#pragma omp simd
    for (int64_t j = 0; j < count; j++)
        square[j] = pair_square(&a, &own, first + j, &limit, weight, segments, special);
}

static inline int is_special(const Threshold *threshold)
{
    return threshold->directed || threshold->slope != 0;
}

/* Squared residuals, in thresholds, of a moved line and `used` columns; those up to a multiple of LANES are infinite. */
static inline void residual_row(const MovedLine *line, const LineColumns *columns, int64_t first, int64_t used,
                                const Threshold *threshold, int segments, float *square)
{
    int64_t count = padded_count(used);
    int special = is_special(threshold);
    if (segments && special)
        residual_row_of_kind(line, columns, first, count, threshold, square, 1, 1);
    else if (segments)
        residual_row_of_kind(line, columns, first, count, threshold, square, 1, 0);
    else if (special)
        residual_row_of_kind(line, columns, first, count, threshold, square, 0, 1);
    else
        residual_row_of_kind(line, columns, first, count, threshold, square, 0, 0);
    for (int64_t j = used; j < count; j++)
        square[j] = INFINITY;
}

static inline float smallest(const float *values, int64_t count)
{
    float least = INFINITY;
#pragma omp simd reduction(min : least)
    for (int64_t j = 0; j < count; j++)
        least = values[j] < least ? values[j] : least;
    return least;
}

#endif
