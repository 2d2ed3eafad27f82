/* Builds the grid of segments. */
#include "line_grid.h"

#define PI 3.14159265358979323846
#define NUMBERS_PER_ENTRY 8
#define ANGLES_PER_PATCH 2.5
#define TURNS 8
#define SAMPLES 3
#define MAX_SAMPLES (SAMPLES * 192)
#define MIN_CELL_SIZE 0.05
#define MARGINS_PER_CELL 2.5
#define MAX_ENTRIES ((int64_t)1 << 28) /* there are more numbers than 32 bits have if there are more */
#define TABLE_SIZE 16384 /* more than twice the cubes of a line: eight corners of each sample */

typedef struct {
    uint32_t number;
    int32_t row;
} Entry;

typedef struct {
    Entry *entries;
    int64_t count, room;
    uint32_t *key; /* a table of the cubes of the present line */
    int32_t *line; /* which line each place of the table is of; 0: none */
    uint32_t *cubes;
    int32_t cube_count;
} Collection;

static void add_cube(Collection *collection, int32_t line, uint32_t cube)
{
    uint32_t place = (cube * 2654435761u) >> 18; /* 14 bits */
    while (collection->line[place] == line) {
        if (collection->key[place] == cube)
            return;
        place = (place + 1) % TABLE_SIZE;
    }
    collection->line[place] = line;
    collection->key[place] = cube;
    collection->cubes[collection->cube_count++] = cube;
}

/* The cubes of points on the line, moved to all sides by a margin. */
static void collect_cubes(Collection *collection, int32_t line, const float *anchor, const float *direction,
                          float half_length, float cell_size, float margin)
{
    float wanted = ceilf(2 * half_length * SAMPLES / cell_size);
    int count = 1 + limited(wanted - 1, MAX_SAMPLES);
    int32_t last[6] = {INT32_MIN, 0, 0, 0, 0, 0};
    collection->cube_count = 0;
    for (int sample = 0; sample < count; sample++) {
        float along = (((float)sample + 0.5f) / (float)count * 2 - 1) * half_length;
        int32_t corner[6];
        for (int axis = 0; axis < 3; axis++) {
            float point = anchor[axis] + along * direction[axis];
            corner[axis] = floored((point - margin) / cell_size);
            corner[3 + axis] = floored((point + margin) / cell_size);
        }
        if (!memcmp(corner, last, sizeof corner))
            continue;
        memcpy(last, corner, sizeof corner);
        for (int side = 0; side < 8; side++) {
            int32_t x = corner[side & 1 ? 3 : 0], y = corner[side & 2 ? 4 : 1], z = corner[side & 4 ? 5 : 2];
            add_cube(collection, line + 1, cube_number(x, y, z));
        }
    }
}

/* Of directions and of some that differ from them by an angle, each patch once; returns how many. */
static int patches_of(const float *direction, float turns[TURNS][2], int patches, int found[TURNS + 1])
{
    float x = direction[0], y = direction[1], z = direction[2], axis[3] = {0, 0, 0};
    float ax = fabsf(x), ay = fabsf(y), az = fabsf(z);
    axis[ax <= ay && ax <= az ? 0 : ay <= az ? 1 : 2] = 1;
    float first[3] = {y * axis[2] - z * axis[1], z * axis[0] - x * axis[2], x * axis[1] - y * axis[0]};
    float norm = sqrtf(first[0] * first[0] + first[1] * first[1] + first[2] * first[2]);
    for (int i = 0; i < 3; i++)
        first[i] /= norm > 1e-12f ? norm : 1e-12f;
    float second[3] = {y * first[2] - z * first[1], z * first[0] - x * first[2], x * first[1] - y * first[0]};
    int count = 1;
    found[0] = direction_patch(x, y, z, patches);
    for (int turn = 0; turn < TURNS; turn++) {
        float cosine = turns[turn][0], sine = turns[turn][1];
        int patch = direction_patch(x + cosine * first[0] + sine * second[0], y + cosine * first[1] + sine * second[1],
                                    z + cosine * first[2] + sine * second[2], patches);
        int known = 0;
        for (int k = 0; k < count; k++)
            known |= found[k] == patch;
        if (!known)
            found[count++] = patch;
    }
    return count;
}

static int add_entries(Collection *collection, int32_t row, const int *patches, int patch_count)
{
    int64_t needed = collection->count + (int64_t)collection->cube_count * patch_count;
    if (needed > MAX_ENTRIES)
        return 1;
    if (needed > collection->room) {
        Entry *larger = realloc(collection->entries, sizeof(Entry) * (size_t)(2 * needed));
        if (!larger)
            return 1;
        collection->entries = larger;
        collection->room = 2 * needed;
    }
    for (int32_t k = 0; k < collection->cube_count; k++)
        for (int p = 0; p < patch_count; p++)
            collection->entries[collection->count++] = (Entry){cell_number(collection->cubes[k], patches[p]), row};
    return 0;
}

static int collect(Collection *collection, const LineGrid *grid, int64_t count, const float *anchor,
                   const float *direction, const float *half_length, double distance, double angle)
{
    float margin = (float)hypot(distance, grid->cell_size / (2 * SAMPLES)), turns[TURNS][2];
    for (int turn = 0; turn < TURNS; turn++) {
        turns[turn][0] = (float)(tan(angle) * cos(2 * PI / TURNS * turn));
        turns[turn][1] = (float)(tan(angle) * sin(2 * PI / TURNS * turn));
    }
    for (int64_t i = 0; i < count; i++) {
        int patches[TURNS + 1], patch_count = patches_of(direction + 3 * i, turns, grid->patches, patches);
        collect_cubes(collection, (int32_t)i, anchor + 3 * i, direction + 3 * i, half_length[i] + (float)distance,
                      grid->cell_size, margin);
        if (add_entries(collection, (int32_t)i, patches, patch_count))
            return 1;
    }
    return 0;
}

/* The smallest power of two above a number. */
static int64_t power_above(int64_t number)
{
    int64_t power = 1;
    while (power <= number)
        power *= 2;
    return power;
}

/* The rows of each occupied cell, one cell after the other. */
static int sort_entries(LineGrid *grid, Collection *collection)
{
    int64_t numbers = power_above(NUMBERS_PER_ENTRY * collection->count), words = (numbers + 63) / 64;
    grid->mask = (uint32_t)(numbers - 1);
    grid->bits = calloc((size_t)words, sizeof(uint64_t));
    grid->rank = malloc(sizeof(int32_t) * (size_t)words);
    grid->rows = malloc(sizeof(int32_t) * (size_t)(collection->count + 1));
    if (!grid->bits || !grid->rank || !grid->rows)
        return 1;
    for (int64_t k = 0; k < collection->count; k++) {
        uint32_t number = collection->entries[k].number &= grid->mask;
        grid->bits[number >> 6] |= (uint64_t)1 << (number & 63);
    }
    int32_t occupied = 0;
    for (int64_t word = 0; word < words; word++) {
        grid->rank[word] = occupied;
        occupied += grid->bits[word] ? __builtin_popcountll(grid->bits[word]) : 0;
    }
    grid->start = calloc((size_t)occupied + 2, sizeof(int32_t));
    if (!grid->start)
        return 1;
    for (int64_t k = 0; k < collection->count; k++) {
        int32_t place = occupied_place(grid, collection->entries[k].number);
        collection->entries[k].number = (uint32_t)place;
        grid->start[place + 2]++;
    }
    for (int32_t place = 0; place < occupied; place++)
        grid->start[place + 2] += grid->start[place + 1];
    for (int64_t k = 0; k < collection->count; k++) /* what starts the next cell moves on to its end */
        grid->rows[grid->start[collection->entries[k].number + 1]++] = collection->entries[k].row;
    return 0;
}

int line_grid_build(LineGrid *grid, int64_t count, const float *anchor, const float *direction,
                    const float *half_length, double distance, double angle)
{
    memset(grid, 0, sizeof *grid);
    double size = MARGINS_PER_CELL * distance;
    grid->cell_size = (float)(size > MIN_CELL_SIZE ? size : MIN_CELL_SIZE);
    double edge = PI / 2 / (ANGLES_PER_PATCH * angle);
    grid->patches = edge < 1 ? 1 : edge < 1000 ? (int)edge : 1000;
    Collection collection = {0};
    collection.key = malloc(sizeof(uint32_t) * TABLE_SIZE);
    collection.line = calloc(TABLE_SIZE, sizeof(int32_t));
    collection.cubes = malloc(sizeof(uint32_t) * 8 * MAX_SAMPLES);
    int failed = !collection.key || !collection.line || !collection.cubes;
    failed = failed || collect(&collection, grid, count, anchor, direction, half_length, distance, angle);
    failed = failed || sort_entries(grid, &collection);
    free(collection.key);
    free(collection.line);
    free(collection.cubes);
    free(collection.entries);
    return failed;
}

void line_grid_free(LineGrid *grid)
{
    free(grid->bits);
    free(grid->rank);
    free(grid->start);
    free(grid->rows);
}
