/* Which lines are close under a pose: estimation/close_pairs.py. */
#include "close_pairs.h"

#define BLOCK 256   /* pairs compared at once */
#define CLASSES 8   /* of segments by their length, each twice as long as the next */
#define MAX_SIDE 64 /* cells of the grid along each of its two axes */

/* Lines of a map, three numbers a line; `half_length` is NULL for infinite lines. */
struct map_lines {
    int64_t count;
    const double *direction, *anchor, *half_length;
};

struct vector {
    double x, y, z;
};

static inline double dot(struct vector a, struct vector b)
{
    return a.x * b.x + a.y * b.y + a.z * b.z;
}

static inline struct vector turned(const struct pose *pose, struct vector v)
{
    const double *r = pose->rotation;
    struct vector result = {r[0] * v.x + r[1] * v.y + r[2] * v.z, r[3] * v.x + r[4] * v.y + r[5] * v.z,
                            r[6] * v.x + r[7] * v.y + r[8] * v.z};
    return result;
}

static inline struct vector moved(const struct pose *pose, struct vector point)
{
    struct vector v = turned(pose, point);
    struct vector result = {v.x + pose->translation[0], v.y + pose->translation[1], v.z + pose->translation[2]};
    return result;
}

/* What a pair is compared with: one over the distance and over the squared angle, and the least cosine. */
struct test {
    double unit, bend, slope, min_cosine;
};

static struct test test_of(const struct limits *limits)
{
    struct test test = {1 / limits->distance, 1 / (limits->angle * limits->angle), limits->slope,
                        limits->directed ? 0.0 : -INFINITY};
    return test;
}

/* Positive for a moved line (direction d, anchor p) and a line (e, q) within the limits: the residual of
   `scoring.pair_residuals`, multiplied by its growth with the lever, so that nothing is divided. `half` is that of
   both segments in sum, infinite for infinite lines. Not a number is not close. */
static inline double margin(struct vector d, struct vector p, struct vector e, struct vector q, double half,
                            struct test test)
{
    struct vector offset = {(q.x - p.x) * test.unit, (q.y - p.y) * test.unit, (q.z - p.z) * test.unit};
    double lever = dot(offset, d), back = dot(offset, e), cosine = dot(d, e);
    double square = dot(offset, offset) - 0.5 * (lever * lever + back * back);
    double gap = fabs(lever) - half * test.unit, growth = lever * test.slope;
    gap = gap > 0 ? gap : 0;
    square = square > 0 ? square : 0;
    double room = (1 - gap * gap - (1 - cosine * cosine) * test.bend) * (1 + growth * growth) - square;
    return cosine >= test.min_cosine ? room : -1.0;
}

/* Target lines by cells of a grid in the plane of the two longest axes, class by class; eight rows of numbers each:
   direction, anchor, half length. Infinite lines are in one cell. */
struct grid {
    int64_t count, side;
    int axis[2];
    double low[2], cell[2], longest[CLASSES];
    double *rows[7];
    int64_t *index, *start;
};

static int64_t clamped(double value, int64_t count)
{
    return value >= count ? count - 1 : value > 0 ? (int64_t)value : 0;
}

static int length_class(double half_length, double longest)
{
    int class = 0;
    for (double limit = longest / 2; class < CLASSES - 1 && half_length <= limit; limit /= 2)
        class++;
    return class;
}

static int64_t cell_of(const struct grid *grid, const struct map_lines *lines, int64_t line)
{
    if (grid->side == 1)
        return 0;
    int64_t cell = length_class(lines->half_length[line], grid->longest[0]);
    for (int i = 0; i < 2; i++)
        cell = cell * grid->side +
               clamped((lines->anchor[3 * line + grid->axis[i]] - grid->low[i]) / grid->cell[i], grid->side);
    return cell;
}

/* The two longest axes of the anchors, and cells that cover them. */
static void lay_out(struct grid *grid, const struct map_lines *lines)
{
    double low[3] = {INFINITY, INFINITY, INFINITY}, high[3] = {-INFINITY, -INFINITY, -INFINITY};
    for (int64_t i = 0; i < lines->count; i++)
        for (int k = 0; k < 3; k++) {
            double place = lines->anchor[3 * i + k];
            low[k] = place < low[k] ? place : low[k];
            high[k] = place > high[k] ? place : high[k];
        }
    int shortest = 0;
    for (int k = 1; k < 3; k++)
        shortest = high[k] - low[k] < high[shortest] - low[shortest] ? k : shortest;
    for (int i = 0; i < 2; i++) {
        int axis = grid->axis[i] = (shortest + 1 + i) % 3;
        double extent = high[axis] - low[axis];
        grid->low[i] = low[axis];
        grid->cell[i] = extent > 1e-9 ? extent / grid->side : 1.0;
    }
}

static void measure_classes(struct grid *grid, const struct map_lines *lines)
{
    double longest = 0;
    for (int64_t i = 0; lines->half_length && i < lines->count; i++)
        longest = lines->half_length[i] > longest ? lines->half_length[i] : longest;
    for (int class = 0; class < CLASSES; class++, longest /= 2)
        grid->longest[class] = longest;
}

static int64_t cell_count(const struct grid *grid)
{
    return grid->side == 1 ? 1 : CLASSES * grid->side * grid->side;
}

static void release(struct grid *grid)
{
    free(grid->rows[0]);
    free(grid->index);
}

/* Sorts the lines by their cells; false without memory. */
static int fill(struct grid *grid, const struct map_lines *lines)
{
    int64_t count = lines->count, cells = cell_count(grid);
    grid->count = count;
    grid->rows[0] = malloc((7 * count + 1) * sizeof(double));
    grid->index = calloc(2 * count + cells + 2, sizeof(int64_t));
    if (!grid->rows[0] || !grid->index) {
        release(grid);
        return 0;
    }
    for (int i = 1; i < 7; i++)
        grid->rows[i] = grid->rows[0] + i * count;
    int64_t *cell = grid->index + count;
    grid->start = cell + count;
    for (int64_t i = 0; i < count; i++)
        grid->start[(cell[i] = cell_of(grid, lines, i)) + 2]++;
    for (int64_t i = 2; i <= cells + 1; i++)
        grid->start[i] += grid->start[i - 1];
    for (int64_t i = 0; i < count; i++) {
        int64_t place = grid->start[cell[i] + 1]++;
        grid->index[place] = i;
        for (int k = 0; k < 3; k++) {
            grid->rows[k][place] = lines->direction[3 * i + k];
            grid->rows[3 + k][place] = lines->anchor[3 * i + k];
        }
        grid->rows[6][place] = lines->half_length ? lines->half_length[i] : INFINITY;
    }
    return 1;
}

struct found {
    int64_t count, capacity, *rows; /* all are counted, as many as there is room for are written */
};

/* A moved source line. */
struct probe {
    struct vector direction, anchor;
    double half_length;
    int64_t row;
};

/* One moved line with the lines `from` to `to` of the grid. */
static void compare(const struct grid *grid, const struct probe *probe, struct test test, int64_t from, int64_t to,
                    struct found *found)
{
    double room[BLOCK], half = probe->half_length;
    const struct vector d = probe->direction, p = probe->anchor;
    for (; from < to; from += BLOCK) {
        int64_t count = to - from < BLOCK ? to - from : BLOCK;
        const double *dx = grid->rows[0] + from, *dy = grid->rows[1] + from, *dz = grid->rows[2] + from;
        const double *x = grid->rows[3] + from, *y = grid->rows[4] + from, *z = grid->rows[5] + from;
        const double *other_half = grid->rows[6] + from;
#pragma omp simd
        for (int64_t i = 0; i < count; i++) {
            struct vector e = {dx[i], dy[i], dz[i]}, q = {x[i], y[i], z[i]};
            room[i] = margin(d, p, e, q, half + other_half[i], test);
        }
        for (int64_t i = 0; i < count; i++)
            if (room[i] > 0) {
                if (found->count < found->capacity) {
                    found->rows[2 * found->count] = probe->row;
                    found->rows[2 * found->count + 1] = grid->index[from + i];
                }
                found->count++;
            }
    }
}

/* One moved segment with the cells that it can reach, class by class. */
static void compare_near(const struct grid *grid, const struct probe *probe, const struct limits *limits,
                         struct found *found)
{
    double place[3] = {probe->anchor.x, probe->anchor.y, probe->anchor.z};
    double slant[3] = {fabs(probe->direction.x), fabs(probe->direction.y), fabs(probe->direction.z)};
    for (int class = 0; class < CLASSES; class++) {
        /* The lever of a close pair is at most `along`; both distances across grow with it, and are averaged. */
        double along = probe->half_length + grid->longest[class] + limits->distance;
        double across = 1.5 * (limits->distance + limits->slope * along);
        int64_t bounds[2][2];
        for (int i = 0; i < 2; i++) {
            double from_low = place[grid->axis[i]] - grid->low[i], reach = slant[grid->axis[i]] * along + across;
            bounds[i][0] = clamped((from_low - reach) / grid->cell[i], grid->side);
            bounds[i][1] = clamped((from_low + reach) / grid->cell[i], grid->side);
        }
        for (int64_t row = bounds[0][0]; row <= bounds[0][1]; row++) {
            const int64_t *start = grid->start + (class * grid->side + row) * grid->side;
            compare(grid, probe, test_of(limits), start[bounds[1][0]], start[bounds[1][1] + 1], found);
        }
    }
}

/* The rows written from `from` on, which have the same source, by the target. They are few. */
static void sort_targets(struct found *found, int64_t from)
{
    int64_t end = found->count < found->capacity ? found->count : found->capacity;
    for (int64_t i = from + 1; i < end; i++) {
        int64_t target = found->rows[2 * i + 1], k = i;
        for (; k > from && found->rows[2 * k - 1] > target; k--)
            found->rows[2 * k + 1] = found->rows[2 * k - 1];
        found->rows[2 * k + 1] = target;
    }
}

/* Rows (source, target) of all pairs within the limits, in this order. Returns how many there are; only `capacity` are
   written. Returns -1 without memory. */
KERNEL int64_t close_pairs(const struct pose *pose, const struct map_lines *source, const struct map_lines *target,
                           const struct limits *limits, int64_t capacity, int64_t *rows)
{
    struct grid grid = {0};
    struct found found = {0, capacity, rows};
    int segments = source->half_length && target->half_length;
    struct map_lines lines = *target;
    lines.half_length = segments ? target->half_length : NULL;
    grid.side = segments ? 1 + clamped(sqrt((double)lines.count) / 4, MAX_SIDE) : 1;
    lay_out(&grid, &lines);
    measure_classes(&grid, &lines);
    if (!fill(&grid, &lines))
        return -1;
    for (int64_t i = 0; i < source->count; i++) {
        const double *d = source->direction + 3 * i, *p = source->anchor + 3 * i;
        struct vector direction = {d[0], d[1], d[2]}, anchor = {p[0], p[1], p[2]};
        struct probe probe = {turned(pose, direction), moved(pose, anchor),
                              segments ? source->half_length[i] : INFINITY, i};
        if (grid.side == 1) {
            compare(&grid, &probe, test_of(limits), 0, grid.count, &found);
            continue;
        }
        int64_t before = found.count;
        compare_near(&grid, &probe, limits, &found);
        sort_targets(&found, before);
    }
    release(&grid);
    return found.count;
}

/* Which of `count` pairs are within the limits. Lines are columns: three rows of directions, three of anchors;
   `half` is that of both segments in sum, or NULL. Returns how many places were written. */
KERNEL int64_t still_close(const struct pose *pose, int64_t count, const double *source, const double *target,
                           const double *half, const struct limits *limits, int64_t *places)
{
    double room[BLOCK], both[BLOCK];
    int64_t kept = 0;
    const struct pose p = *pose;
    const struct test test = test_of(limits);
    for (int i = 0; i < BLOCK; i++)
        both[i] = INFINITY;
    for (int64_t from = 0; from < count; from += BLOCK) {
        int64_t size = count - from < BLOCK ? count - from : BLOCK;
        const double *a = source + from, *b = target + from, *h = half ? half + from : both;
#pragma omp simd
        for (int64_t i = 0; i < size; i++) {
            struct vector direction = {a[i], a[i + count], a[i + 2 * count]};
            struct vector anchor = {a[i + 3 * count], a[i + 4 * count], a[i + 5 * count]};
            struct vector e = {b[i], b[i + count], b[i + 2 * count]};
            struct vector q = {b[i + 3 * count], b[i + 4 * count], b[i + 5 * count]};
            room[i] = margin(turned(&p, direction), moved(&p, anchor), e, q, h[i], test);
        }
        for (int64_t i = 0; i < size; i++) {
            places[kept] = from + i;
            kept += room[i] > 0;
        }
    }
    return kept;
}

/* The largest squared distance between where two poses take points, in three rows of `count`. */
KERNEL double largest_shift(const struct pose *first, const struct pose *second, int64_t count, const double *points)
{
    double m[12], largest = 0;
    for (int i = 0; i < 9; i++)
        m[i] = first->rotation[i] - second->rotation[i];
    for (int i = 0; i < 3; i++)
        m[9 + i] = first->translation[i] - second->translation[i];
    const double *x = points, *y = points + count, *z = points + 2 * count;
#pragma omp simd reduction(max : largest)
    for (int64_t i = 0; i < count; i++) {
        double u = m[0] * x[i] + m[1] * y[i] + m[2] * z[i] + m[9];
        double v = m[3] * x[i] + m[4] * y[i] + m[5] * z[i] + m[10];
        double w = m[6] * x[i] + m[7] * y[i] + m[8] * z[i] + m[11];
        double square = u * u + v * v + w * w;
        largest = square > largest ? square : largest;
    }
    return largest;
}
