/* One Gauss-Newton step of a pose on close pairs of lines, and the noise of these: estimation/refinement.py. */
#include "refining.h"

#define BLOCK 128 /* pairs whose derivatives are held at once */
#define MIN_COSINE 1e-6 /* of the angle between two lines of a pair */
#define SMALL_ANGLE 1e-4 /* rad; below it Taylor series are exact to 1e-16 */
#define MIN_EIGENVALUE 1e-9 /* of the information with unit diagonal; below it a motion is undetermined */

/* Derivatives by the pose and, last, values of four residuals with unit covariance, as of `PairResiduals.design`. */
struct block {
    double design[7][4][BLOCK];
    double position[2][BLOCK], direction[2][BLOCK], lever[BLOCK], scale[BLOCK];
    double square[2][BLOCK]; /* of position and direction, in variances */
    double area[2][BLOCK];   /* that of the threshold over twice the variance */
};

struct vector {
    double x, y, z;
};

static inline double dot(struct vector a, struct vector b)
{
    return a.x * b.x + a.y * b.y + a.z * b.z;
}

static inline struct vector cross(struct vector a, struct vector b)
{
    struct vector result = {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
    return result;
}

/* a + s b */
static inline struct vector added(struct vector a, double s, struct vector b)
{
    struct vector result = {a.x + s * b.x, a.y + s * b.y, a.z + s * b.z};
    return result;
}

static inline struct vector turned(const double *r, struct vector v)
{
    struct vector result = {r[0] * v.x + r[1] * v.y + r[2] * v.z, r[3] * v.x + r[4] * v.y + r[5] * v.z,
                            r[6] * v.x + r[7] * v.y + r[8] * v.z};
    return result;
}

static inline struct vector scaled(double s, struct vector a)
{
    struct vector result = {s * a.x, s * a.y, s * a.z};
    return result;
}

/* A line of `n`, from its column. */
static inline struct vector column(const double *rows, int64_t n)
{
    struct vector result = {rows[0], rows[n], rows[2 * n]};
    return result;
}

/* 1 for both zeros, without a branch. */
static inline double sign(double value)
{
    return copysign(1.0, value + 0.0);
}

/* Of a moved line and a target line; formulas of geometry/residuals.py. */
struct residual {
    struct vector direction, crossing; /* of the moved line, and where it meets the plane across the target line */
    struct vector along, first, second; /* the target line over the cosine, and two unit vectors across it */
    struct vector off;
    double lever;
};

static inline struct residual residual_of(const struct model *m, const double *source, const double *target, int64_t n)
{
    struct residual r;
    struct vector e = column(target, n), q = column(target + 3 * n, n), t = column(m->translation, 1);
    struct vector point = added(t, 1, turned(m->rotation, column(source + 3 * n, n)));
    r.direction = turned(m->rotation, column(source, n));
    double cosine = dot(r.direction, e), size = fabs(cosine);
    r.direction = scaled(sign(cosine), r.direction);
    r.along = scaled(1 / (size < MIN_COSINE ? MIN_COSINE : size), e);
    r.lever = dot(added(q, -1, point), r.along);
    r.crossing = added(point, r.lever, r.direction);
    r.off = added(r.crossing, -1, q);
    struct vector normal = {e.x, e.y, e.z + sign(e.z)};
    normal = scaled(-1 / (1 + fabs(e.z)), normal);
    r.first = scaled(e.x, normal);
    r.second = scaled(e.y, normal);
    r.first.x += 1;
    r.second.y += 1;
    return r;
}

/* What whitens the residuals of a pair: `PairResiduals.design`. */
struct whitening {
    double gain, shift, turn; /* of the position on the direction; one over the sigmas */
};

/* The residuals on one axis across the target line, with their derivatives. */
static inline void put(struct block *b, int axis, int64_t i, const struct residual *r, struct vector across,
                       struct whitening w)
{
    double tilt = dot(across, r->direction), position = dot(across, r->off);
    struct vector project = added(across, -tilt, r->along), spin = cross(r->direction, across);
    struct vector omega = scaled(w.shift, added(cross(r->crossing, project), -w.gain, spin));
    b->design[0][axis][i] = omega.x;
    b->design[1][axis][i] = omega.y;
    b->design[2][axis][i] = omega.z;
    b->design[3][axis][i] = w.shift * project.x;
    b->design[4][axis][i] = w.shift * project.y;
    b->design[5][axis][i] = w.shift * project.z;
    b->design[6][axis][i] = w.shift * (position - w.gain * tilt);
    b->design[0][2 + axis][i] = w.turn * spin.x;
    b->design[1][2 + axis][i] = w.turn * spin.y;
    b->design[2][2 + axis][i] = w.turn * spin.z;
    b->design[6][2 + axis][i] = w.turn * tilt;
    b->position[axis][i] = position;
    b->direction[axis][i] = tilt;
}

/* The residuals of `size` pairs from `from` on. */
static void fill(struct block *restrict b, const struct pairs *pairs, const struct model *model, int64_t from,
                 int64_t size)
{
    const int64_t n = pairs->count;
    const double *restrict s = pairs->source + from, *restrict t = pairs->target + from;
    const struct model m = *model;
    const double shift = m.noise.position * m.noise.position, turn = m.noise.direction * m.noise.direction;
    const double ends = 2 * m.noise.endpoint * m.noise.endpoint;
    for (int64_t i = 0; i < size; i++) {
        struct residual r = residual_of(&m, s + i, t + i, n);
        double x = dot(r.first, r.direction), y = dot(r.second, r.direction);
        double sd = (turn + ends * s[i + 7 * n]) * s[i + 6 * n], td = (turn + ends * t[i + 7 * n]) * t[i + 6 * n];
        double spread = sd + td, square = (x * x + y * y) / spread;
        double scale = (m.free - 2 + square) / (m.free + 2), gain = r.lever * (sd / spread);
        double variance = shift * (s[i + 6 * n] + t[i + 6 * n]) + gain * r.lever * td * scale;
        struct whitening w = {gain, 1 / sqrt(variance), 1 / sqrt(scale * spread)};
        put(b, 0, i, &r, r.first, w);
        put(b, 1, i, &r, r.second, w);
        b->lever[i] = r.lever;
        b->scale[i] = scale;
        b->square[0][i] = b->design[6][0][i] * b->design[6][0][i] + b->design[6][1][i] * b->design[6][1][i];
        b->square[1][i] = square;
        b->area[0][i] = m.distance * m.distance / 2 / variance;
        b->area[1][i] = m.angle * m.angle / 2 / spread;
    }
}

/* Along the motions that are allowed: `RefinementSettings.allowed_design`. */
static void keep_upright(struct block *b, const double *up, int64_t size)
{
    for (int residual = 0; residual < 4; residual++)
        for (int64_t i = 0; i < size; i++) {
            double about = 0;
            for (int k = 0; k < 3; k++)
                about += up[k] * b->design[k][residual][i];
            for (int k = 0; k < 3; k++)
                b->design[k][residual][i] = up[k] * about;
        }
}

/* Densities of a match relative to a uniform density within the threshold: normal, and Student's t on two axes. */
static void densities(const struct block *b, double free, int64_t size, double *position, double *direction)
{
    double inverse = 1 / (free - 2), factor = free * inverse;
    for (int64_t i = 0; i < size; i++)
        position[i] = exp(b->square[0][i] / -2) * b->area[0][i];
    if (free == 5) { /* the default, without powers */
#pragma omp simd
        for (int64_t i = 0; i < size; i++) {
            double base = 1 + b->square[1][i] * inverse;
            direction[i] = b->area[1][i] * factor / (base * base * base * sqrt(base));
        }
        return;
    }
    for (int64_t i = 0; i < size; i++)
        direction[i] = b->area[1][i] * factor * pow(1 + b->square[1][i] * inverse, -(free + 2) / 2);
}

/* Of the pairs from `from` on, everything that does not depend on the probabilities. */
static void begin(struct block *b, const struct pairs *pairs, const struct model *model, int64_t from, struct fit *fit,
                  double *position, double *direction)
{
    int64_t n = pairs->count, size = n - from < BLOCK ? n - from : BLOCK;
    fill(b, pairs, model, from, size);
    densities(b, model->free, size, position + from, direction + from);
    memcpy(fit->lever + from, b->lever, size * sizeof(double));
    memcpy(fit->scale + from, b->scale, size * sizeof(double));
    for (int axis = 0; axis < 2; axis++) {
        memcpy(fit->position + axis * n + from, b->position[axis], size * sizeof(double));
        memcpy(fit->direction + axis * n + from, b->direction[axis], size * sizeof(double));
    }
}

/* The sums of the values of all pairs of the same line, by line. */
static void line_sums(int64_t count, const double *value, const int64_t *line, int64_t lines, double *sums)
{
    memset(sums, 0, lines * sizeof(double));
    for (int64_t i = 0; i < count; i++)
        sums[line[i]] += value[i];
}

static inline double competing(double sum, double own, double unmatched)
{
    double others = sum - own;
    return (others > 0 ? others : 0) + unmatched;
}

static double clamped(double value, double low, double high)
{
    return value > high ? high : value < low ? low : value;
}

/* Numbers that expectation maximisation estimates: see `ClosePairs.match_probability`. */
struct fractions {
    double matched, wrong, parallel;
};

/* Where beliefs and densities are kept, `count` numbers each, and two rows of sums by line. */
struct beliefs {
    double *at_crowding, *direction, *density, *forward, *back, *value, *sums[2];
};

/* One iteration of belief propagation and of expectation maximisation. */
static struct fractions propagate(const struct pairs *pairs, const struct beliefs *b, struct fractions f, double limit)
{
    int64_t n = pairs->count;
    const int64_t *first = pairs->rows[0], *second = pairs->rows[1];
    double alike = f.wrong * f.parallel, others = f.wrong - alike, unmatched = sqrt((1 - f.matched) / f.matched);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        b->density[i] = b->at_crowding[i] / (alike * b->direction[i] + others);
        b->value[i] = b->density[i] * b->back[i];
    }
    line_sums(n, b->value, first, pairs->lines[0], b->sums[0]);
    for (int64_t i = 0; i < n; i++)
        b->forward[i] = b->density[i] / competing(b->sums[0][first[i]], b->value[i], unmatched);
    line_sums(n, b->forward, second, pairs->lines[1], b->sums[1]);
    double doubts = 0, alike_doubts = 0;
    for (int64_t i = 0; i < n; i++) {
        double backward = competing(b->sums[1][second[i]], b->forward[i], unmatched);
        double doubt = backward / (backward + b->forward[i]);
        b->back[i] = 1 / backward;
        b->value[i] = doubt;
        doubts += doubt;
        alike_doubts += doubt * b->direction[i] / (alike * b->direction[i] + others);
    }
    double fraction = alike * alike_doubts / (doubts > 1e-9 ? doubts : 1e-9);
    struct fractions next = {clamped((n - doubts) / limit, 0.05, 0.999), (doubts > 1 ? doubts : 1) / limit,
                             clamped(fraction, 0.02, 0.98)};
    return next;
}

/* The probability that each pair is a match, and that no competing pair is the match instead. */
static void match_probability(const struct pairs *pairs, const struct model *model, const struct beliefs *b,
                              struct fit *fit)
{
    int64_t n = pairs->count;
    const int64_t *first = pairs->rows[0], *second = pairs->rows[1];
    struct fractions f = {0.7, 0.5, 0.5};
    double mean = 0;
    for (int64_t i = 0; i < n; i++)
        mean += pairs->competitors[i] + model->unseen;
    mean /= n;
    for (int64_t i = 0; i < n; i++) {
        b->at_crowding[i] *= b->direction[i] * mean / (pairs->competitors[i] + model->unseen);
        b->back[i] = sqrt(f.matched / (1 - f.matched));
    }
    for (int64_t i = 0; i < model->iterations; i++)
        f = propagate(pairs, b, f, pairs->max_matches > 1 ? pairs->max_matches : 1);
    line_sums(n, b->density, first, pairs->lines[0], b->sums[0]);
    line_sums(n, b->density, second, pairs->lines[1], b->sums[1]);
    for (int64_t i = 0; i < n; i++) {
        double total = b->sums[0][first[i]] + b->sums[1][second[i]] - b->density[i];
        fit->exclusive[i] = b->density[i] / (total > 1e-300 ? total : 1e-300);
        fit->weight[i] = b->forward[i] * b->back[i] / (1 + b->forward[i] * b->back[i]);
    }
}

static double product(const double *a, const double *b, int64_t size)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < size; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Adds the products of the weighted derivatives with derivatives and values to (6, columns) sums, the upper triangle.
   The direction does not depend on tau. */
static void add_products(const struct block *b, const double *weight, int64_t size, int columns, double *sums)
{
    double weighted[BLOCK];
    for (int residual = 0; residual < 4; residual++)
        for (int row = 0; row < (residual < 2 ? 6 : 3); row++) {
#pragma omp simd
            for (int64_t i = 0; i < size; i++)
                weighted[i] = weight[i] * b->design[row][residual][i];
            for (int column = row; column < columns; column++)
                if (residual < 2 || column < 3 || column == 6)
                    sums[row * columns + column] += product(weighted, b->design[column][residual], size);
        }
}

static void mirror(double *sums, int columns)
{
    for (int row = 1; row < 6; row++)
        for (int column = 0; column < row; column++)
            sums[row * columns + column] = sums[column * columns + row];
}

/* Weighted sums over all pairs, of the step and of the covariance. */
static void sum_up(struct block *b, const struct pairs *pairs, const struct model *model, struct fit *fit)
{
    double information[BLOCK];
    int64_t n = pairs->count;
    memset(fit->products, 0, 42 * sizeof(double));
    if (fit->information)
        memset(fit->information, 0, 36 * sizeof(double));
    for (int64_t from = 0; from < n; from += BLOCK) {
        int64_t size = n - from < BLOCK ? n - from : BLOCK;
        if (n > BLOCK) /* or else it is there still */
            fill(b, pairs, model, from, size);
        if (model->is_upright)
            keep_upright(b, model->up, size);
        add_products(b, fit->weight + from, size, 7, fit->products);
        if (!fit->information)
            continue;
        for (int64_t i = 0; i < size; i++)
            information[i] = fit->exclusive[from + i] * sqrt(fit->weight[from + i]);
        add_products(b, information, size, 6, fit->information);
    }
    mirror(fit->products, 7);
    if (fit->information)
        mirror(fit->information, 6);
}

/* Cholesky's factor of a matrix, in place below its diagonal; false if it is not positive definite. */
static int factorise(double matrix[6][6])
{
    for (int i = 0; i < 6; i++)
        for (int j = 0; j <= i; j++) {
            double sum = matrix[i][j];
            for (int k = 0; k < j; k++)
                sum -= matrix[i][k] * matrix[j][k];
            if (i == j && !(sum > 0))
                return 0;
            matrix[i][j] = i == j ? sqrt(sum) : sum / matrix[j][j];
        }
    return 1;
}

/* Whether all eigenvalues of the information with unit diagonal are above the least. */
static int is_determined(const double *products)
{
    double matrix[6][6], scale[6];
    for (int i = 0; i < 6; i++)
        scale[i] = 1 / sqrt(products[8 * i] > 1e-300 ? products[8 * i] : 1e-300);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            matrix[i][j] = products[7 * i + j] * scale[i] * scale[j] - (i == j ? MIN_EIGENVALUE : 0);
    return factorise(matrix);
}

/* The step -(information + damping)^-1 gradient, and its length in standard deviations. */
static int solve(const double *products, double *xi)
{
    double matrix[6][6], damping = 1, square = 0;
    for (int i = 0; i < 6; i++)
        damping = products[8 * i] > damping ? products[8 * i] : damping;
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            matrix[i][j] = products[7 * i + j] + (i == j ? 1e-12 * damping : 0);
    if (!factorise(matrix))
        return 0;
    for (int i = 0; i < 6; i++) {
        xi[i] = -products[7 * i + 6];
        for (int k = 0; k < i; k++)
            xi[i] -= matrix[i][k] * xi[k];
        xi[i] /= matrix[i][i];
    }
    for (int i = 5; i >= 0; i--) {
        for (int k = i + 1; k < 6; k++)
            xi[i] -= matrix[k][i] * xi[k];
        xi[i] /= matrix[i][i];
    }
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            square += xi[i] * products[7 * i + j] * xi[j];
    xi[6] = sqrt(square > 0 ? square : 0);
    return 1;
}

/* a + b, of 3 x 3 matrices, b times s */
static void add_matrix(double *a, double s, const double *b)
{
    for (int i = 0; i < 9; i++)
        a[i] += s * b[i];
}

/* exp(xi) @ pose, as `PoseArrays.stepped`. */
static void step_pose(const struct model *model, const double *xi, double *pose)
{
    double square = xi[0] * xi[0] + xi[1] * xi[1] + xi[2] * xi[2], angle = sqrt(square);
    int small = square < SMALL_ANGLE * SMALL_ANGLE; /* where the closed forms lose precision */
    double a = small ? 1 - square / 6 : sin(angle) / angle;
    double b = small ? 0.5 - square / 24 : 2 * sin(angle / 2) * sin(angle / 2) / square;
    double c = small ? 1.0 / 6 - square / 120 : (angle - sin(angle)) / (square * angle);
    const double cross_matrix[9] = {0, -xi[2], xi[1], xi[2], 0, -xi[0], -xi[1], xi[0], 0};
    double twice[9], turn[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, shift[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    for (int i = 0; i < 3; i++) /* w w^T - |w|^2 */
        for (int j = 0; j < 3; j++)
            twice[3 * i + j] = xi[i] * xi[j] - (i == j ? square : 0);
    add_matrix(turn, a, cross_matrix);
    add_matrix(turn, b, twice);
    add_matrix(shift, b, cross_matrix);
    add_matrix(shift, c, twice);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            pose[3 * i + j] = 0;
            for (int k = 0; k < 3; k++)
                pose[3 * i + j] += turn[3 * i + k] * model->rotation[3 * k + j];
        }
    struct vector translation = added(turned(turn, column(model->translation, 1)), 1, turned(shift, column(xi + 3, 1)));
    pose[9] = translation.x;
    pose[10] = translation.y;
    pose[11] = translation.z;
}

/* One step on pairs weighted by their probability. Returns 0 for fewer than three matches, 1 for a step, 2 if a motion
   is undetermined and there is no step, -1 without memory. */
KERNEL int64_t fit_pairs(const struct pairs *pairs, const struct model *model, struct fit *fit)
{
    int64_t n = pairs->count;
    double *memory = malloc((6 * n + pairs->lines[0] + pairs->lines[1]) * sizeof(double) + sizeof(struct block));
    if (!memory)
        return -1;
    struct block *block = (struct block *)memory;
    double *rows = memory + sizeof(struct block) / sizeof(double);
    struct beliefs beliefs = {rows,         rows + n,     rows + 2 * n, rows + 3 * n,
                              rows + 4 * n, rows + 5 * n, {rows + 6 * n, rows + 6 * n + pairs->lines[0]}};
    for (int64_t from = 0; from < n; from += BLOCK)
        begin(block, pairs, model, from, fit, beliefs.at_crowding, beliefs.direction);
    match_probability(pairs, model, &beliefs, fit);
    double total = 0;
    for (int64_t i = 0; i < n; i++)
        total += fit->weight[i];
    int64_t result = 0;
    if (!(total < 3)) {
        sum_up(block, pairs, model, fit);
        result = is_determined(fit->products) && solve(fit->products, fit->xi) ? 1 : 2;
        if (result == 1)
            step_pose(model, fit->xi, fit->pose);
    }
    free(memory);
    return result;
}

/* 1 for pairs that are inliers of the pose, 0 for others, as `RowScorer.fit` above zero. */
static void find_inliers(const struct pairs *pairs, const struct model *model, int64_t directed, int64_t from,
                         int64_t size, double *weight)
{
    const int64_t n = pairs->count;
    const double *s = pairs->source + from, *t = pairs->target + from;
    const double unit = 1 / (model->distance * model->distance), bend = 1 / (model->angle * model->angle);
    for (int64_t i = 0; i < size; i++) {
        struct vector d = turned(model->rotation, column(s + i, n)), e = column(t + i, n);
        struct vector point = added(column(model->translation, 1), 1, turned(model->rotation, column(s + i + 3 * n, n)));
        struct vector offset = added(column(t + i + 3 * n, n), -1, point);
        double along = dot(offset, d), cosine = dot(d, e);
        double value = unit * (dot(offset, offset) - along * along) + bend * (1 - cosine * cosine);
        weight[i] = value < 1 && !(directed && cosine < 0);
    }
}

/* One step of each of `count` poses on the pairs that are its inliers: `candidates.polished`. The poses are changed in
   place; `model` has all but the pose, and no vertical. */
KERNEL int64_t polish_poses(const struct pairs *pairs, const struct model *model, int64_t directed, int64_t count,
                            double *rotation, double *translation)
{
    struct block *block = calloc(1, sizeof *block);
    if (!block)
        return -1;
    for (int64_t k = 0; k < count; k++) {
        struct model placed = *model;
        double products[42] = {0}, weight[BLOCK], xi[7], pose[12];
        memcpy(placed.rotation, rotation + 9 * k, 9 * sizeof(double));
        memcpy(placed.translation, translation + 3 * k, 3 * sizeof(double));
        for (int64_t from = 0; from < pairs->count; from += BLOCK) {
            int64_t size = pairs->count - from < BLOCK ? pairs->count - from : BLOCK;
            fill(block, pairs, &placed, from, size);
            find_inliers(pairs, &placed, directed, from, size, weight);
            add_products(block, weight, size, 7, products);
        }
        mirror(products, 7);
        if (solve(products, xi)) {
            step_pose(&placed, xi, pose);
            memcpy(rotation + 9 * k, pose, 9 * sizeof(double));
            memcpy(translation + 3 * k, pose + 9, 3 * sizeof(double));
        }
    }
    free(block);
    return 0;
}

/* Splits rows (count, 2) into those of the source and of the target, and writes for each pair how many other pairs
   contain one of its lines. Returns the largest possible number of matches, -1 without memory. */
KERNEL int64_t count_competitors(int64_t count, const int64_t *rows, int64_t sources, int64_t targets, int64_t *first,
                                 int64_t *second, int64_t *competitors)
{
    int64_t *counts = calloc(sources + targets + 1, sizeof(int64_t)), *others = counts + sources, lines[2] = {0, 0};
    if (!counts)
        return -1;
    for (int64_t i = 0; i < count; i++) {
        first[i] = rows[2 * i];
        second[i] = rows[2 * i + 1];
        lines[0] += !counts[first[i]]++;
        lines[1] += !others[second[i]]++;
    }
    for (int64_t i = 0; i < count; i++)
        competitors[i] = counts[first[i]] + others[second[i]] - 2;
    free(counts);
    return lines[0] < lines[1] ? lines[0] : lines[1];
}

struct weighted {
    double value, weight;
};

static void swap(struct weighted *a, struct weighted *b)
{
    struct weighted kept = *a;
    *a = *b;
    *b = kept;
}

/* The first value below or at which there is half of the weight, as `noise._median`; the order of values changes. */
static double weighted_median(struct weighted *values, int64_t count)
{
    double below = 0, half = 0;
    for (int64_t i = 0; i < count; i++)
        half += values[i].weight / 2;
    int64_t low = 0, high = count - 1; /* the median is among these */
    while (low < high) {
        double a = values[low].value, b = values[(low + high) / 2].value, c = values[high].value;
        double pivot = a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
        int64_t smaller = low, larger = high, i = low;
        double weight = 0, equal = 0;
        while (i <= larger) /* smaller ones first, larger ones last */
            if (values[i].value < pivot) {
                weight += values[i].weight;
                swap(values + i++, values + smaller++);
            } else if (values[i].value > pivot) {
                swap(values + i, values + larger--);
            } else {
                equal += values[i++].weight;
            }
        if (smaller > low && below + weight >= half) {
            high = smaller - 1;
        } else if (below + weight + equal >= half || larger == high) {
            return pivot;
        } else {
            below += weight + equal;
            low = larger + 1;
        }
    }
    return count ? values[low].value : 0;
}

/* Not a number, which no order has, comes last. */
static double ordered(double value)
{
    return isnan(value) ? INFINITY : value;
}

/* Medians of `noise.robust_noise`, over some rows of the pairs: the direction, at least `floor`, and the ratio of the
   positions to what the noise predicts. Both are divided by `unit`. Returns -1 without memory. */
KERNEL int64_t noise_medians(const struct pairs *pairs, const struct fit *fit, int64_t count, const int64_t *rows,
                             double sigma, double unit, double floor, double *result)
{
    int64_t n = pairs->count;
    struct weighted *values = malloc((count + 1) * sizeof *values);
    if (!values)
        return -1;
    const double *factor = pairs->source + 6 * n, *other = pairs->target + 6 * n;
    for (int64_t i = 0; i < count; i++) {
        double x = fit->direction[rows[i]], y = fit->direction[n + rows[i]];
        values[i].value = ordered(sqrt(x * x + y * y) / sqrt(factor[rows[i]] + other[rows[i]]));
        values[i].weight = fit->weight[rows[i]];
    }
    double direction = weighted_median(values, count) / unit;
    result[0] = direction > floor ? direction : floor;
    for (int64_t i = 0; i < count; i++) {
        int64_t row = rows[i];
        double x = fit->position[row], y = fit->position[n + row], carried = result[0] * fit->lever[row];
        double variance = (factor[row] + other[row]) * sigma * sigma + carried * carried * factor[row];
        values[i].value = ordered(sqrt(x * x + y * y) / sqrt(variance));
        values[i].weight = fit->weight[row];
    }
    result[1] = weighted_median(values, count) / unit;
    free(values);
    return 0;
}

/* Sums of `noise.fitted_noise`: weighted products of (a, b, v) with (a, b), where v is the mean square of the direction,
   a and b what the squares of the noise of directions and ends add to it; each pair counts by its `trust`. */
KERNEL void direction_sums(const struct pairs *pairs, const struct fit *fit, const double *trust,
                           const struct noise *noise, double *result)
{
    int64_t n = pairs->count;
    const double *s = pairs->source + 6 * n, *t = pairs->target + 6 * n;
    double turn = noise->direction * noise->direction, ends = noise->endpoint * noise->endpoint;
    double sums[6] = {0};
    for (int64_t i = 0; i < n; i++) {
        double a = s[i] + t[i], b = 2 * (s[i] * s[i + n] + t[i] * t[i + n]), spread = turn * a + ends * b;
        double x = fit->direction[i], y = fit->direction[n + i], value = (x * x + y * y) / 2 / fit->scale[i];
        double weight = trust[i] / (spread * spread);
        sums[0] += weight * a * a;
        sums[1] += weight * a * b;
        sums[2] += weight * a * value;
        sums[4] += weight * b * b;
        sums[5] += weight * b * value;
    }
    sums[3] = sums[1];
    memcpy(result, sums, sizeof sums);
}

/* Weighted sums of the mean squares of the position times `ratio` beyond what the direction carries to it, and of the
   noise factors. `noise` has the new direction and the previous position. */
KERNEL void position_sums(const struct pairs *pairs, const struct fit *fit, const double *trust,
                          const struct noise *noise, double ratio, double *result)
{
    int64_t n = pairs->count;
    const double *s = pairs->source + 6 * n, *t = pairs->target + 6 * n;
    double turn = noise->direction * noise->direction, ends = 2 * noise->endpoint * noise->endpoint;
    double shift = noise->position * noise->position, excess = 0, total = 0;
    for (int64_t i = 0; i < n; i++) {
        double spread = (turn + ends * s[i + n]) * s[i], noisier = s[i] + t[i];
        double carried = fit->lever[i] * fit->lever[i] * spread * fit->scale[i], variance = noisier * shift + carried;
        double weight = trust[i] / (variance * variance) * noisier;
        double x = fit->position[i], y = fit->position[n + i];
        excess += weight * (ratio * (x * x + y * y) / 2 - carried);
        total += weight * noisier;
    }
    result[0] = excess;
    result[1] = total;
}
