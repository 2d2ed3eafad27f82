/* Translations by votes of parallel lines: estimation/direction_search.py. */
#include "direction_index.h"

#define SIZE 64 /* cells along each axis of the grid of translations */
#define BLOCK 4 /* cells along each axis of a block, by which the mean of the votes is computed */
#define BLOCKS (SIZE / BLOCK)
#define SEPARATION 2 /* cells, along some axis, between peaks */

typedef struct {
    int64_t count;
    const float *anchor, *direction, *half_length; /* the last is NULL for infinite lines */
} Lines;

/* A line as it votes, in cells. */
typedef struct {
    float x, y, z, dx, dy, dz, half, weight, spacing; /* of samples along it */
    int samples;
} Voter;

typedef struct {
    float votes[SIZE][SIZE][SIZE];
    float columns[BLOCKS][BLOCKS][SIZE]; /* sums over the columns of a block, of each layer */
    float blocks[BLOCKS][BLOCKS][BLOCKS], window[BLOCKS][BLOCKS][BLOCKS];
    float mean[BLOCKS][SIZE][SIZE]; /* of the cells around, at the centres of the blocks along x */
    float best[SIZE][SIZE], best_of_plane[SIZE];
} Grid;

static Voter voter(const float *rotation, Lines lines, int64_t i, float cell_size, float middle)
{
    static const float nowhere[3] = {0, 0, 0};
    float half = lines.half_length ? lines.half_length[i] : 1; /* infinite lines are of the size of the map */
    MovedLine line = moved_line(rotation, nowhere, lines.anchor + 3 * i, lines.direction + 3 * i, half, 1 / cell_size);
    float length = 2 * half / cell_size, samples = ceilf(length);
    samples = samples > 1 ? samples : 1; /* also of NaN */
    samples = samples < SIZE ? samples : SIZE;
    return (Voter){line.x + middle, line.y + middle, line.z + middle, line.dx, line.dy, line.dz, length / 2,
                   sqrtf(half), length / samples, (int)samples};
}

/* Numbers that are none are in the first cell. */
static inline int32_t cell_of(float position)
{
    position = position > 0 ? position : 0;
    position = position < SIZE - 1 ? position : SIZE - 1;
    return (int32_t)position;
}

/* Whether two positions, and so all between them, are in the same border cell. */
static inline int outside(float first, float last)
{
    return (first < 1 && last < 1) || (first >= SIZE - 1 && last >= SIZE - 1);
}

/* The translations that make the lines coincide are those from `source` to `target`, and along it. */
static void vote(const Voter *source, const Voter *target, float *votes)
{
    const Voter *longer = source->half > target->half ? source : target;
    float weight = source->weight < target->weight ? source->weight : target->weight;
    float start = 0.5f * longer->spacing - longer->half;
    float dx = target->dx, dy = target->dy, dz = target->dz;
    float x = target->x - source->x + start * dx, y = target->y - source->y + start * dy;
    float z = target->z - source->z + start * dz;
    int samples = longer->samples;
    float length = longer->spacing * (samples - 1);
    if (outside(x, x + length * dx) || outside(y, y + length * dy) || outside(z, z + length * dz))
        return;
    dx *= longer->spacing, dy *= longer->spacing, dz *= longer->spacing;
    for (int first = 0; first < samples; first += LANES) {
        int32_t cell[LANES];
#pragma omp simd
        for (int lane = 0; lane < LANES; lane++) {
            int s = first + lane;
            int32_t inside = (cell_of(x + s * dx) * SIZE + cell_of(y + s * dy)) * SIZE + cell_of(z + s * dz);
            cell[lane] = s < samples ? inside : lane; /* a cell of the border: no branch by the number of samples */
        }
        for (int lane = 0; lane < LANES; lane++)
            votes[cell[lane]] += weight;
    }
}

/* The lines that are voted with, and those of them that may be parallel to a direction. */
typedef struct {
    const Voter *voters;
    const DirectionIndex *index;
    float cell_size, min_cosine, *cosine; /* scratch of as many numbers as a patch of the index has lines */
    int directed;
} Targets;

/* All parallel pairs vote. */
static void cast_votes(const float *rotation, Lines source, const Targets *targets, float *votes)
{
    const LineColumns *columns = &targets->index->columns;
    float *cosine = targets->cosine;
    for (int64_t i = 0; i < source.count; i++) {
        Voter line = voter(rotation, source, i, targets->cell_size, 0);
        int patch = direction_patch(line.dx, line.dy, line.dz, targets->index->patches);
        int64_t first = targets->index->start[patch], used = targets->index->used[patch];
        const float *dx = columns->dx + first, *dy = columns->dy + first, *dz = columns->dz + first;
        int directed = targets->directed;
#pragma omp simd
        for (int64_t j = 0; j < used; j++) {
            float value = line.dx * dx[j] + line.dy * dy[j] + line.dz * dz[j];
            cosine[j] = directed ? value : fabsf(value);
        }
        for (int64_t j = 0; j < used; j++)
            if (cosine[j] > targets->min_cosine)
                vote(&line, targets->voters + targets->index->rows[first + j], votes);
    }
}

/* The border cells have caught what is outside of the grid. */
static void clear_border(float votes[SIZE][SIZE][SIZE])
{
    memset(votes[0], 0, sizeof votes[0]);
    memset(votes[SIZE - 1], 0, sizeof votes[0]);
    for (int x = 1; x < SIZE - 1; x++) {
        memset(votes[x][0], 0, sizeof votes[0][0]);
        memset(votes[x][SIZE - 1], 0, sizeof votes[0][0]);
        for (int y = 1; y < SIZE - 1; y++)
            votes[x][y][0] = votes[x][y][SIZE - 1] = 0;
    }
}

/* Each cell becomes the sum of the eight of which it is the lowest; the columns of blocks sum these. */
static void sum_neighbours(Grid *grid)
{
    memset(grid->columns, 0, sizeof grid->columns);
    for (int x = 0; x < SIZE - 1; x++)
        for (int y = 0; y < SIZE - 1; y++) {
            float *row = grid->votes[x][y], *column = grid->columns[x / BLOCK][y / BLOCK], sum[SIZE + 1];
            const float *beside = grid->votes[x][y + 1];
            const float *next = grid->votes[x + 1][y], *next_beside = grid->votes[x + 1][y + 1];
            sum[SIZE] = 0;
            for (int z = 0; z < SIZE; z++)
                sum[z] = (row[z] + next[z]) + (beside[z] + next_beside[z]);
            for (int z = 0; z < SIZE; z++) {
                row[z] = sum[z] + sum[z + 1];
                column[z] += row[z];
            }
        }
}

/* The two blocks between whose centres a cell is, as weights; a block outside of the grid counts as empty. */
typedef struct {
    int lower, upper;
    float lower_weight, upper_weight;
} Between;

static Between between_blocks(int cell)
{
    int lower = (cell + BLOCK / 2) / BLOCK - 1, upper = lower + 1;
    float part = (cell + 0.5f) / BLOCK - (lower + 0.5f);
    return (Between){lower < 0 ? 0 : lower, upper < BLOCKS ? upper : lower, lower < 0 ? 0 : 1 - part,
                     upper < BLOCKS ? part : 0};
}

/* Along one axis, sums over windows of three blocks, of `inner` numbers each. */
static void sum_windows(int outer, int inner, const float *from, float *to)
{
    for (int o = 0; o < outer; o++)
        for (int b = 0; b < BLOCKS; b++)
            for (int i = 0; i < inner; i++) {
                const float *middle = from + (o * BLOCKS + b) * inner + i;
                float sum = b > 0 ? middle[0] + middle[-inner] : middle[0];
                to[(o * BLOCKS + b) * inner + i] = b < BLOCKS - 1 ? sum + middle[inner] : sum;
            }
}

/* The moving mean of the cells, between the centres of blocks linear; along x only at these. */
static void set_means(Grid *grid)
{
    float *blocks = grid->blocks[0][0], *window = grid->window[0][0], factor = 1 / (27.0f * BLOCK * BLOCK * BLOCK);
    float *columns = grid->columns[0][0];
    for (int b = 0; b < BLOCKS * BLOCKS * BLOCKS; b++) {
        float sum = 0;
        for (int k = 0; k < BLOCK; k++)
            sum += columns[b * BLOCK + k];
        blocks[b] = sum * factor;
    }
    sum_windows(BLOCKS * BLOCKS, 1, blocks, window);
    sum_windows(BLOCKS, BLOCKS, window, blocks);
    sum_windows(1, BLOCKS * BLOCKS, blocks, window);
    for (int z = 0; z < SIZE; z++) {
        Between at = between_blocks(z);
        const float *lower = window + at.lower, *upper = window + at.upper;
        for (int b = 0; b < BLOCKS * BLOCKS; b++)
            columns[b * SIZE + z] = at.lower_weight * lower[b * BLOCKS] + at.upper_weight * upper[b * BLOCKS];
    }
    for (int b = 0; b < BLOCKS; b++)
        for (int y = 0; y < SIZE; y++) {
            Between at = between_blocks(y);
            const float *lower = grid->columns[b][at.lower], *upper = grid->columns[b][at.upper];
            for (int z = 0; z < SIZE; z++)
                grid->mean[b][y][z] = at.lower_weight * lower[z] + at.upper_weight * upper[z];
        }
}

/* The square of the excess over chance, with its sign: it has the same order and needs no root. */
static inline float signed_square(const Grid *grid, Between at, int x, int y, int z)
{
    float mean = at.lower_weight * grid->mean[at.lower][y][z] + at.upper_weight * grid->mean[at.upper][y][z];
    float difference = grid->votes[x][y][z] - mean;
    return difference * fabsf(difference) / (mean + 1);
}

static void set_best(Grid *grid)
{
    for (int x = 0; x < SIZE; x++) {
        Between at = between_blocks(x);
        float best_of_plane = -INFINITY;
        for (int y = 0; y < SIZE; y++) {
            float best = -INFINITY;
#pragma omp simd reduction(max : best)
            for (int z = 0; z < SIZE; z++) {
                float value = signed_square(grid, at, x, y, z);
                best = value > best ? value : best;
            }
            grid->best[x][y] = best;
            best_of_plane = best > best_of_plane ? best : best_of_plane;
        }
        grid->best_of_plane[x] = best_of_plane;
    }
}

static int largest_of(const float *values)
{
    int place = 0;
    for (int i = 1; i < SIZE; i++)
        place = values[i] > values[place] ? i : place;
    return place;
}

/* Takes the best remaining row of the grid: its excess and its cell. */
static float take_best(Grid *grid, int cell[3])
{
    int x = largest_of(grid->best_of_plane), y = largest_of(grid->best[x]);
    float square = grid->best[x][y], value[SIZE];
    grid->best[x][y] = -INFINITY;
    grid->best_of_plane[x] = grid->best[x][largest_of(grid->best[x])];
    for (int z = 0; z < SIZE; z++)
        value[z] = signed_square(grid, between_blocks(x), x, y, z);
    cell[0] = x, cell[1] = y, cell[2] = largest_of(value);
    return copysignf(sqrtf(fabsf(square)), square);
}

/* Greedily the best peaks among some rows that are close to none before them; returns their number. */
static int64_t take_peaks(Grid *grid, int64_t max_peaks, int64_t max_rows, float *excess, float *cells)
{
    int64_t count = 0;
    for (int64_t taken = 0; taken < max_rows && count < max_peaks; taken++) {
        int cell[3], close = 0;
        excess[count] = take_best(grid, cell);
        for (int64_t k = 0; k < count && !close; k++) {
            close = 1;
            for (int axis = 0; axis < 3; axis++)
                close &= fabsf(cells[3 * k + axis] - cell[axis]) <= SEPARATION;
        }
        for (int axis = 0; axis < 3 && !close; axis++)
            cells[3 * count + axis] = cell[axis];
        count += !close;
    }
    return count;
}

static void count_votes(const float *rotation, Lines source, const Targets *targets, Grid *grid)
{
    memset(grid->votes, 0, sizeof grid->votes);
    cast_votes(rotation, source, targets, grid->votes[0][0]);
    clear_border(grid->votes);
    sum_neighbours(grid);
    set_means(grid);
    set_best(grid);
}

/* The peaks of the votes under every rotation: excess over chance and cell of at most `max_peaks` each, among the best
   `max_rows` rows of the grid, fewer than there are; `counts` says how many. Lines are parallel within an angle.
   Returns 0, or 1 if there was no memory. */
KERNEL int vote_peaks(int64_t rotations, const float *rotation, int64_t rows, const float *anchor,
                      const float *direction, const float *half_length, int64_t columns, const float *other_anchor,
                      const float *other_direction, const float *other_half_length, float cell_size, double angle,
                      int directed, int64_t max_peaks, int64_t max_rows, float *excess, float *cells, int64_t *counts)
{
    static const float unturned[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    Lines source = {rows, anchor, direction, half_length};
    Lines target = {columns, other_anchor, other_direction, other_half_length};
    Threshold threshold = {1, (float)angle, 0, directed};
    DirectionIndex index;
    int failed = direction_index_build(&index, columns, other_anchor, other_direction, other_half_length, &threshold);
    Grid *grid = malloc(sizeof(Grid));
    float *cosine = malloc(sizeof(float) * (size_t)(columns + 1));
    Voter *voters = malloc(sizeof(Voter) * (size_t)(columns + 1));
    failed = failed || !grid || !cosine || !voters;
    for (int64_t j = 0; j < columns && !failed; j++)
        voters[j] = voter(unturned, target, j, cell_size, SIZE / 2);
    Targets targets = {voters, &index, cell_size, (float)cos(angle), cosine, directed};
    for (int64_t r = 0; r < rotations && !failed; r++) {
        count_votes(rotation + 9 * r, source, &targets, grid);
        counts[r] = take_peaks(grid, max_peaks, max_rows, excess + max_peaks * r, cells + 3 * max_peaks * r);
    }
    direction_index_free(&index);
    free(grid);
    free(cosine);
    free(voters);
    return failed;
}
