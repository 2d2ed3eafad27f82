/* Turns and translations by votes of the ends of parallel lines: estimation/turn_search.py. */
#include "kernels.h"

/* The best peaks so far, as a heap with the least of them first. */
typedef struct {
    int64_t count, limit;
    float *excess;
    int32_t *peaks; /* four numbers each: turn, x, y and layer */
} Best;

static void swap_peaks(Best *best, int64_t a, int64_t b)
{
    float excess = best->excess[a];
    int32_t peak[4], *first = best->peaks + 4 * a, *second = best->peaks + 4 * b;
    best->excess[a] = best->excess[b], best->excess[b] = excess;
    memcpy(peak, first, sizeof peak);
    memcpy(first, second, sizeof peak);
    memcpy(second, peak, sizeof peak);
}

static void sift_up(Best *best, int64_t at)
{
    for (int64_t parent = (at - 1) / 2; at && best->excess[at] < best->excess[parent]; parent = (at - 1) / 2) {
        swap_peaks(best, at, parent);
        at = parent;
    }
}

static void sift_down(Best *best)
{
    for (int64_t at = 0, least = 0;; at = least) {
        for (int64_t child = 2 * at + 1; child <= 2 * at + 2 && child < best->count; child++)
            least = best->excess[child] < best->excess[least] ? child : least;
        if (least == at)
            return;
        swap_peaks(best, at, least);
    }
}

/* Peaks of no more than this are not among the best. */
static float least_excess(const Best *best)
{
    return best->count < best->limit ? 0 : best->excess[0];
}

static void keep(Best *best, float excess, const int32_t peak[4])
{
    if (!(excess > least_excess(best)))
        return;
    int64_t at = best->count < best->limit ? best->count++ : 0;
    best->excess[at] = excess;
    memcpy(best->peaks + 4 * at, peak, 4 * sizeof *peak);
    if (at)
        sift_up(best, at);
    else
        sift_down(best);
}

/* Two ends, in cells across the lines, that coincide if the translation along the lines is that of the layer. */
typedef struct {
    float x, y, other_x, other_y;
} EndPair;

typedef struct {
    int64_t size, directions, steps;
    const int32_t *around; /* offsets of cells in x and y, by direction and step */
    float *votes, *sums;   /* of size * size cells; the last row and column of sums are zero */
} Grid;

static void count_votes(const Grid *grid, const EndPair *pairs, int64_t count, float cosine, float sine)
{
    int64_t size = grid->size;
    float middle = 0.5f * size;
    memset(grid->votes, 0, sizeof(float) * (size_t)(size * size));
    for (int64_t p = 0; p < count; p++) {
        EndPair pair = pairs[p];
        float x = pair.other_x - (cosine * pair.x - sine * pair.y) + middle;
        float y = pair.other_y - (sine * pair.x + cosine * pair.y) + middle;
        if (x >= 0 && y >= 0 && x < size && y < size)
            grid->votes[(int64_t)x * size + (int64_t)y] += 1;
    }
    for (int64_t x = 0; x < size - 1; x++) {
        const float *row = grid->votes + x * size, *next = row + size;
        float *sum = grid->sums + x * size;
        for (int64_t y = 0; y < size - 1; y++)
            sum[y] = row[y] + row[y + 1] + next[y] + next[y + 1];
    }
}

/* The mean votes of the cells around, in the direction where they are most. */
static float votes_around(const Grid *grid, int64_t x, int64_t y)
{
    const int32_t *offset = grid->around;
    float most = 0;
    for (int64_t d = 0; d < grid->directions; d++) {
        float sum = 0;
        for (int64_t s = 0; s < grid->steps; s++, offset += 2) {
            int64_t i = x + offset[0], j = y + offset[1];
            if (i >= 0 && j >= 0 && i < grid->size && j < grid->size)
                sum += grid->sums[i * grid->size + j];
        }
        most = sum > most ? sum : most;
    }
    return most / grid->steps;
}

/* Whether no cell beside it has more votes; of equal ones the first. */
static int is_peak(const float *sum, int64_t size)
{
    const float *above = sum - size, *below = sum + size;
    return *sum > above[-1] && *sum > above[0] && *sum > above[1] && *sum > sum[-1] && *sum >= sum[1]
           && *sum >= below[-1] && *sum >= below[0] && *sum >= below[1];
}

static void take_peaks(const Grid *grid, int32_t turn, int32_t layer, Best *best)
{
    int64_t size = grid->size;
    for (int64_t x = 1; x < size - 1; x++) {
        const float *row = grid->sums + x * size;
        float most = 0;
#pragma omp simd reduction(max : most)
        for (int64_t y = 1; y < size - 1; y++)
            most = row[y] > most ? row[y] : most;
        for (int64_t y = 1; y < size - 1 && most > least_excess(best); y++) {
            if (row[y] <= least_excess(best) || !is_peak(row + y, size))
                continue;
            float around = votes_around(grid, x, y);
            keep(best, (row[y] - around) / sqrtf(around + 1), (int32_t[]){turn, (int32_t)x, (int32_t)y, layer});
        }
    }
}

/* Like ends whose heights differ by those of a layer or of the next one; returns their number. */
static int64_t pairs_of_layer(int64_t rows, const float *ends, int64_t columns, const float *other_ends, float first,
                              EndPair *pairs)
{
    int64_t count = 0;
    for (int64_t i = 0; i < 2 * rows; i++) /* lower and upper ends in turn */
        for (int64_t j = i % 2; j < 2 * columns; j += 2) {
            const float *end = ends + 3 * i, *other = other_ends + 3 * j;
            float height = other[2] - end[2];
            if (height >= first && height < first + 2)
                pairs[count++] = (EndPair){end[0], end[1], other[0], other[1]};
        }
    return count;
}

/* The best peaks of the votes of ends, in any order, over all turns (cosine and sine) about the lines and all layers of
   translations along them: at most `limit`, as excess over the votes around and as turn, x, y and layer. Ends are the
   lower and the upper one of each line, across the lines in cells, along them in layers. Returns the number of peaks,
   or -1 if there was no memory. */
KERNEL int64_t end_vote_peaks(int64_t rows, const float *ends, int64_t columns, const float *other_ends, int64_t turns,
                              const float *turn, int64_t size, int64_t layers, int64_t directions, int64_t steps,
                              const int32_t *around, int64_t limit, float *excess, int32_t *peaks)
{
    Best best = {0, limit, excess, peaks};
    EndPair *pairs = malloc(sizeof(EndPair) * (size_t)(2 * rows * columns + 1));
    float *cells = calloc((size_t)(2 * size * size), sizeof(float));
    Grid grid = {size, directions, steps, around, cells, cells + size * size};
    for (int64_t layer = 0; layer < layers - 1 && pairs && cells; layer++) {
        int64_t count = pairs_of_layer(rows, ends, columns, other_ends, layer - 0.5f * layers, pairs);
        for (int64_t t = 0; t < turns && count > least_excess(&best); t++) {
            count_votes(&grid, pairs, count, turn[2 * t], turn[2 * t + 1]);
            take_peaks(&grid, (int32_t)t, (int32_t)layer, &best);
        }
    }
    int64_t found = pairs && cells ? best.count : -1;
    free(pairs);
    free(cells);
    return found;
}
