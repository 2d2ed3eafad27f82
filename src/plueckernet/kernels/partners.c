/* The best partner of each line under poses, among all lines of another map: estimation/partners.py. */
#include "line_columns.h"

/* The first place of a value; 0 if there is nothing but NaN. */
static int64_t place_of(float value, const float *values, int32_t count)
{
    int32_t place = count;
#pragma omp simd reduction(min : place)
    for (int32_t j = 0; j < count; j++) {
        int32_t candidate = values[j] == value ? j : count;
        place = candidate < place ? candidate : place;
    }
    return place < count ? place : 0;
}

/* Keep the smaller of the squares of this row and of those before it, and whose they are. */
static void keep_smaller(const float *square, int64_t count, int32_t row, float *best, int32_t *nearest)
{
#pragma omp simd
    for (int64_t j = 0; j < count; j++) {
        int better = square[j] < best[j];
        best[j] = better ? square[j] : best[j];
        nearest[j] = better ? row : nearest[j];
    }
}

typedef struct {
    int64_t count;
    const float *anchor, *direction, *half_length; /* the last is NULL for infinite lines */
} Lines;

/* Of one pose; `square`, `other_best` and `other_nearest` are scratch of as many numbers as there are columns. */
static void pose_partners(const float *rotation, const float *translation, Lines source, const LineColumns *columns,
                          int64_t column_count, const Threshold *threshold, int segments, float *best,
                          int64_t *nearest, float *square, float *other_best, int32_t *other_nearest)
{
    for (int64_t i = 0; i < source.count; i++) {
        float half = source.half_length ? source.half_length[i] : 0;
        MovedLine line = moved_line(rotation, translation, source.anchor + 3 * i, source.direction + 3 * i, half,
                                    1 / threshold->distance);
        residual_row(&line, columns, 0, column_count, threshold, segments, square);
        best[i] = smallest(square, columns->padded);
        if (nearest)
            nearest[i] = place_of(best[i], square, (int32_t)column_count);
        if (other_nearest)
            keep_smaller(square, columns->padded, (int32_t)i, other_best, other_nearest);
    }
}

/* Squared residuals of the best partner of every source line under every pose, `best`, and of every target line,
   `other_best`, and the rows of these partners, `nearest` and `other_nearest`. All but `best` may be NULL, the last two
   are there together. Returns 0, or 1 if there was no memory. */
KERNEL int best_partners(int64_t poses, const float *rotation, const float *translation, int64_t rows,
                         const float *anchor, const float *direction, const float *half_length, int64_t columns,
                         const float *other_anchor, const float *other_direction, const float *other_half_length,
                         float distance, float angle, float slope, int directed, float *best, int64_t *nearest,
                         float *other_best, int64_t *other_nearest)
{
    Threshold threshold = {distance, angle, slope, directed};
    int64_t padded = padded_count(columns);
    float *memory = malloc(sizeof(float) * (size_t)(padded * (COLUMN_FIELDS + 3) + 1));
    if (!memory)
        return 1;
    LineColumns table = columns_in(memory, padded);
    set_columns(&table, columns, other_anchor, other_direction, other_half_length, 1 / distance);
    float *square = memory + COLUMN_FIELDS * padded, *column_best = square + padded;
    int32_t *column_nearest = (int32_t *)(column_best + padded);
    Lines source = {rows, anchor, direction, half_length};
    for (int64_t h = 0; h < poses; h++) {
        for (int64_t j = 0; j < padded; j++)
            column_best[j] = INFINITY, column_nearest[j] = 0;
        pose_partners(rotation + 9 * h, translation + 3 * h, source, &table, columns, &threshold,
                      half_length && other_half_length, best + rows * h, nearest ? nearest + rows * h : NULL, square,
                      column_best, other_nearest ? column_nearest : NULL);
        for (int64_t j = 0; other_nearest && j < columns; j++)
            other_best[columns * h + j] = column_best[j], other_nearest[columns * h + j] = column_nearest[j];
    }
    free(memory);
    return 0;
}

/* Lines of a map in double precision; infinite lines have no half lengths. */
typedef struct {
    int64_t count;
    const double *anchor, *direction, *half_length;
} PreciseLines;

/* The squared residual of two lines without cancellation: row_squares() of estimation/scoring.py. */
static double row_square(const PreciseLines *lines, int64_t i, int64_t j, double distance, double angle)
{
    const double *d = lines->direction + 3 * i, *e = lines->direction + 3 * j;
    double lever = 0, back = 0, square = 0, turn = 0;
    for (int k = 0; k < 3; k++) {
        double offset = (lines->anchor[3 * j + k] - lines->anchor[3 * i + k]) / distance;
        double cross = d[(k + 1) % 3] * e[(k + 2) % 3] - d[(k + 2) % 3] * e[(k + 1) % 3];
        lever += offset * d[k];
        back += offset * e[k];
        square += offset * offset;
        turn += cross * cross;
    }
    square -= 0.5 * lever * lever + 0.5 * back * back;
    square = square < 0 ? 0 : square; /* NaN stays */
    if (lines->half_length) {
        double gap = fabs(lever) - (lines->half_length[i] + lines->half_length[j]) / distance;
        square += gap > 0 ? gap * gap : 0;
    }
    return square + turn / (angle * angle);
}

static int compare_doubles(const void *first, const void *second)
{
    double a = *(const double *)first, b = *(const double *)second;
    return (a > b) - (a < b);
}

/* The median, the smaller of two, which is NaN if a value is; the values change their order. */
static double median_of(double *values, int64_t count)
{
    for (int64_t k = 0; k < count; k++)
        if (isnan(values[k]))
            return values[k];
    qsort(values, (size_t)count, sizeof(double), compare_doubles);
    return count > 0 ? values[(count - 1) / 2] : NAN;
}

/* The row of the line nearest to each of some lines of a map, other than itself. Returns 0, or 1 if there was no
   memory. */
static int nearest_others(int64_t count, const float *anchor, const float *direction, const float *half_length,
                          int64_t row_count, const int64_t *rows, float distance, float angle, int64_t *nearest)
{
    static const float turn[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, shift[3] = {0, 0, 0};
    Threshold threshold = {distance, angle, 0, 0};
    int64_t padded = padded_count(count);
    float *memory = malloc(sizeof(float) * (size_t)(padded * (COLUMN_FIELDS + 1) + 1));
    if (!memory)
        return 1;
    LineColumns table = columns_in(memory, padded);
    float *square = memory + COLUMN_FIELDS * padded;
    set_columns(&table, count, anchor, direction, half_length, 1 / distance);
    for (int64_t k = 0; k < row_count; k++) {
        int64_t i = rows[k];
        float half = half_length ? half_length[i] : 0;
        MovedLine line = moved_line(turn, shift, anchor + 3 * i, direction + 3 * i, half, 1 / distance);
        residual_row(&line, &table, 0, count, &threshold, half_length != NULL, square);
        square[i] = INFINITY;
        nearest[k] = place_of(smallest(square, padded), square, (int32_t)count);
    }
    free(memory);
    return 0;
}

/* Lines in single precision in `memory`, which has room for seven numbers a line. */
static Lines in_single_precision(const PreciseLines *lines, float *memory)
{
    int64_t count = lines->count;
    for (int64_t i = 0; i < 3 * count; i++) {
        memory[i] = (float)lines->anchor[i];
        memory[3 * count + i] = (float)lines->direction[i];
    }
    for (int64_t i = 0; i < count && lines->half_length; i++)
        memory[6 * count + i] = (float)lines->half_length[i];
    return (Lines){count, memory, memory + 3 * count, lines->half_length ? memory + 6 * count : NULL};
}

/* The median residual of `sampled` lines, spread evenly, and of the line nearest to each; NaN without memory. */
KERNEL double line_spacing(int64_t count, const double *anchor, const double *direction, const double *half_length,
                           int64_t sampled, double distance, double angle)
{
    PreciseLines lines = {count, anchor, direction, half_length};
    float *memory = malloc(sizeof(float) * (size_t)(7 * count + 1));
    int64_t *rows = malloc(sizeof(int64_t) * (size_t)(2 * sampled + 1)), *nearest = rows + sampled;
    double *squares = malloc(sizeof(double) * (size_t)(sampled + 1)), spacing = NAN;
    if (memory && rows && squares) {
        Lines single = in_single_precision(&lines, memory);
        for (int64_t k = 0; k < sampled; k++)
            rows[k] = k * count / sampled;
        if (!nearest_others(count, single.anchor, single.direction, single.half_length, sampled, rows, (float)distance,
                            (float)angle, nearest)) {
            for (int64_t k = 0; k < sampled; k++)
                squares[k] = row_square(&lines, rows[k], nearest[k], distance, angle);
            spacing = sqrt(median_of(squares, sampled));
        }
    }
    free(memory);
    free(rows);
    free(squares);
    return spacing;
}
