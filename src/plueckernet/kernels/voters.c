/* The lines that vote for translations, and the pairs of them that move these: estimation/direction_search.py. */
#include "direction_index.h"

/* The first lines, at most `max_count`, that are close to none before them; returns how many rows were written to
   `heads`, or -1 if there was no memory. Half lengths are NULL for infinite lines. */
KERNEL int64_t bundle_heads(int64_t count, const float *anchor, const float *direction, const float *half_length,
                            float distance, float angle, int64_t max_count, int64_t *heads)
{
    static const float turn[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, shift[3] = {0, 0, 0};
    Threshold threshold = {distance, angle, 0, 0};
    int64_t padded = padded_count(count), kept = 0;
    float *memory = malloc(sizeof(float) * (size_t)(padded * (COLUMN_FIELDS + 1) + 1));
    if (!memory)
        return -1;
    LineColumns table = columns_in(memory, padded);
    float *square = memory + COLUMN_FIELDS * padded;
    set_columns(&table, count, anchor, direction, half_length, 1 / distance);
    for (int64_t i = 0; i < count && kept < max_count; i++) {
        float half = half_length ? half_length[i] : 0;
        MovedLine line = moved_line(turn, shift, anchor + 3 * i, direction + 3 * i, half, 1 / distance);
        residual_row(&line, &table, 0, i, &threshold, half_length != NULL, square);
        if (!(smallest(square, padded_count(i)) < 1))
            heads[kept++] = i;
    }
    free(memory);
    return kept;
}

/* A target line, the part of the offset to it that is across it, and the weight of the pair. */
typedef struct {
    float direction[3], offset[3], weight;
} Pair;

typedef struct {
    int64_t count;
    const float *anchor, *direction, *half_length; /* the last is NULL for infinite lines */
} Lines;

static inline float dot(const float *a, const float *b)
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static inline float half_of(const Lines *lines, int64_t i)
{
    return lines->half_length ? lines->half_length[i] : 1;
}

static void set_pair(Pair *pair, const float *rotation, const Lines *source, int64_t i, const Lines *target, int64_t j)
{
    const float *anchor = source->anchor + 3 * i, *other = target->anchor + 3 * j, *d = target->direction + 3 * j;
    float half = half_of(source, i), other_half = half_of(target, j), offset[3];
    for (int k = 0; k < 3; k++)
        offset[k] = other[k] - dot(rotation + 3 * k, anchor);
    float along = dot(offset, d);
    for (int k = 0; k < 3; k++)
        pair->direction[k] = d[k], pair->offset[k] = offset[k] - along * d[k];
    pair->weight = sqrtf(half < other_half ? half : other_half);
}

/* The pairs that are close under a pose; returns their number. */
static int64_t close_pairs_of(const float *rotation, const float *translation, const Lines *source, const Lines *target,
                              const DirectionIndex *index, const Threshold *threshold, float *square, Pair *pairs)
{
    int segments = source->half_length && target->half_length;
    int64_t count = 0;
    for (int64_t i = 0; i < source->count; i++) {
        MovedLine line = moved_line(rotation, translation, source->anchor + 3 * i, source->direction + 3 * i,
                                    half_of(source, i), 1 / threshold->distance);
        int patch = direction_patch(line.dx, line.dy, line.dz, index->patches);
        int64_t first = index->start[patch], used = index->used[patch];
        residual_row(&line, &index->columns, first, used, threshold, segments, square);
        if (!(smallest(square, padded_count(used)) < 1))
            continue;
        for (int64_t j = 0; j < used; j++)
            if (square[j] < 1)
                set_pair(pairs + count++, rotation, source, i, target, index->rows[first + j]);
    }
    return count;
}

/* Solves a positive definite system of three equations by Cholesky's factors without roots. */
static void solve(double m[3][3], const double right[3], double x[3])
{
    double a = m[0][1] / m[0][0], b = m[0][2] / m[0][0];
    double d = m[1][1] - a * m[0][1], c = (m[1][2] - a * m[0][2]) / d;
    double e = m[2][2] - b * m[0][2] - c * c * d;
    double second = right[1] - a * right[0];
    x[2] = (right[2] - b * right[0] - c * second) / e;
    x[1] = second / d - c * x[2];
    x[0] = right[0] / m[0][0] - a * x[1] - b * x[2];
}

/* One step of the translation to the damped least-squares solution of pairs, weighted by their distance. */
static void step_to_pairs(int64_t count, const Pair *pairs, float width, float damping, float *translation)
{
    double normal[3][3] = {{damping, 0, 0}, {0, damping, 0}, {0, 0, damping}}, right[3] = {0, 0, 0}, step[3];
    float factor = -0.5f / (width * width);
    for (int64_t p = 0; p < count; p++) {
        const Pair *pair = pairs + p;
        const float *d = pair->direction;
        float along = dot(translation, d), residual[3];
        for (int k = 0; k < 3; k++)
            residual[k] = pair->offset[k] - (translation[k] - along * d[k]);
        float weight = pair->weight * expf(factor * dot(residual, residual));
        for (int k = 0; k < 3; k++) {
            right[k] += weight * residual[k];
            normal[k][k] += weight;
            for (int l = k; l < 3; l++)
                normal[k][l] -= weight * d[k] * d[l];
        }
    }
    solve(normal, right, step);
    for (int k = 0; k < 3; k++)
        translation[k] += (float)step[k];
}

/* Translations of poses move to the pairs that are close, in steps with kernels of given widths. Returns 0, or 1 if
   there was no memory. */
KERNEL int move_to_pairs(int64_t poses, const float *rotation, float *translation, int64_t rows, const float *anchor,
                         const float *direction, const float *half_length, int64_t columns, const float *other_anchor,
                         const float *other_direction, const float *other_half_length, float distance, float angle,
                         int64_t steps, const float *widths, float damping)
{
    Lines source = {rows, anchor, direction, half_length};
    Lines target = {columns, other_anchor, other_direction, other_half_length};
    Threshold threshold = {distance, angle, 0, 0};
    DirectionIndex index;
    int failed = direction_index_build(&index, columns, other_anchor, other_direction, other_half_length, &threshold);
    float *square = malloc(sizeof(float) * (size_t)(padded_count(columns) + 1));
    Pair *pairs = malloc(sizeof(Pair) * (size_t)(rows * columns + 1));
    failed = failed || !square || !pairs;
    for (int64_t h = 0; h < poses && !failed; h++) {
        float *moved = translation + 3 * h;
        int64_t count = close_pairs_of(rotation + 9 * h, moved, &source, &target, &index, &threshold, square, pairs);
        for (int64_t s = 0; s < steps; s++)
            step_to_pairs(count, pairs, widths[s], damping, moved);
    }
    direction_index_free(&index);
    free(square);
    free(pairs);
    return failed;
}
