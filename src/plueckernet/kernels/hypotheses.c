/* Poses from pairs of matches: estimation/consistency.py, ransac.py, scoring.py. */
#include "kernels.h"

#define MIN_SINE 0.05 /* below which the common perpendicular of two lines is dominated by noise */
#define WORD 64

struct vector {
    double x, y, z;
};

static inline struct vector at(const double *numbers, int64_t row)
{
    struct vector result = {numbers[3 * row], numbers[3 * row + 1], numbers[3 * row + 2]};
    return result;
}

static inline double dot(struct vector a, struct vector b)
{
    return a.x * b.x + a.y * b.y + a.z * b.z;
}

/* a + s b */
static inline struct vector added(struct vector a, double s, struct vector b)
{
    struct vector result = {a.x + s * b.x, a.y + s * b.y, a.z + s * b.z};
    return result;
}

static inline struct vector scaled(double s, struct vector a)
{
    struct vector result = {s * a.x, s * a.y, s * a.z};
    return result;
}

static inline struct vector cross(struct vector a, struct vector b)
{
    struct vector result = {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
    return result;
}

/* Matched lines of one map, three numbers a line; `ids` is NULL or tells which lines are the same. */
struct lines {
    const double *direction, *moment, *anchor;
    const int64_t *ids;
};

struct invariants {
    double cosine, sine, distance, span;
};

/* Nine rows of numbers: directions, moments and anchors of `count` lines. */
#define ROWS 9

static void set_rows(const struct lines *lines, int64_t count, double *rows)
{
    for (int64_t i = 0; i < count; i++)
        for (int k = 0; k < 3; k++) {
            rows[k * count + i] = lines->direction[3 * i + k];
            rows[(3 + k) * count + i] = lines->moment[3 * i + k];
            rows[(6 + k) * count + i] = lines->anchor[3 * i + k];
        }
}

static inline struct vector in_rows(const double *rows, int64_t n, int64_t i)
{
    struct vector result = {rows[i], rows[n + i], rows[2 * n + i]};
    return result;
}

/* Of lines `i` and `j`, as `pairwise_invariants`. */
static inline struct invariants invariants_of(const double *rows, int64_t n, int64_t i, int64_t j)
{
    struct invariants result;
    struct vector own = in_rows(rows, n, i), other = in_rows(rows, n, j);
    struct vector own_moment = in_rows(rows + 3 * n, n, i), moment = in_rows(rows + 3 * n, n, j);
    struct vector offset = added(in_rows(rows + 6 * n, n, j), -1, in_rows(rows + 6 * n, n, i));
    double cosine = fabs(dot(own, other)), along = dot(own, offset), span = dot(offset, offset);
    double skew = fabs(dot(own, moment) + dot(own_moment, other)), square = span - along * along;
    result.cosine = cosine > 1 ? 1 : cosine;
    result.sine = sqrt(1 - result.cosine * result.cosine);
    double to_line = sqrt(square < 0 ? 0 : square), least = result.sine > MIN_SINE ? result.sine : 1;
    result.distance = result.sine > MIN_SINE ? skew / least : to_line;
    result.span = sqrt(span);
    return result;
}

/* 1 where a rigid motion can satisfy match `i` and a later one: `consistency._margin` above zero, lines that are the
   same aside. `cut` is NULL, or by how much cut ends can have moved the midpoints of the segments of each match. */
static inline __attribute__((always_inline)) void find_compatible(const double *restrict source,
                                                                   const double *restrict target, int64_t n,
                                                                   const double *restrict cut, double min_cosine,
                                                                   double distance, int64_t i, double *restrict agree)
{
#pragma omp simd
    for (int64_t j = i + 1; j < n; j++) {
        struct invariants a = invariants_of(source, n, i, j), b = invariants_of(target, n, i, j);
        double angle = a.cosine * b.cosine + a.sine * b.sine, apart = fabs(a.distance - b.distance);
        double room = cut ? cut[j] + distance - (fabs(a.span - b.span) - cut[i]) : 1;
        double value = angle > min_cosine ? 1.0 : 0.0;
        value = apart < distance ? value : 0.0;
        agree[j] = room > 0 ? value : 0.0;
    }
}

static int are_same(const struct lines *lines, int64_t i, int64_t j)
{
    return lines->ids && lines->ids[i] == lines->ids[j];
}

/* Sets a bit for each pair of matches that a rigid motion can satisfy; false without memory. */
static int set_compatible(int64_t count, const struct lines *source, const struct lines *target, const double *cut,
                          double min_cosine, double distance, uint64_t *bits)
{
    int64_t words = (count + WORD - 1) / WORD;
    double *rows = malloc((2 * ROWS + 1) * (count + 1) * sizeof(double)), *other = rows + ROWS * count;
    double *agree = rows + 2 * ROWS * count;
    if (!rows)
        return 0;
    set_rows(source, count, rows);
    set_rows(target, count, other);
    for (int64_t i = 0; i < count; i++) {
        if (cut)
            find_compatible(rows, other, count, cut, min_cosine, distance, i, agree);
        else
            find_compatible(rows, other, count, NULL, min_cosine, distance, i, agree);
        for (int64_t j = i + 1; j < count; j++)
            if (agree[j] > 0 && !are_same(source, i, j) && !are_same(target, i, j)) {
                bits[i * words + j / WORD] |= (uint64_t)1 << j % WORD;
                bits[j * words + i / WORD] |= (uint64_t)1 << i % WORD;
            }
    }
    free(rows);
    return 1;
}

static int common_bits(const uint64_t *a, const uint64_t *b, int64_t words)
{
    int count = 0;
    for (int64_t i = 0; i < words; i++)
        count += __builtin_popcountll(a[i] & b[i]);
    return count;
}

/* For each pair of `count` matches that one motion can satisfy, the number of matches compatible with both; zero for
   the others. `support` is (count, count) and zero. Returns -1 without memory. */
KERNEL int64_t match_support(int64_t count, const struct lines *source, const struct lines *target, const double *cut,
                             double min_cosine, double distance, float *support)
{
    int64_t words = (count + WORD - 1) / WORD;
    uint64_t *bits = calloc(count * words + 1, sizeof(uint64_t));
    if (!bits)
        return -1;
    if (!set_compatible(count, source, target, cut, min_cosine, distance, bits)) {
        free(bits);
        return -1;
    }
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = i + 1; j < count; j++)
            if (bits[i * words + j / WORD] >> j % WORD & 1) {
                float common = common_bits(bits + i * words, bits + j * words, words);
                support[i * count + j] = support[j * count + i] = common;
            }
    free(bits);
    return 0;
}

/* Two lines: the frame of their directions, the midpoint of their common perpendicular and what a motion preserves. */
struct frame {
    struct vector axes[3], point;
    double cosine, sine, gap;
};

static struct frame frame_of(const struct lines *lines, int64_t i, int64_t j)
{
    struct frame result;
    struct vector first = at(lines->direction, i), second = at(lines->direction, j);
    struct vector first_moment = at(lines->moment, i), second_moment = at(lines->moment, j);
    double cosine = dot(first, second), square = 1 - cosine * cosine;
    result.cosine = cosine;
    result.sine = sqrt(square > 0 ? square : 0);
    result.gap = (dot(first, second_moment) + dot(second, first_moment)) / (result.sine > 1e-12 ? result.sine : 1e-12);
    result.axes[0] = scaled(1 / sqrt(2 + 2 * cosine), added(first, 1, second));
    result.axes[1] = scaled(1 / sqrt(2 - 2 * cosine), added(first, -1, second));
    result.axes[2] = cross(result.axes[0], result.axes[1]);
    struct vector foot = cross(first, first_moment), other_foot = cross(second, second_moment);
    double across = dot(other_foot, first), back = dot(foot, second);
    struct vector one = added(foot, (across + cosine * back) / square, first);
    struct vector two = added(other_foot, (back + cosine * across) / square, second);
    result.point = scaled(0.5, added(one, 1, two));
    return result;
}

/* Whether the lines agree if the sign of none or both (1) or of one (-1) changes: `two_line_agreement`. */
static int agree(const struct frame *source, const struct frame *target, double sign, double angle, double distance)
{
    double least = angle > 1e-3 ? angle : 1e-3;
    double cosine = source->sine * target->sine + source->cosine * target->cosine * sign;
    return source->sine > least && target->sine > least && cosine > cos(angle) &&
           fabs(source->gap - target->gap * sign) < distance;
}

/* The rotation takes each axis of the source to `signs` times that of the target in the order of `to`. */
static void write_pose(const struct frame *source, const struct frame *target, const int *to, const double *signs,
                       float *rotation, float *translation)
{
    double r[9] = {0};
    for (int axis = 0; axis < 3; axis++) {
        struct vector from = source->axes[axis], onto = scaled(signs[axis], target->axes[to[axis]]);
        const double a[3] = {onto.x, onto.y, onto.z}, b[3] = {from.x, from.y, from.z};
        for (int i = 0; i < 9; i++)
            r[i] += a[i / 3] * b[i % 3];
    }
    struct vector p = source->point, q = target->point;
    const double onto[3] = {q.x, q.y, q.z};
    for (int i = 0; i < 9; i++)
        rotation[i] = r[i];
    for (int i = 0; i < 3; i++)
        translation[i] = onto[i] - (r[3 * i] * p.x + r[3 * i + 1] * p.y + r[3 * i + 2] * p.z);
}

/* Poses of pairs of row matches, `pairs` being (2, count), for all sign choices that agree: at most four each, only the
   first if lines are directed. Returns how many were written. */
KERNEL int64_t solve_pairs(const struct lines *source, const struct lines *target, int64_t count, const int64_t *pairs,
                           double angle, double distance, int64_t directed, float *rotation, float *translation)
{
    /* Flipping both lines negates both axes in their plane; flipping one swaps them and negates the normal. */
    static const int to[4][3] = {{0, 1, 2}, {0, 1, 2}, {1, 0, 2}, {1, 0, 2}};
    static const double signs[4][3] = {{1, 1, 1}, {-1, -1, 1}, {1, 1, -1}, {-1, -1, -1}};
    int64_t written = 0;
    for (int64_t i = 0; i < count; i++) {
        struct frame a = frame_of(source, pairs[i], pairs[count + i]), b = frame_of(target, pairs[i], pairs[count + i]);
        for (int choice = 0; choice < (directed ? 1 : 4); choice++)
            if (agree(&a, &b, choice < 2 ? 1.0 : -1.0, angle, distance)) {
                write_pose(&a, &b, to[choice], signs[choice], rotation + 9 * written, translation + 3 * written);
                written++;
            }
    }
    return written;
}

/* The weighted score of one pose on matches as columns: three rows each of the source's directions and feet, of the
   target's anchors and directions; `unit` and `bend` are one over the squared distance and angle. */
static float pose_score(const float *r, const float *t, int64_t n, const float *m, const float *weight, float unit,
                        float bend, float min_cosine)
{
    float score = 0;
#pragma omp simd reduction(+ : score)
    for (int64_t i = 0; i < n; i++) {
        float x = m[i + 6 * n] - t[0], y = m[i + 7 * n] - t[1], z = m[i + 8 * n] - t[2];
        float u = r[0] * x + r[3] * y + r[6] * z, v = r[1] * x + r[4] * y + r[7] * z, w = r[2] * x + r[5] * y + r[8] * z;
        float e = m[i + 9 * n], f = m[i + 10 * n], g = m[i + 11 * n];
        float cosine = m[i] * (r[0] * e + r[3] * f + r[6] * g) + m[i + n] * (r[1] * e + r[4] * f + r[7] * g) +
                       m[i + 2 * n] * (r[2] * e + r[5] * f + r[8] * g);
        float along = u * m[i] + v * m[i + n] + w * m[i + 2 * n];
        u -= m[i + 3 * n];
        v -= m[i + 4 * n];
        w -= m[i + 5 * n];
        float fit = 1 - unit * (u * u + v * v + w * w - along * along) - bend * (1 - cosine * cosine);
        fit = fit > 0 ? fit : 0;
        score += cosine >= min_cosine ? fit * weight[i] : 0;
    }
    return score;
}

/* Weighted number of matches that each of `count` poses explains. */
KERNEL void row_scores(int64_t count, const float *rotation, const float *translation, int64_t num_matches,
                       const float *matches, const float *weight, float distance, float angle, int64_t directed,
                       float *scores)
{
    float unit = 1 / (distance * distance), bend = 1 / (angle * angle), min_cosine = directed ? 0 : -INFINITY;
    for (int64_t i = 0; i < count; i++)
        scores[i] = pose_score(rotation + 9 * i, translation + 3 * i, num_matches, matches, weight, unit, bend, min_cosine);
}
