/* Message passing between the lines of maps: models/packed.py. */
#include "dense.h"

#define BLOCK 48 /* queries at once: a multiple of the rows of a tile */

typedef struct {
    int64_t channels, heads, filters, layers, cross, sets; /* layers of self and, if `cross`, of cross attention */
} MessageSizes;

/* The weights of a layer, which follow each other in memory. */
typedef struct {
    Layer project, first, second;
    Norm norm;
} MessageWeights;

typedef struct {
    MessageSizes sizes;
    int64_t stride, wide, most; /* of rows (x, message, filtered message), of projected rows; lines of a set */
    float *rows, *projected, *hidden, *keys, *values, *logits, *message, *factor;
} MessageWork;

static MessageWeights next_weights(const float **memory, int64_t c, int parts)
{
    MessageWeights weights;
    weights.project = next_layer(memory, c, (1 + parts) * c, 0);
    weights.first = next_layer(memory, parts * c, 2 * c, 1);
    weights.norm = next_norm(memory, 2 * c);
    weights.second = next_layer(memory, 2 * c, c, 1);
    return weights;
}

/* Weights exp(logit scale + bias - largest) of each key, and one over their sum. */
static float soft_weights(int64_t n, float *logit, const float *bias, float scale)
{
    float top = -INFINITY, total = 0;
    if (bias)
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            logit[j] = logit[j] * scale + bias[j];
    else
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            logit[j] *= scale;
#pragma omp simd reduction(max : top)
    for (int64_t j = 0; j < n; j++)
        top = logit[j] > top ? logit[j] : top;
#pragma omp simd reduction(+ : total)
    for (int64_t j = 0; j < n; j++) {
        logit[j] = exp_of(logit[j] - top);
        total += logit[j];
    }
    return n ? 1.0f / total : 0;
}

/* Eq. (4): the messages to lines `own` from lines `other`, by one head of the attention. */
static void attend(const MessageWork *work, const int64_t *own, const int64_t *other, const float *bias, int64_t head)
{
    int64_t c = work->sizes.channels, d = c / work->sizes.heads, n = other[1] - other[0], wide = work->wide;
    const float *query = work->projected + head * d, *key = query + other[0] * wide + c;
    pack_outputs(n, d, key, wide, work->keys);
    pack_inputs(n, d, key + c, wide, work->values);
    Layer keys = {d, n, work->keys, NULL}, values = {n, d, work->values, NULL};
    float scale = 1.0f / sqrtf((float)c);
    for (int64_t start = own[0]; start < own[1]; start += BLOCK) {
        int64_t rows = own[1] - start < BLOCK ? own[1] - start : BLOCK;
        apply_layer(&keys, rows, query + start * wide, wide, work->logits, padded(work->most));
        for (int64_t i = 0; i < rows; i++) {
            const float *row_bias = bias ? bias + (start - own[0] + i) * n : NULL;
            work->factor[i] = soft_weights(n, work->logits + i * padded(work->most), row_bias, scale);
        }
        apply_layer(&values, rows, work->logits, padded(work->most), work->message, padded(d));
        for (int64_t i = 0; i < rows; i++)
            for (int64_t k = 0; k < d; k++)
                work->rows[(start + i) * work->stride + c + head * d + k] =
                    work->message[i * padded(d) + k] * work->factor[i];
    }
}

/* Further messages of one filter, whose weights are its plane of edges. */
static void filter_messages(const MessageWork *work, const int64_t *set, const float *edges, int64_t filter)
{
    int64_t c = work->sizes.channels, d = c / work->sizes.filters, n = set[1] - set[0];
    const float *further = work->projected + set[0] * work->wide + 3 * c + filter * d;
    pack_inputs(n, d, further, work->wide, work->values);
    Layer values = {n, d, work->values, NULL};
    for (int64_t start = 0; start < n; start += BLOCK) {
        int64_t rows = n - start < BLOCK ? n - start : BLOCK;
        apply_layer(&values, rows, edges + start * n, n, work->message, padded(d));
        for (int64_t i = 0; i < rows; i++)
            memcpy(work->rows + (set[0] + start + i) * work->stride + 2 * c + filter * d, work->message + i * padded(d),
                   sizeof(float) * d);
    }
}

/* Eq. (3): the update from the messages, added to the lines. */
static void update_rows(const MessageWork *work, const MessageWeights *weights, int64_t lines)
{
    int64_t c = work->sizes.channels, width = padded(2 * c);
    for (int64_t start = 0; start < lines; start += BLOCK) {
        int64_t count = lines - start < BLOCK ? lines - start : BLOCK;
        float *rows = work->rows + start * work->stride;
        apply_layer(&weights->first, count, rows, work->stride, work->hidden, width);
        normalize_and_activate(&weights->norm, count, work->hidden, width);
        apply_layer(&weights->second, count, work->hidden, width, work->message, padded(c));
        for (int64_t i = 0; i < count; i++)
            for (int64_t k = 0; k < c; k++)
                rows[i * work->stride + k] += work->message[i * padded(c) + k];
    }
}

/* How many layers have edges: every other one, or all. */
static int64_t own_layers(const MessageSizes *sizes)
{
    return sizes->cross ? (sizes->layers + 1) / 2 : sizes->layers;
}

/* One layer: self attention if there are edges, of which `biases` come first that are those of layers before. */
static void pass_layer(const MessageWork *work, const MessageWeights *weights, const int64_t *ends,
                       const float *const *edges, int64_t biases)
{
    const MessageSizes *sizes = &work->sizes;
    int64_t lines = ends[sizes->sets];
    apply_layer(&weights->project, lines, work->rows, work->stride, work->projected, work->wide);
    for (int64_t s = 0; s < sizes->sets; s++) {
        const int64_t *own = ends + s, n = own[1] - own[0];
        const int64_t *other = edges ? own : ends + (s + sizes->sets / 2) % sizes->sets;
        for (int64_t h = 0; h < sizes->heads; h++)
            attend(work, own, other, edges ? edges[s] + (biases + h) * n * n : NULL, h);
        for (int64_t f = 0; f < (edges ? sizes->filters : 0); f++)
            filter_messages(work, own, edges[s] + (own_layers(sizes) * sizes->heads + f) * n * n, f);
    }
    update_rows(work, weights, lines);
}

/* Memory for all steps at once; its size in floats, too. */
static int64_t place_work(MessageWork *work, int64_t lines, float *memory)
{
    int64_t c = work->sizes.channels, most = work->most, floats = 0;
    struct {
        float **start;
        int64_t size;
    } parts[] = {
        {&work->rows, lines * work->stride},   {&work->projected, lines * work->wide},
        {&work->hidden, BLOCK * padded(2 * c)}, {&work->keys, padded(most) * c},
        {&work->values, most * padded(c)},     {&work->logits, BLOCK * padded(most)},
        {&work->message, BLOCK * padded(c)},   {&work->factor, BLOCK},
    };
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        *parts[k].start = memory ? memory + floats : NULL;
        floats += parts[k].size;
    }
    return floats;
}

/* All layers on the lines `x` (lines, channels) of an even number of sets, in place. Set s has the lines from ends[s] to
   ends[s + 1] and the edges edges[s]: biases of all layers of self attention and filters, planes of n x n. Returns 0,
   or 1 if there is no memory. */
KERNEL int32_t pass_messages(const MessageSizes *sizes, const float *weights, const int64_t *ends,
                             const float *const *edges, float *x)
{
    MessageWork work = {*sizes, .stride = 3 * sizes->channels, .wide = padded(4 * sizes->channels)};
    int64_t c = sizes->channels, lines = ends[sizes->sets], biases = 0;
    for (int64_t s = 0; s < sizes->sets; s++)
        work.most = ends[s + 1] - ends[s] > work.most ? ends[s + 1] - ends[s] : work.most;
    float *memory = malloc(sizeof(float) * place_work(&work, lines, NULL));
    if (!memory)
        return 1;
    place_work(&work, lines, memory);
    for (int64_t i = 0; i < lines; i++)
        memcpy(work.rows + i * work.stride, x + i * c, sizeof(float) * c);
    for (int64_t t = 0; t < sizes->layers; t++) {
        int own = t % 2 == 0 || !sizes->cross, parts = own && sizes->filters ? 3 : 2;
        MessageWeights layer = next_weights(&weights, c, parts);
        pass_layer(&work, &layer, ends, own ? edges : NULL, biases);
        biases += own ? sizes->heads : 0;
    }
    for (int64_t i = 0; i < lines; i++)
        memcpy(x + i * c, work.rows + i * work.stride, sizeof(float) * c);
    free(memory);
    return 0;
}
