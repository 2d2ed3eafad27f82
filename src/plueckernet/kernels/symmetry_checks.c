/* Which motions take the lines of a map to lines of it: `_checked`, `polished_on_maps` and `_coinciding_length` of
   estimation/symmetry.py. */
#include "symmetry.h"

#define BLOCK_LINES 32

typedef struct {
    InlierThreshold threshold;
    double min_hits; /* fraction of the checked lines that coincide with a line */
    int64_t max_compared;
    double min_trace, max_square; /* of motions that are not distinct: above the one, below the other */
} CheckLimits;

typedef struct {
    const float *rotation, *translation; /* nine and three numbers each */
    float *fit;
    int64_t *hits, *rows, *spare; /* rows of the motions that are left */
    int64_t left;
} CheckedMotions;

/* Some lines of like directions: a line whose cosine with the axis is smaller coincides with none of them. */
typedef struct {
    float axis[3], min_cosine;
} Block;

/* The lines of a map, those of like directions one after the other, in blocks. */
typedef struct {
    MapLines lines;
    int64_t *places; /* of the given lines */
    Block *blocks;
    int64_t block_count;
} SortedLines;

/* A number by which directions are sorted: the axis that is closest, then the angle from it to the next axis. */
static float direction_key(const double *direction)
{
    int axis = fabs(direction[0]) > fabs(direction[1]) ? 0 : 1;
    axis = fabs(direction[axis]) > fabs(direction[2]) ? axis : 2;
    return (float)(3 * axis + direction[(axis + 1) % 3] / direction[axis]);
}

static Block block_of(const MapLines *lines, int64_t start, int64_t stop, const InlierThreshold *threshold)
{
    Block block = {{0, 0, 0}, 1};
    float first[3], direction[3];
    vector_of(lines->direction, start, first);
    for (int64_t i = start; i < stop; i++) {
        vector_of(lines->direction, i, direction);
        for (int axis = 0; axis < 3; axis++)
            block.axis[axis] += dot3(first, direction) < 0 ? -direction[axis] : direction[axis];
    }
    float length = sqrtf(dot3(block.axis, block.axis));
    for (int axis = 0; axis < 3; axis++)
        block.axis[axis] /= length;
    for (int64_t i = start; i < stop; i++) {
        vector_of(lines->direction, i, direction);
        float cosine = fabsf(dot3(block.axis, direction));
        block.min_cosine = cosine < block.min_cosine ? cosine : block.min_cosine;
    }
    /* A pair whose angle has a sine of the inlier angle or more does not coincide. */
    double widest = threshold->angle < 1 ? acos(block.min_cosine) + asin(threshold->angle) + 1e-3 : INFINITY;
    block.min_cosine = widest < acos(0) ? (float)cos(widest) : -1;
    return block;
}

static void free_sorted(SortedLines *sorted)
{
    free(sorted->lines.memory);
    free(sorted->places);
    free(sorted->blocks);
}

/* Returns 0 without memory. */
static int sort_lines(SortedLines *sorted, const GivenLines *given, const InlierThreshold *threshold)
{
    size_t n = (size_t)(given->count > 0 ? given->count : 1);
    int64_t *rows = malloc(2 * n * sizeof(int64_t));
    float *keys = malloc(n * sizeof(float));
    sorted->block_count = (given->count + BLOCK_LINES - 1) / BLOCK_LINES;
    sorted->places = malloc(n * sizeof(int64_t));
    sorted->blocks = malloc(((size_t)sorted->block_count + 1) * sizeof(Block));
    sorted->lines.memory = NULL;
    int ready = rows && keys && sorted->places && sorted->blocks;
    for (int64_t i = 0; i < given->count && ready; i++) {
        rows[i] = i;
        keys[i] = direction_key(given->direction + 3 * i);
    }
    if (ready)
        sort_falling(keys, rows, rows + n, given->count);
    ready = ready && load_lines(&sorted->lines, given, rows, given->count, threshold->distance);
    for (int64_t i = 0; i < given->count && ready; i++)
        sorted->places[rows[i]] = i;
    for (int64_t b = 0; b < sorted->block_count && ready; b++) {
        int64_t start = b * BLOCK_LINES, stop = start + BLOCK_LINES;
        sorted->blocks[b] = block_of(&sorted->lines, start, stop < given->count ? stop : given->count, threshold);
    }
    free(rows);
    free(keys);
    return ready;
}

/* Lower the least squared residuals to those of `count` lines from `start` on. */
static inline __attribute__((always_inline)) void keep_least(const MovedLine *moved, const MapLines *lines,
                                                              int64_t start, int count, ResidualKind kind,
                                                              float least[BLOCK_LINES])
{
#pragma omp simd
    for (int j = 0; j < count; j++) {
        float square = pair_square(moved, lines, start + j, kind);
        least[j] = square < least[j] ? square : least[j];
    }
}

/* The squared residual of a moved line and its best partner; anything above one if it has none. */
static inline float smallest_square(const MovedLine *moved, const SortedLines *sorted, ResidualKind kind)
{
    const MapLines *lines = &sorted->lines;
    float least[BLOCK_LINES], best = INFINITY;
    for (int j = 0; j < BLOCK_LINES; j++)
        least[j] = INFINITY;
    for (int64_t b = 0; b < sorted->block_count; b++) {
        if (fabsf(dot3(sorted->blocks[b].axis, moved->direction)) < sorted->blocks[b].min_cosine)
            continue;
        int64_t start = b * BLOCK_LINES, rest = lines->count - start;
        if (rest >= BLOCK_LINES)
            keep_least(moved, lines, start, BLOCK_LINES, kind, least);
        else
            keep_least(moved, lines, start, (int)rest, kind, least);
    }
#pragma omp simd reduction(min : best)
    for (int j = 0; j < BLOCK_LINES; j++)
        best = least[j] < best ? least[j] : best;
    return best;
}

/* The same; a loop for each common kind of residuals, without the branches of the others. */
static float misfit(const MovedLine *moved, const SortedLines *lines, ResidualKind kind)
{
    if (kind.directed || kind.slope != 0)
        return smallest_square(moved, lines, kind);
    ResidualKind usual = {kind.weight, 0, 0, 0};
    if (!kind.has_ends)
        return smallest_square(moved, lines, usual);
    usual.has_ends = 1;
    return smallest_square(moved, lines, usual);
}

/* Add the fits of some lines, rows `from` to `to` of `order`, to those of the motions; drop motions that cannot reach
   the least number of hits any more. */
static void check_lines(const SortedLines *lines, const int64_t *order, int64_t from, int64_t to,
                        const CheckLimits *limits, ResidualKind kind, CheckedMotions *motions)
{
    float least = (float)(limits->min_hits * (double)to);
    int64_t kept = 0;
    for (int64_t k = 0; k < motions->left; k++) {
        int64_t row = motions->rows[k], hits = motions->hits[row];
        float fit = motions->fit[row];
        for (int64_t i = from; i < to && (float)(hits + to - i) >= least; i++) {
            MovedLine moved = moved_line(&lines->lines, lines->places[order[i]], motions->rotation + 9 * row,
                                         motions->translation + 3 * row, (float)limits->threshold.distance);
            float value = 1 - misfit(&moved, lines, kind);
            if (value > 0) {
                fit += value;
                hits++;
            }
        }
        if ((float)hits < least)
            continue;
        motions->fit[row] = fit;
        motions->hits[row] = hits;
        motions->rows[kept++] = row;
    }
    motions->left = kept;
}

static int are_close(const CheckedMotions *motions, int64_t a, int64_t b, const CheckLimits *limits)
{
    const float *r = motions->rotation + 9 * a, *s = motions->rotation + 9 * b;
    const float *t = motions->translation + 3 * a, *u = motions->translation + 3 * b;
    float offset[3] = {t[0] - u[0], t[1] - u[1], t[2] - u[2]}, trace = 0;
    if (!(dot3(offset, offset) < (float)limits->max_square))
        return 0;
    for (int i = 0; i < 9; i++)
        trace += r[i] * s[i];
    return trace > (float)limits->min_trace;
}

/* Keep the motions that fit best and are distinct from all better ones, at most `count`. */
static void keep_distinct(CheckedMotions *motions, int64_t count, const CheckLimits *limits)
{
    int64_t *rows = motions->rows, kept = 0;
    sort_falling(motions->fit, rows, motions->spare, motions->left);
    int64_t compared = motions->left < limits->max_compared ? motions->left : limits->max_compared;
    for (int64_t k = 0; k < compared && kept < count; k++) {
        int close = !(motions->fit[rows[k]] > 0);
        for (int64_t other = 0; other < kept && !close; other++)
            close = are_close(motions, rows[k], rows[other], limits);
        if (!close)
            rows[kept++] = rows[k];
    }
    motions->left = kept;
}

/* `checks` are `steps` pairs: how many of the first lines of `order` are checked, and how many motions remain. */
static void run_checks(const SortedLines *sorted, const int64_t *order, const CheckLimits *limits, const int64_t *checks,
                       int64_t steps, CheckedMotions *motions)
{
    const MapLines *lines = &sorted->lines;
    ResidualKind kind = residual_kind(&limits->threshold, lines->half_length != NULL);
    if (!kind.has_ends)
        kind.slope = 0;
    int64_t start = 0, last = 0;
    for (int64_t step = 0; step < steps; step++)
        last = checks[2 * step] > last ? checks[2 * step] : last;
    last = last < lines->count ? last : lines->count;
    for (int64_t step = 0; step < steps && start < last && motions->left; step++) {
        int64_t stop = checks[2 * step] < last ? checks[2 * step] : last;
        check_lines(sorted, order, start, stop, limits, kind, motions);
        if (motions->left > checks[2 * step + 1] || stop == last)
            keep_distinct(motions, checks[2 * step + 1], limits);
        start = stop;
    }
}

/* Rows of distinct motions under which most of the first lines of `order` coincide with lines; returns how many were
   written to `rows`, which has room for all motions, or -1 without memory. Segments are those that coincide, such as
   the middle halves. */
KERNEL int64_t symmetry_checked(const GivenLines *given, const int64_t *order, int64_t count, const float *rotation,
                                const float *translation, const CheckLimits *limits, const int64_t *checks,
                                int64_t steps, int64_t *rows)
{
    SortedLines lines;
    size_t size = (size_t)(count > 0 ? count : 1);
    float *fit = calloc(size, sizeof(float));
    int64_t *numbers = calloc(2 * size, sizeof(int64_t)), left = -1;
    if (sort_lines(&lines, given, &limits->threshold) && fit && numbers) {
        CheckedMotions motions = {rotation, translation, fit, numbers, rows, numbers + size, count};
        for (int64_t row = 0; row < count; row++)
            rows[row] = row;
        run_checks(&lines, order, limits, checks, steps, &motions);
        left = motions.left;
    }
    free_sorted(&lines);
    free(fit);
    free(numbers);
    return left;
}

/* Rows of `source` and `target` that are closest to each other under a motion and coincide; returns how many were
   written to `rows` and `columns`, or -1 without memory. */
static int64_t pair_mutually(const MapLines *source, const MapLines *target, const float *rotation,
                             const float *translation, const InlierThreshold *threshold, int64_t *rows,
                             int64_t *columns)
{
    ResidualKind kind = residual_kind(threshold, source->half_length && target->half_length);
    size_t n = (size_t)(target->count > 0 ? target->count : 1);
    float *squares = malloc(2 * n * sizeof(float)), *least = squares + n;
    int32_t *closest = malloc(n * sizeof(int32_t));
    int64_t found = 0;
    for (int64_t j = 0; j < target->count && squares && closest; j++) {
        least[j] = INFINITY;
        closest[j] = -1;
    }
    for (int64_t i = 0; i < source->count && squares && closest; i++) {
        MovedLine moved = moved_line(source, i, rotation, translation, (float)threshold->distance);
        float best = 1; /* only pairs within the threshold count */
        int64_t column = -1;
#pragma omp simd
        for (int64_t j = 0; j < target->count; j++) {
            squares[j] = pair_square(&moved, target, j, kind);
            closest[j] = squares[j] < least[j] ? (int32_t)i : closest[j];
            least[j] = squares[j] < least[j] ? squares[j] : least[j];
        }
        for (int64_t j = 0; j < target->count; j++) {
            if (squares[j] < best) {
                best = squares[j];
                column = j;
            }
        }
        rows[i] = column;
    }
    for (int64_t i = 0; i < source->count && squares && closest; i++) {
        int64_t column = rows[i];
        if (column < 0 || closest[column] != i)
            continue;
        rows[found] = i;
        columns[found++] = column;
    }
    int complete = squares && closest;
    free(squares);
    free(closest);
    return complete ? found : -1;
}

/* The same for lines as Python has them. */
KERNEL int64_t symmetry_mutual_pairs(const GivenLines *first, const GivenLines *second, const float *rotation,
                                     const float *translation, const InlierThreshold *threshold, int64_t *rows,
                                     int64_t *columns)
{
    MapLines source, target;
    int64_t found = -1;
    if (!load_lines(&source, first, NULL, first->count, threshold->distance))
        return -1;
    if (load_lines(&target, second, NULL, second->count, threshold->distance)) {
        found = pair_mutually(&source, &target, rotation, translation, threshold, rows, columns);
        free(target.memory);
    }
    free(source.memory);
    return found;
}

/* The length of a moved segment that coincides with segments, not more than its own; in inlier distances. */
static float common_length(const MovedLine *moved, const MapLines *lines, ResidualKind kind)
{
    const float *p = moved->point;
    float sum = 0, own = moved->half_length;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < lines->count; j++) {
        float x = p[0] - lines->anchor[0][j], y = p[1] - lines->anchor[1][j], z = p[2] - lines->anchor[2][j];
        float along = x * lines->direction[0][j] + y * lines->direction[1][j] + z * lines->direction[2][j];
        float other = lines->half_length[j], longest = 2 * (own < other ? own : other);
        float common = own + other - fabsf(along);
        common = common < longest ? common : longest;
        sum += common > 0 && pair_square(moved, lines, j, kind) < 1 ? common : 0;
    }
    return sum < 2 * own ? sum : 2 * own;
}

/* The fraction of the total length of segments that coincides with segments after each motion; returns 0 without
   memory. */
KERNEL int64_t symmetry_coinciding_length(const GivenLines *given, int64_t count, const float *rotation,
                                          const float *translation, const InlierThreshold *threshold, float *fractions)
{
    MapLines lines;
    if (!given->half_length || !load_lines(&lines, given, NULL, given->count, threshold->distance))
        return 0;
    ResidualKind kind = residual_kind(threshold, 1);
    float total = 0;
    for (int64_t i = 0; i < lines.count; i++)
        total += 2 * lines.half_length[i];
    for (int64_t h = 0; h < count; h++) {
        float sum = 0;
        for (int64_t i = 0; i < lines.count; i++) {
            MovedLine moved = moved_line(&lines, i, rotation + 9 * h, translation + 3 * h, (float)threshold->distance);
            sum += common_length(&moved, &lines, kind);
        }
        fractions[h] = sum / total;
    }
    free(lines.memory);
    return 1;
}
