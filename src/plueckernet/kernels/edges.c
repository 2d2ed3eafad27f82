/* The layers on edges between all lines of a set: models/edge_blocks.py.

   Edges are computed in tiles of 8 x 8 lines. Most invariants of (i, j) are those of (j, i), the two anchor distances
   change places, so that a tile gives the edges of both directions. */
#include "edges.h"

#define TILE 8
#define BLOCK 64 /* lines, a multiple of a tile */
#define PAIRS (TILE * TILE)
#define FUNCTIONS 5
#define TABLE_ROWS 1024

/* What the first layer needs of the pairs of a tile, plane by plane. */
typedef struct {
    float position[FUNCTIONS][PAIRS], skew[PAIRS], orientation[3][PAIRS], square[PAIRS];
    int count, rows, columns;
} Tile;

typedef struct {
    EdgeSizes sizes;
    EdgeWeights weights;
    const double *lines; /* COORDINATES planes of n */
    float *out, *pooled, *total, *near, *first, *hidden, *head;
    int64_t pooled_stride;
} EdgeWork;

static void set_invariants(const EdgeWork *work, int64_t i, int64_t first_column, int row, Tile *tile)
{
    int64_t n = work->sizes.n;
    const double *own = work->lines + i, *other = work->lines + first_column;
    const EdgeWeights *weights = &work->weights;
    int offset = row * tile->columns;
#pragma omp simd
    for (int b = 0; b < tile->columns; b++) {
        const double *near = other + b;
        double cosine = 0, along = -own[9 * n], near_along = near[9 * n], product = 0, determinant = 0;
        for (int k = 0; k < 3; k++) {
            double d = own[k * n], p = own[(3 + k) * n], near_d = near[k * n], near_p = near[(3 + k) * n];
            cosine += d * near_d;
            along += d * near_p;
            near_along -= p * near_d;
            product += p * near_p;
            determinant -= d * near[(6 + k) * n] + own[(6 + k) * n] * near_d;
        }
        double square = own[10 * n] + near[10 * n] - 2 * product;
        float sine = (float)(1 - cosine * cosine), c = (float)cosine, det = (float)determinant, s = (float)square;
        float distance = (float)(square - along * along), near_distance = (float)(square - near_along * near_along);
        sine = sine > 0 ? sine : 0;
        s = s > 0 ? s : 0;
        distance = distance > 0 ? distance : 0;
        near_distance = near_distance > 0 ? near_distance : 0;
        float span = sqrtf(s), inverse = 1.0f / (span > 1e-6f ? span : 1e-6f);
        float aligned = (float)along * inverse * (float)near_along * inverse, twist = det * inverse;
        tile->square[offset + b] = s;
        tile->skew[offset + b] = sine / (sine + weights->half_weight) * (1 + weights->half_weight);
        tile->orientation[0][offset + b] = aligned * c;
        tile->orientation[1][offset + b] = twist * c;
        tile->orientation[2][offset + b] = aligned * twist;
        tile->position[0][offset + b] = fabsf(det) / sqrtf(sine + 1e-4f);
        tile->position[1][offset + b] = sqrtf(distance);
        tile->position[2][offset + b] = sqrtf(near_distance);
        tile->position[3][offset + b] = span;
        tile->position[4][offset + b] = sqrtf(sine) / (1 + fabsf(c)) * (TABLE_ROWS - 1); /* tangent of half the angle */
    }
}

/* From lengths to rows of the tables; every row that is read has a next row, whatever the number. */
static void set_positions(const EdgeWeights *weights, Tile *tile)
{
    float limit = TABLE_ROWS - 1.001f;
    for (int f = 0; f < FUNCTIONS; f++) {
        float *position = tile->position[f];
        if (f < FUNCTIONS - 1)
#pragma omp simd
            for (int p = 0; p < tile->count; p++)
                position[p] = (log_of(position[p] + weights->floor) - weights->lowest) * weights->steps;
#pragma omp simd
        for (int p = 0; p < tile->count; p++) {
            float value = position[p] > 0 ? position[p] : 0;
            position[p] = value < limit ? value : limit;
        }
    }
}

/* Where a function is read, and the factors of this row and the next. */
typedef struct {
    const float *row;
    float lower, upper;
} Reading;

INLINE Reading reading(const EdgeWork *work, int function, float position, float factor)
{
    int row = (int)position;
    float upper = position - (float)row;
    const float *table = work->weights.tables + ((int64_t)function * TABLE_ROWS + row) * work->sizes.width;
    return (Reading){table, (1 - upper) * factor, upper * factor};
}

INLINE Lanes read_lanes(const Reading *at, int64_t channel, int64_t width)
{
    return at->lower * load_lanes(at->row + channel) + at->upper * load_lanes(at->row + width + channel);
}

/* The first layer of a pair in both directions, before the activation. */
static void first_layer(const EdgeWork *work, const Tile *tile, int p, float *forth, float *back)
{
    int64_t width = work->sizes.width;
    const float *weights = work->weights.tables + (int64_t)FUNCTIONS * TABLE_ROWS * width;
    float own = tile->position[1][p], near = tile->position[2][p];
    Reading gap = reading(work, 0, tile->position[0][p], tile->skew[p]);
    Reading span = reading(work, 3, tile->position[3][p], 1), angle = reading(work, 4, tile->position[4][p], 1);
    Reading own_first = reading(work, 1, own, 1), near_second = reading(work, 2, near, 1);
    Reading near_first = reading(work, 1, near, 1), own_second = reading(work, 2, own, 1);
    for (int64_t c = 0; c < width; c += LANES) {
        Lanes sum = read_lanes(&gap, c, width) + read_lanes(&span, c, width) + read_lanes(&angle, c, width);
        if (work->sizes.is_signed)
            for (int k = 0; k < 3; k++)
                sum += tile->orientation[k][p] * load_lanes(weights + k * width + c);
        store_lanes(forth + c, sum + read_lanes(&own_first, c, width) + read_lanes(&near_second, c, width));
        if (back)
            store_lanes(back + c, sum + read_lanes(&near_first, c, width) + read_lanes(&own_second, c, width));
    }
}

/* The edges from some lines to others: `near` has their weights in the averages, `edges` the row of the first one. */
typedef struct {
    int64_t row, column;
    int rows, columns, edges;
    const float *near;
} Direction;

/* Adds edges to the averages around their lines, which are still sums here. */
static void pool_edges(const EdgeWork *work, const Direction *to)
{
    int64_t width = work->sizes.width, radii = work->sizes.radii;
    for (int a = 0; a < to->rows; a++)
        for (int64_t r = 0; r < radii; r++) {
            const float *weight = to->near + r * PAIRS + a * to->columns;
            const float *hidden = work->hidden + (to->edges + a * to->columns) * width;
            float *pooled = work->pooled + (to->row + a) * work->pooled_stride + r * width;
            for (int64_t c = 0; c < width; c += LANES) {
                Lanes sum = load_lanes(pooled + c);
                for (int b = 0; b < to->columns; b++)
                    sum += weight[b] * load_lanes(hidden + b * width + c);
                store_lanes(pooled + c, sum);
            }
            for (int b = 0; b < to->columns; b++)
                work->total[(to->row + a) * radii + r] += weight[b];
        }
}

/* Writes the channels of edges to their planes; filters with the middle one of the weights. */
static void store_channels(const EdgeWork *work, const Direction *to)
{
    const EdgeSizes *sizes = &work->sizes;
    int64_t n = sizes->n, stride = padded(sizes->channels), biases = sizes->channels - sizes->filters;
    for (int64_t c = 0; c < sizes->channels; c++) {
        const float *near = to->near + sizes->radii / 2 * PAIRS;
        for (int a = 0; a < to->rows; a++) {
            const float *head = work->head + (to->edges + a * to->columns) * stride + c;
            float *out = work->out + (c * n + to->row + a) * n + to->column;
            for (int b = 0; b < to->columns; b++)
                out[b] = c < biases ? head[b * stride] : head[b * stride] * near[a * to->columns + b];
        }
    }
}

/* The weights of edges in the averages, in both directions. */
static void set_near(const EdgeWork *work, const Tile *tile, float *near, float *back)
{
    for (int64_t r = 0; r < work->sizes.radii; r++) {
        float decay = work->weights.decay[r];
#pragma omp simd
        for (int p = 0; p < tile->count; p++)
            near[r * PAIRS + p] = exp_of(decay * tile->square[p]);
        for (int a = 0; a < tile->rows; a++)
            for (int b = 0; b < tile->columns; b++)
                back[r * PAIRS + b * tile->rows + a] = near[r * PAIRS + a * tile->columns + b];
    }
}

static void compute_tile(const EdgeWork *work, int64_t row, int64_t column)
{
    const EdgeSizes *sizes = &work->sizes;
    int64_t n = sizes->n, width = sizes->width;
    Tile tile = {.rows = n - row < TILE ? n - row : TILE, .columns = n - column < TILE ? n - column : TILE};
    tile.count = tile.rows * tile.columns;
    for (int a = 0; a < tile.rows; a++)
        set_invariants(work, row + a, column, a, &tile);
    set_positions(&work->weights, &tile);
    int both = row != column, edges = tile.count * (1 + both); /* a tile on the diagonal has both directions anyway */
    for (int a = 0; a < tile.rows; a++)
        for (int b = 0; b < tile.columns; b++) {
            int p = a * tile.columns + b, mirrored = tile.count + b * tile.rows + a;
            first_layer(work, &tile, p, work->first + p * width, both ? work->first + mirrored * width : NULL);
        }
    Layer second = {width, width, work->weights.second, work->weights.second_bias};
    Layer head = {width, sizes->channels, work->weights.head, work->weights.constants};
    gelu(edges * width, work->first);
    apply_layer(&second, edges, work->first, width, work->hidden, width);
    gelu(edges * width, work->hidden);
    apply_layer(&head, edges, work->hidden, width, work->head, padded(sizes->channels));
    float *back = work->near + sizes->radii * PAIRS;
    set_near(work, &tile, work->near, back);
    Direction directions[2] = {{row, column, tile.rows, tile.columns, 0, work->near},
                               {column, row, tile.columns, tile.rows, tile.count, back}};
    for (int k = 0; k <= both; k++) {
        pool_edges(work, &directions[k]);
        store_channels(work, &directions[k]);
    }
}

/* Tiles on and above the diagonal; they are written in blocks because the pages of all planes are many. */
static void compute_block(const EdgeWork *work, int64_t row, int64_t column)
{
    int64_t n = work->sizes.n, last_row = row + BLOCK < n ? row + BLOCK : n;
    int64_t last_column = column + BLOCK < n ? column + BLOCK : n;
    for (int64_t i = row; i < last_row; i += TILE)
        for (int64_t j = i > column ? i : column; j < last_column; j += TILE)
            compute_tile(work, i, j);
}

/* Sums become averages, and filters sum to one. */
static void divide_by_totals(const EdgeWork *work)
{
    const EdgeSizes *sizes = &work->sizes;
    int64_t n = sizes->n, radii = sizes->radii, biases = sizes->channels - sizes->filters;
    for (int64_t row = 0; row < n; row++) {
        float *total = work->total + row * radii;
        for (int64_t r = 0; r < radii; r++) {
            total[r] = 1.0f / (total[r] > 1e-6f ? total[r] : 1e-6f);
            for (int64_t c = 0; c < sizes->width; c++)
                work->pooled[row * work->pooled_stride + r * sizes->width + c] *= total[r];
        }
        for (int64_t c = biases; c < sizes->channels; c++) {
            float *out = work->out + (c * n + row) * n, factor = total[radii / 2];
            for (int64_t j = 0; j < n; j++)
                out[j] *= factor;
        }
    }
}

int edge_channels(const EdgeSizes *sizes, const EdgeWeights *weights, const double *lines, float *out, float *pooled,
                  int64_t pooled_stride)
{
    int64_t edges = 2 * PAIRS, n = sizes->n, radii = sizes->radii;
    int64_t floats = radii * (n + edges) + edges * (2 * sizes->width + padded(sizes->channels));
    float *memory = calloc(floats, sizeof(float));
    if (!memory)
        return 1;
    EdgeWork work = {*sizes, *weights, lines, out, pooled, .total = memory, .pooled_stride = pooled_stride};
    work.near = work.total + radii * n;
    work.first = work.near + radii * edges;
    work.hidden = work.first + edges * sizes->width;
    work.head = work.hidden + edges * sizes->width;
    for (int64_t row = 0; row < n; row++)
        memset(pooled + row * pooled_stride, 0, sizeof(float) * radii * sizes->width);
    for (int64_t row = 0; row < n; row += BLOCK)
        for (int64_t column = row; column < n; column += BLOCK)
            compute_block(&work, row, column);
    divide_by_totals(&work);
    free(memory);
    return 0;
}
