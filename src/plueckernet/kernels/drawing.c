/* Which pairs of matches give hypotheses: estimation/hypotheses.py, ransac.py, parallel_hypotheses.py. */
#include "kernels.h"

#define BLOCK 256 /* lines compared at once */

/* How strongly each match belongs to the largest consistent group: match_support() of estimation/consistency.py.
   `weight` and `next` have room for all matches. */
static void set_strength(int64_t count, const float *support, int64_t iterations, float *weight, float *next)
{
    float scale = 1.0f / (float)(count * count), square = 0;
    for (int64_t i = 0; i < count; i++)
        weight[i] = 1;
    for (int64_t step = 0; step <= iterations; step++) {
        for (int64_t i = 0; i < count; i++) {
            const float *row = support + i * count;
            float sum = 0;
#pragma omp simd reduction(+ : sum)
            for (int64_t j = 0; j < count; j++)
                sum += row[j] * weight[j];
            next[i] = sum * scale;
        }
        memcpy(weight, next, sizeof(float) * (size_t)count);
    }
    for (int64_t i = 0; i < count; i++)
        square += weight[i] * weight[i];
    float norm = sqrtf(square);
    for (int64_t i = 0; i < count; i++)
        weight[i] /= norm > 1e-30f ? norm : 1e-30f;
}

/* The weight of each pair of matches in a random draw. Returns 0, or 1 without memory. */
KERNEL int draw_weights(int64_t count, const float *support, const float *probability, int64_t iterations,
                        float *weights)
{
    float *strength = malloc(sizeof(float) * (size_t)(2 * count + 1));
    if (!strength)
        return 1;
    set_strength(count, support, iterations, strength, strength + count);
    for (int64_t i = 0; i < count; i++)
        strength[i] *= probability[i];
    for (int64_t i = 0; i < count; i++)
#pragma omp simd
        for (int64_t j = 0; j < count; j++)
            weights[i * count + j] = support[i * count + j] * strength[i] * strength[j];
    free(strength);
    return 0;
}

/* Flat places above the diagonal of a (count, count) matrix that are positive, and what is there. Returns how many. */
KERNEL int64_t positive_places(int64_t count, const float *matrix, int64_t *places, float *values)
{
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = i + 1; j < count; j++) {
            places[found] = i * count + j;
            values[found] = matrix[i * count + j];
            found += matrix[i * count + j] > 0;
        }
    return found;
}

struct clock {
    float value;
    int64_t place;
};

/* Later clocks are those of larger values; of equal ones those that were found first. */
static int is_later(struct clock a, struct clock b)
{
    return a.value > b.value || (a.value == b.value && a.place < b.place);
}

/* Puts a clock into a heap of `size` whose first is the earliest, from `at` downwards. */
static void sift_down(struct clock *heap, int64_t size, int64_t at, struct clock clock)
{
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child + 1 < size && is_later(heap[child], heap[child + 1]))
            child++;
        if (child >= size || is_later(heap[child], clock))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = clock;
}

/* The pairs (2, wanted) at the places of the largest of `found` values, the largest first; there are at least so many.
   Returns -1 without memory. */
KERNEL int64_t largest_pairs(int64_t found, const float *values, const int64_t *places, int64_t count, int64_t wanted,
                             int64_t *pairs)
{
    struct clock *heap = malloc((wanted + 1) * sizeof *heap);
    if (!heap)
        return -1;
    for (int64_t i = 0; i < wanted; i++)
        heap[i] = (struct clock){values[i], places[i]};
    for (int64_t i = wanted / 2 - 1; i >= 0; i--)
        sift_down(heap, wanted, i, heap[i]);
    for (int64_t i = wanted; i < found && wanted; i++)
        if (values[i] > heap[0].value)
            sift_down(heap, wanted, 0, (struct clock){values[i], places[i]});
    for (int64_t size = wanted; size > 0; size--) {
        struct clock earliest = heap[0];
        pairs[size - 1] = earliest.place / count;
        pairs[wanted + size - 1] = earliest.place % count;
        sift_down(heap, size - 1, 0, heap[size - 1]);
    }
    free(heap);
    return 0;
}

/* Directions as three rows of single numbers. */
static void set_rows(int64_t count, const double *direction, float *rows)
{
    for (int64_t i = 0; i < count; i++)
        for (int k = 0; k < 3; k++)
            rows[k * count + i] = direction[3 * i + k];
}

/* Sets to zero the weights of the matches whose lines are nearly parallel to those of match `i`. */
static void drop_parallel(int64_t count, const float *rows, float limit, int64_t i, float *weight)
{
    const float *x = rows, *y = rows + count, *z = rows + 2 * count;
#pragma omp simd
    for (int64_t j = 0; j < count; j++) {
        float cosine = fabsf(x[i] * x[j] + y[i] * y[j] + z[i] * z[j]);
        weight[j] = cosine <= limit ? weight[j] : 0;
    }
}

/* The places of the `partners` largest positive weights; returns how many there are. */
static int64_t best_partners(int64_t count, const float *weight, int64_t partners, int64_t *best)
{
    int64_t kept = 0;
    for (int64_t j = 0; j < count; j++) {
        if (!(weight[j] > 0) || (kept == partners && weight[j] <= weight[best[kept - 1]]))
            continue;
        int64_t at = kept < partners ? kept++ : partners - 1;
        for (; at > 0 && weight[best[at - 1]] < weight[j]; at--)
            best[at] = best[at - 1];
        best[at] = j;
    }
    return kept;
}

/* Every match with the partners that support it most, as `hypotheses.seed_pairs`: pairs (2, found) of at most
   count * partners, in an array of 2 * count * partners. Returns how many, -1 without memory. */
KERNEL int64_t seed_pairs(int64_t count, const float *support, const float *strength, const double *source,
                          const double *target, float limit, int64_t partners, int64_t *pairs)
{
    float *numbers = malloc((7 * count + 1) * sizeof(float)), *weight = numbers + 6 * count;
    int64_t *best = malloc((partners + 1) * sizeof(int64_t)), found = -1;
    uint8_t *chosen = calloc(count * count + 1, 1);
    if (numbers && best && chosen) {
        found = 0;
        set_rows(count, source, numbers);
        set_rows(count, target, numbers + 3 * count);
        for (int64_t i = 0; i < count; i++) {
            for (int64_t j = 0; j < count; j++)
                weight[j] = support[i * count + j] * strength[j];
            drop_parallel(count, numbers, limit, i, weight);
            drop_parallel(count, numbers + 3 * count, limit, i, weight);
            int64_t kept = best_partners(count, weight, partners, best);
            for (int64_t k = 0; k < kept; k++)
                found += !chosen[i < best[k] ? i * count + best[k] : best[k] * count + i]++;
        }
        int64_t written = 0;
        for (int64_t place = 0; place < count * count && written < found; place++)
            if (chosen[place]) {
                pairs[written] = place / count;
                pairs[found + written++] = place % count;
            }
    }
    free(numbers);
    free(best);
    free(chosen);
    return found;
}

static void normalise(double *v)
{
    double size = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    for (int k = 0; k < 3; k++)
        v[k] /= size > 1e-12 ? size : 1e-12;
}

/* Poses of single precision in an order, with orthonormal rotations: `ransac.in_double`. */
KERNEL void poses_in_double(int64_t count, const int64_t *order, const float *rotation, const float *translation,
                            double *new_rotation, double *new_translation)
{
    for (int64_t i = 0; i < count; i++) {
        const float *r = rotation + 9 * order[i], *t = translation + 3 * order[i];
        double x[3] = {r[0], r[3], r[6]}, y[3] = {r[1], r[4], r[7]}, *to = new_rotation + 9 * i;
        normalise(x);
        double along = x[0] * y[0] + x[1] * y[1] + x[2] * y[2];
        for (int k = 0; k < 3; k++)
            y[k] -= along * x[k];
        normalise(y);
        for (int k = 0; k < 3; k++) {
            int next = (k + 1) % 3, last = (k + 2) % 3;
            to[3 * k] = x[k];
            to[3 * k + 1] = y[k];
            to[3 * k + 2] = x[next] * y[last] - x[last] * y[next];
            new_translation[3 * i + k] = t[k];
        }
    }
}

/* The largest total length of lines parallel to one of them; `length` is NULL for lines that all count as one. */
KERNEL double largest_parallel_length(int64_t count, const double *direction, const double *length, double min_cosine)
{
    double largest = 0, x[BLOCK], y[BLOCK], z[BLOCK], size[BLOCK];
    double *sums = calloc(count + 1, sizeof(double));
    if (!sums)
        return -1;
    for (int64_t from = 0; from < count; from += BLOCK) {
        int64_t lines = count - from < BLOCK ? count - from : BLOCK;
        for (int64_t j = 0; j < lines; j++) {
            const double *d = direction + 3 * (from + j);
            x[j] = d[0];
            y[j] = d[1];
            z[j] = d[2];
            size[j] = length ? length[from + j] : 1;
        }
        for (int64_t i = 0; i < count; i++) {
            const double a = direction[3 * i], b = direction[3 * i + 1], c = direction[3 * i + 2];
            double sum = 0;
#pragma omp simd reduction(+ : sum)
            for (int64_t j = 0; j < lines; j++)
                sum += fabs(a * x[j] + b * y[j] + c * z[j]) > min_cosine ? size[j] : 0;
            sums[i] += sum;
        }
    }
    for (int64_t i = 0; i < count; i++)
        largest = sums[i] > largest ? sums[i] : largest;
    free(sums);
    return largest;
}
