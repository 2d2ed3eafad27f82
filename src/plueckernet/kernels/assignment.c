/* Probabilities of matches from the features of lines: the dual softmax of models/matcher.py. */
#include "dense.h"

typedef struct {
    int64_t channels, prior; /* whether lines differ in how likely they have a match */
    float sharpness;         /* factor of the cosines */
} AssignmentSizes;

typedef struct {
    Layer pooled, first, second, third, last, project;
    Norm norms[3];
} AssignmentWeights;

/* Lines of one map: their features, unit vectors, and the logits of their matchabilities. */
typedef struct {
    int64_t count;
    const float *features;
    float *unit, *logit;
} Side;

static AssignmentWeights assignment_weights(const AssignmentSizes *sizes, const float *memory)
{
    int64_t c = sizes->channels;
    AssignmentWeights weights = {0};
    weights.project = next_layer(&memory, c, c, 1);
    if (!sizes->prior)
        return weights;
    weights.pooled = next_layer(&memory, 2 * c, 2 * c, 1);
    weights.first = next_layer(&memory, c, 2 * c, 0);
    weights.norms[0] = next_norm(&memory, 2 * c);
    weights.second = next_layer(&memory, 2 * c, 2 * c, 1);
    weights.norms[1] = next_norm(&memory, 2 * c);
    weights.third = next_layer(&memory, 2 * c, c, 1);
    weights.norms[2] = next_norm(&memory, c);
    weights.last = next_layer(&memory, c, 1, 1);
    return weights;
}

/* The mean and the largest of each channel. */
static void pool_lines(int64_t count, int64_t c, const float *features, float *pooled)
{
    memcpy(pooled, features, sizeof(float) * c);
    memcpy(pooled + c, features, sizeof(float) * c);
    for (int64_t i = 1; i < count; i++)
#pragma omp simd
        for (int64_t k = 0; k < c; k++) {
            float value = features[i * c + k];
            pooled[k] += value;
            pooled[c + k] = value > pooled[c + k] ? value : pooled[c + k];
        }
    for (int64_t k = 0; k < c; k++)
        pooled[k] /= count;
}

/* Eq. (5): one logit from a line and the pooled lines of the other map. What these add to the first layer is the same
   for all lines. `scratch` has two rows of hidden channels for each line, and one for the pooled lines. */
static void set_logits(const AssignmentWeights *weights, int64_t c, const Side *side, const Side *other, float *scratch)
{
    int64_t count = side->count, wide = padded(2 * c);
    float *hidden = scratch + 2 * wide, *next = hidden + count * wide;
    if (!weights->first.panels) {
        memset(side->logit, 0, sizeof(float) * count);
        return;
    }
    pool_lines(other->count, c, other->features, scratch + wide);
    apply_layer(&weights->pooled, 1, scratch + wide, wide, scratch, wide);
    Layer first = weights->first;
    first.bias = scratch;
    apply_layer(&first, count, side->features, c, hidden, wide);
    normalize_and_activate(&weights->norms[0], count, hidden, wide);
    apply_layer(&weights->second, count, hidden, wide, next, wide);
    normalize_and_activate(&weights->norms[1], count, next, wide);
    apply_layer(&weights->third, count, next, wide, hidden, wide);
    normalize_and_activate(&weights->norms[2], count, hidden, wide);
    apply_layer(&weights->last, count, hidden, wide, next, PANEL);
    for (int64_t i = 0; i < count; i++)
        side->logit[i] = next[i * PANEL];
}

/* Projected features of unit length. */
static void set_units(const Layer *project, int64_t c, const Side *side)
{
    apply_layer(project, side->count, side->features, c, side->unit, padded(c));
    for (int64_t i = 0; i < side->count; i++) {
        float *row = side->unit + i * padded(c), square = 0;
#pragma omp simd reduction(+ : square)
        for (int64_t k = 0; k < c; k++)
            square += row[k] * row[k];
        float norm = sqrtf(square), factor = 1.0f / (norm > 1e-12f ? norm : 1e-12f);
        for (int64_t k = 0; k < c; k++)
            row[k] *= factor;
    }
}

static float log_sigmoid(float x)
{
    return (x < 0 ? x : 0) - log1pf(expf(-fabsf(x)));
}

/* log Σ exp of each row and of each column of scores; `top` has room for a row. */
static void set_log_sums(int64_t m, int64_t n, const float *score, int64_t stride, float *rows, float *columns, float *top)
{
    memcpy(top, score, sizeof(float) * n);
    memset(columns, 0, sizeof(float) * n);
    for (int64_t i = 0; i < m; i++) {
        const float *row = score + i * stride;
        float largest = -INFINITY, total = 0;
#pragma omp simd reduction(max : largest)
        for (int64_t j = 0; j < n; j++) {
            largest = row[j] > largest ? row[j] : largest;
            top[j] = row[j] > top[j] ? row[j] : top[j];
        }
#pragma omp simd reduction(+ : total)
        for (int64_t j = 0; j < n; j++)
            total += exp_of(row[j] - largest);
        rows[i] = largest + logf(total);
    }
    for (int64_t i = 0; i < m; i++)
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            columns[j] += exp_of(score[i * stride + j] - top[j]);
    for (int64_t j = 0; j < n; j++)
        columns[j] = top[j] + logf(columns[j]);
}

/* log P = log softmax over each row + log softmax over each column + log σ of both logits. `sums` has two rows. */
static void set_log_probability(const Side *source, const Side *target, float *score, int64_t stride, float *sums,
                                float *out)
{
    int64_t m = source->count, n = target->count;
    float *columns = sums, *top = columns + n, *rows = top + n;
    set_log_sums(m, n, score, stride, rows, columns, top);
    for (int64_t j = 0; j < n; j++)
        columns[j] -= log_sigmoid(target->logit[j]);
    for (int64_t i = 0; i < m; i++) {
        float own = log_sigmoid(source->logit[i]);
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            out[i * n + j] = (score[i * stride + j] - rows[i] + own) + (score[i * stride + j] - columns[j]);
    }
}

/* The log-probabilities (m, n) that lines match, and the logits (m + n) that they have matches at all, from their
   `features`, those of the source first. Neither map is empty. Returns 0, or 1 if there is no memory. */
KERNEL int32_t assign_lines(const AssignmentSizes *sizes, const float *memory, int64_t m, int64_t n,
                            const float *features, float *out, float *logits)
{
    int64_t c = sizes->channels, wide = padded(2 * c), most = m > n ? m : n, stride = padded(n);
    int64_t scratch_size = 2 * wide * (most + 1) + PANEL, sums = 2 * n + m;
    float *scratch = malloc(sizeof(float) * (scratch_size + (m + n + stride) * padded(c) + m * stride + sums));
    if (!scratch)
        return 1;
    float *unit = scratch + scratch_size, *panels = unit + (m + n) * padded(c), *score = panels + stride * padded(c);
    AssignmentWeights weights = assignment_weights(sizes, memory);
    Side source = {m, features, unit, logits}, target = {n, features + m * c, unit + m * padded(c), logits + m};
    set_logits(&weights, c, &source, &target, scratch);
    set_logits(&weights, c, &target, &source, scratch);
    set_units(&weights.project, c, &source);
    set_units(&weights.project, c, &target);
    for (int64_t i = 0; i < m * padded(c); i++)
        source.unit[i] *= sizes->sharpness;
    pack_outputs(n, c, target.unit, padded(c), panels);
    Layer products = {c, n, panels, NULL};
    apply_layer(&products, m, source.unit, padded(c), score, stride);
    set_log_probability(&source, &target, score, stride, score + m * stride, out);
    free(scratch);
    return 0;
}
