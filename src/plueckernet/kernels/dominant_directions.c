/* Dominant directions of lines, and how well rotations map them: estimation/direction_search.py. */
#include "dense.h"

#define WIDTH 8 /* numbers of lines are filled up to multiples of this, with lines without weight */

/* Lines coordinate by coordinate, `count` with those that fill up. */
typedef struct {
    int64_t count;
    float *x, *y, *z, *weight;
} Directions;

static int64_t filled(int64_t count)
{
    return (count + WIDTH - 1) / WIDTH * WIDTH;
}

/* In an array of four times as many numbers as there are lines, filled up. */
static Directions directions_in(float *memory, int64_t count, const float *direction, const float *weight)
{
    int64_t n = filled(count);
    Directions lines = {n, memory, memory + n, memory + 2 * n, memory + 3 * n};
    memset(memory, 0, sizeof(float) * (size_t)(4 * n));
    for (int64_t i = 0; i < count; i++) {
        lines.x[i] = direction[3 * i], lines.y[i] = direction[3 * i + 1], lines.z[i] = direction[3 * i + 2];
        lines.weight[i] = weight[i];
    }
    return lines;
}

/* The weight of all lines around a direction, by a kernel of the angle. */
static float weight_around(const Directions *lines, float x, float y, float z, float factor)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < lines->count; j++) {
        float cosine = lines->x[j] * x + lines->y[j] * y + lines->z[j] * z;
        sum += lines->weight[j] * exp_of((cosine * cosine - 1) * factor);
    }
    return sum;
}

/* A step of mean shift; lines have no sign. */
static void shift(const Directions *lines, float mode[3], float factor)
{
    float mx = mode[0], my = mode[1], mz = mode[2], x = 0, y = 0, z = 0;
#pragma omp simd reduction(+ : x, y, z)
    for (int64_t j = 0; j < lines->count; j++) {
        float cosine = lines->x[j] * mx + lines->y[j] * my + lines->z[j] * mz;
        float weight = lines->weight[j] * exp_of((cosine * cosine - 1) * factor);
        weight = cosine > 0 ? weight : cosine < 0 ? -weight : 0;
        x += weight * lines->x[j], y += weight * lines->y[j], z += weight * lines->z[j];
    }
    float norm = sqrtf(x * x + y * y + z * z);
    norm = norm > 1e-12f ? norm : 1e-12f;
    mode[0] = x / norm, mode[1] = y / norm, mode[2] = z / norm;
}

/* Lines near a mode count for no other. */
static void leave_out(Directions *lines, const float mode[3], float max_cosine)
{
    for (int64_t j = 0; j < lines->count; j++) {
        float cosine = lines->x[j] * mode[0] + lines->y[j] * mode[1] + lines->z[j] * mode[2];
        if (!(fabsf(cosine) < max_cosine))
            lines->weight[j] = 0;
    }
}

/* The line that has most weight around it. */
static int64_t heaviest(const Directions *lines, int64_t count, float factor)
{
    int64_t place = 0;
    float most = -INFINITY;
    for (int64_t i = 0; i < count; i++) {
        float weight = weight_around(lines, lines->x[i], lines->y[i], lines->z[i], factor);
        if (weight > most)
            most = weight, place = i;
    }
    return place;
}

/* Modes of directions by weight, at most `max_count` and each of more than `least`, after three steps of mean shift
   with the kernel exp((cos^2 - 1) factor). Returns how many were written to `modes`, -1 if there was no memory. */
KERNEL int64_t dominant_directions(int64_t count, const float *direction, const float *weight, float factor,
                                   float least, float max_cosine, int64_t max_count, float *modes)
{
    float *memory = malloc(sizeof(float) * (size_t)(4 * filled(count) + 1));
    int64_t kept = 0;
    if (!memory)
        return -1;
    Directions lines = directions_in(memory, count, direction, weight);
    while (count > 0 && kept < max_count) {
        float *mode = modes + 3 * kept;
        int64_t start = heaviest(&lines, count, factor);
        memcpy(mode, direction + 3 * start, 3 * sizeof(float));
        for (int step = 0; step < 3; step++)
            shift(&lines, mode, factor);
        if (!(weight_around(&lines, mode[0], mode[1], mode[2], factor) > least))
            break;
        leave_out(&lines, mode, max_cosine);
        kept++;
    }
    free(memory);
    return kept;
}

/* How much of the source's lines each rotation makes parallel to the target's. Returns 0, or 1 if there was no
   memory. */
KERNEL int direction_agreement(int64_t rotations, const float *rotation, int64_t rows, const float *direction,
                               const float *weight, int64_t columns, const float *other_direction,
                               const float *other_weight, float factor, float *agreement)
{
    float *memory = malloc(sizeof(float) * (size_t)(4 * filled(columns) + 1));
    if (!memory)
        return 1;
    Directions target = directions_in(memory, columns, other_direction, other_weight);
    for (int64_t h = 0; h < rotations; h++) {
        const float *r = rotation + 9 * h;
        float sum = 0;
        for (int64_t i = 0; i < rows; i++) {
            const float *d = direction + 3 * i;
            float x = r[0] * d[0] + r[1] * d[1] + r[2] * d[2], y = r[3] * d[0] + r[4] * d[1] + r[5] * d[2];
            float z = r[6] * d[0] + r[7] * d[1] + r[8] * d[2];
            sum += weight[i] * weight_around(&target, x, y, z, factor);
        }
        agreement[h] = sum;
    }
    free(memory);
    return 0;
}
