/* Lines of a map as the kernels of symmetries have them: in single precision, coordinate by coordinate, so that loops
   over lines vectorise. */
#ifndef PLUECKERNET_SYMMETRY_H
#define PLUECKERNET_SYMMETRY_H

#include "kernels.h"

/* The lines of a map as Python has them, three numbers each; `half_length` is NULL for infinite lines. */
typedef struct {
    int64_t count;
    const double *direction, *moment, *anchor, *half_length;
} GivenLines;

typedef struct {
    double distance, angle, slope;
    int64_t directed;
} InlierThreshold;

typedef struct {
    int64_t count;
    float *direction[3], *moment[3], *anchor[3], *half_length; /* half_length is NULL for infinite lines */
    float *memory;
} MapLines;

/* Some rows of the lines, or all where `rows` is NULL, lengths divided by `unit`. Returns 0 without memory. */
static inline int load_lines(MapLines *lines, const GivenLines *given, const int64_t *rows, int64_t count, double unit)
{
    lines->count = count;
    lines->memory = malloc(sizeof(float) * 10 * (size_t)(count > 0 ? count : 1));
    if (!lines->memory)
        return 0;
    for (int axis = 0; axis < 3; axis++) {
        lines->direction[axis] = lines->memory + axis * count;
        lines->moment[axis] = lines->memory + (3 + axis) * count;
        lines->anchor[axis] = lines->memory + (6 + axis) * count;
        for (int64_t i = 0; i < count; i++) {
            int64_t row = rows ? rows[i] : i;
            lines->direction[axis][i] = (float)given->direction[3 * row + axis];
            lines->moment[axis][i] = (float)(given->moment[3 * row + axis] / unit);
            lines->anchor[axis][i] = (float)(given->anchor[3 * row + axis] / unit);
        }
    }
    lines->half_length = given->half_length ? lines->memory + 9 * count : NULL;
    for (int64_t i = 0; i < count && lines->half_length; i++)
        lines->half_length[i] = (float)(given->half_length[rows ? rows[i] : i] / unit);
    return 1;
}

static inline float dot3(const float *a, const float *b)
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static inline void cross3(const float *a, const float *b, float *result)
{
    result[0] = a[1] * b[2] - a[2] * b[1];
    result[1] = a[2] * b[0] - a[0] * b[2];
    result[2] = a[0] * b[1] - a[1] * b[0];
}

/* `R x`, for the rows of a matrix. */
static inline void turned3(const float *rotation, const float *x, float *result)
{
    for (int i = 0; i < 3; i++)
        result[i] = dot3(rotation + 3 * i, x);
}

/* Vector `i` of three rows of coordinates. */
static inline void vector_of(float *const *values, int64_t i, float *result)
{
    for (int axis = 0; axis < 3; axis++)
        result[axis] = values[axis][i];
}

/* The rows by falling key, equal ones in their order; `rows` and `spare` have room for `count`. Keys that are no
   numbers end up anywhere. */
static inline void sort_falling(const float *key, int64_t *rows, int64_t *spare, int64_t count)
{
    for (int64_t width = 1; width < count; width *= 2) {
        for (int64_t start = 0; start < count; start += 2 * width) {
            int64_t middle = start + width < count ? start + width : count;
            int64_t stop = start + 2 * width < count ? start + 2 * width : count;
            int64_t left = start, right = middle;
            for (int64_t k = start; k < stop; k++) {
                int takes_right = left == middle || (right < stop && key[rows[right]] > key[rows[left]]);
                spare[k] = takes_right ? rows[right++] : rows[left++];
            }
        }
        memcpy(rows, spare, sizeof(int64_t) * (size_t)count);
    }
}

/* A line under a motion, in inlier distances. */
typedef struct {
    float point[3], direction[3], half_length;
} MovedLine;

static inline MovedLine moved_line(const MapLines *lines, int64_t i, const float *rotation, const float *translation,
                                   float unit)
{
    MovedLine moved;
    float anchor[3], direction[3];
    vector_of(lines->anchor, i, anchor);
    vector_of(lines->direction, i, direction);
    turned3(rotation, anchor, moved.point);
    turned3(rotation, direction, moved.direction);
    for (int axis = 0; axis < 3; axis++)
        moved.point[axis] += translation[axis] / unit;
    moved.half_length = lines->half_length ? lines->half_length[i] : 0;
    return moved;
}

/* The numbers by which residuals of pairs of lines differ. */
typedef struct {
    float weight; /* one over the square of the inlier angle */
    float slope;
    int has_ends, directed;
} ResidualKind;

static inline ResidualKind residual_kind(const InlierThreshold *threshold, int has_ends)
{
    float weight = (float)(1 / (threshold->angle * threshold->angle));
    return (ResidualKind){weight, (float)threshold->slope, has_ends, threshold->directed != 0};
}

/* The squared residual of a moved line and line `j`, both in inlier distances: `pair_residuals` of scoring.py. */
static inline float pair_square(const MovedLine *moved, const MapLines *lines, int64_t j, ResidualKind kind)
{
    const float *p = moved->point, *d = moved->direction;
    float x = lines->anchor[0][j] - p[0], y = lines->anchor[1][j] - p[1], z = lines->anchor[2][j] - p[2];
    float ex = lines->direction[0][j], ey = lines->direction[1][j], ez = lines->direction[2][j];
    float lever = x * d[0] + y * d[1] + z * d[2], back = x * ex + y * ey + z * ez;
    float cosine = d[0] * ex + d[1] * ey + d[2] * ez;
    float across = x * x + y * y + z * z - 0.5f * lever * lever - 0.5f * back * back;
    across = across > 0 ? across : 0;
    if (kind.slope != 0)
        across /= 1 + lever * kind.slope * (lever * kind.slope);
    float square = across + kind.weight - kind.weight * cosine * cosine;
    if (kind.has_ends) {
        float gap = fabsf(lever) - (moved->half_length + lines->half_length[j]);
        gap = gap > 0 ? gap : 0;
        square += gap * gap;
    }
    return kind.directed && cosine < 0 ? INFINITY : square;
}

#endif
