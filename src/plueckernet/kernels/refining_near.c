/* All iterations of a refinement on pairs of lines that are near: `refine_near` of estimation/refinement.py. */
#include "close_pairs.h"
#include "refining.h"

#define SAME_PAIRS_STEP 0.2 /* constants of estimation/refinement.py and noise.py */
#define SAME_THRESHOLD 0.05
#define NOISE_FLOOR 1e-7
#define MIN_POSITION_RATIO 0.3
#define MIN_DIRECTION_RATIO 0.5
#define FITTED_LINES 3
#define MAX_FITTED_RATIO 6.0
#define MIN_EIGENVALUE 1e-12 /* of the equations of the noise, relative to the largest; below it Python solves them */

enum outcome { TOO_FEW, DONE, ELSEWHERE, AWKWARD, GOING_ON, NO_MEMORY = -1 };

/* Pairs within a wide threshold under a pose, as `_Near`: columns as those of `struct pairs`, `half` is NULL or that of
   both segments in sum. */
struct nearby {
    int64_t count;
    const double *source, *target, *half;
    const int64_t *rows; /* (count, 2) */
    int64_t lines[2];
    const double *anchors; /* of all source lines, in three rows */
    double max_half_length;
    struct pose pose;
    struct limits wide;
};

struct sigmas {
    double position, direction;
};

struct settings {
    int64_t iterations, final_iterations, estimates_noise, is_infinite;
    double converged_step, min_match_probability, min_noise_probability, max_decrease;
    struct sigmas approach, final; /* of the search */
    double slope_sigmas, max_growth, shortest;
    struct limits limit;
    struct sigmas known; /* noise; not a number where it is estimated */
};

/* What has been reached. A refinement that needs other pairs is continued with it. */
struct state {
    struct model model; /* pose, noise, settings of a fit */
    struct noise accepted;
    struct limits search;
    int64_t iteration, is_final, has_accepted, stable, converged, inliers;
    double information[36], matched; /* of the last fit; the sum of the probabilities */
};

/* The close pairs among those nearby, and a fit on them. */
struct work {
    const struct nearby *nearby;
    const struct settings *settings;
    struct state *state;
    struct pairs pairs;
    struct fit fit;
    double *source, *target, *trust, small[42 + 7 + 12];
    int64_t *places, *rows, *first, *second, *competitors;
};

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static struct pose pose_of(const struct model *model)
{
    struct pose pose;
    memcpy(pose.rotation, model->rotation, sizeof pose.rotation);
    memcpy(pose.translation, model->translation, sizeof pose.translation);
    return pose;
}

/* The angle of the rotation between two poses: `PoseArrays.angle_to`. */
static double angle_between(const struct pose *a, const struct pose *b)
{
    double m[9] = {0};
    for (int i = 0; i < 9; i++)
        for (int k = 0; k < 3; k++)
            m[i] += a->rotation[3 * k + i / 3] * b->rotation[3 * k + i % 3];
    double x = m[7] - m[5], y = m[2] - m[6], z = m[3] - m[1];
    return atan2(sqrt(x * x + y * y + z * z), m[0] + m[4] + m[8] - 1);
}

/* Whether all pairs within the search threshold are nearby: `_Near.covers`. */
static int covers(const struct nearby *nearby, const struct state *state)
{
    const struct limits *asked = &state->search, *wide = &nearby->wide;
    if (asked->slope > wide->slope)
        return 0;
    struct pose pose = pose_of(&state->model);
    double turn = angle_between(&pose, &nearby->pose);
    double shift = sqrt(largest_shift(&pose, &nearby->pose, nearby->lines[0], nearby->anchors));
    shift = (shift + turn * nearby->max_half_length) / wide->distance;
    double ratio = larger(asked->distance / wide->distance, asked->angle / wide->angle);
    return ratio + hypot(shift, turn / wide->angle) <= 1;
}

static void take_columns(const double *from, int64_t n, const int64_t *places, int64_t count, double *to)
{
    for (int row = 0; row < 8; row++)
        for (int64_t i = 0; i < count; i++)
            to[row * count + i] = from[row * n + places[i]];
}

/* The pairs within the search threshold: `NearbyPairs.within`. */
static enum outcome gather(struct work *w)
{
    const struct nearby *near = w->nearby;
    struct state *state = w->state;
    struct pose pose = pose_of(&state->model);
    int64_t n = near->count;
    int64_t count = still_close(&pose, n, near->source, near->target, near->half, &state->search, w->places);
    take_columns(near->source, n, w->places, count, w->source);
    take_columns(near->target, n, w->places, count, w->target);
    for (int64_t i = 0; i < count; i++)
        memcpy(w->rows + 2 * i, near->rows + 2 * w->places[i], 2 * sizeof(int64_t));
    int64_t max_matches =
        count_competitors(count, w->rows, near->lines[0], near->lines[1], w->first, w->second, w->competitors);
    struct pairs pairs = {count,          w->source,  w->target, {w->first, w->second}, {near->lines[0], near->lines[1]},
                          w->competitors, max_matches};
    w->pairs = pairs;
    w->fit.direction = w->fit.position + 2 * count;
    state->model.distance = state->search.distance;
    state->model.angle = state->search.angle;
    return max_matches < 0 ? NO_MEMORY : GOING_ON;
}

/* One step; a motion that is undetermined is left to Python. */
static enum outcome take_step(struct work *w)
{
    if (w->pairs.count < 3)
        return TOO_FEW;
    switch (fit_pairs(&w->pairs, &w->state->model, &w->fit)) {
    case 0:
        return TOO_FEW;
    case 1:
        return isfinite(w->fit.xi[6]) ? GOING_ON : AWKWARD;
    case 2:
        return AWKWARD;
    default:
        return NO_MEMORY;
    }
}

static void accept_pose(struct work *w)
{
    memcpy(w->state->model.rotation, w->fit.pose, 9 * sizeof(double));
    memcpy(w->state->model.translation, w->fit.pose + 9, 3 * sizeof(double));
}

static double fitted_ratio(double lines)
{
    return smaller(lines / larger(lines - FITTED_LINES, 1e-9), MAX_FITTED_RATIO);
}

/* The estimate with its known parts replaced: `KnownNoise.applied`. */
static enum outcome accept_noise(struct work *w, struct noise noise)
{
    const struct sigmas *known = &w->settings->known;
    if (!isnan(known->position))
        noise.position = known->position;
    if (!isnan(known->direction)) {
        noise.direction = known->direction;
        noise.endpoint = 0;
    }
    w->state->model.noise = noise;
    return isfinite(noise.position) && isfinite(noise.direction) && isfinite(noise.endpoint) ? GOING_ON : AWKWARD;
}

/* Pairs whose weight is above a limit go to `places`; returns how many, and their weight. */
static int64_t probable(struct work *w, double limit, double *total)
{
    int64_t count = 0;
    *total = 0;
    for (int64_t i = 0; i < w->pairs.count; i++)
        if (w->fit.weight[i] > limit) {
            w->places[count++] = i;
            *total += w->fit.weight[i];
        }
    return count;
}

/* The noise by medians: `_rough_noise`. */
static enum outcome rough_noise(struct work *w)
{
    struct noise before = w->state->model.noise, noise = {0};
    double medians[2], total, unit = sqrt(2 * log(2)), decrease = w->settings->max_decrease;
    int64_t count = probable(w, w->settings->min_noise_probability, &total);
    if (count < 3)
        count = probable(w, 0, &total);
    if (!count)
        return AWKWARD;
    if (noise_medians(&w->pairs, &w->fit, count, w->places, before.position, unit, NOISE_FLOOR, medians))
        return NO_MEMORY;
    noise.position = larger(medians[1] * sqrt(fitted_ratio(total)) * before.position, NOISE_FLOOR);
    noise.position = larger(noise.position, before.position / decrease);
    noise.direction = larger(medians[0], before.direction / decrease);
    noise.direction = larger(noise.direction, MIN_DIRECTION_RATIO * noise.position);
    return accept_noise(w, noise);
}

/* Weighted least squares with two numbers that are not negative: `noise._non_negative`. False where the equations are
   nearly singular. */
static int non_negative(const double *products, double *first, double *second)
{
    double a = products[0], b = products[1], d = products[4], right[2] = {products[2], products[5]};
    double middle = (a + d) / 2, radius = hypot((a - d) / 2, b), determinant = a * d - b * b;
    if (!(determinant > MIN_EIGENVALUE * (middle + radius) * (middle + radius)))
        return 0;
    *first = (right[0] * d - b * right[1]) / determinant;
    *second = (a * right[1] - b * right[0]) / determinant;
    if (*first >= 0 && *second >= 0)
        return 1;
    double alone[2] = {right[0] / a, right[1] / d};
    int is_first = right[0] * alone[0] > right[1] * alone[1]; /* which lowers the squared error by more */
    *first = is_first ? alone[0] : 0;
    *second = is_first ? 0 : alone[1];
    return 1;
}

/* The noise by mean squares: `_fine_noise`. */
static enum outcome fine_noise(struct work *w)
{
    struct noise noise = w->state->model.noise;
    double products[6], sums[2], total = 0, direction, endpoint = 0;
    for (int64_t i = 0; i < w->pairs.count; i++) {
        double lines = 1 + w->competitors[i];
        w->trust[i] = w->fit.weight[i] / (lines * lines);
        total += w->fit.weight[i];
    }
    direction_sums(&w->pairs, &w->fit, w->trust, &noise, products);
    if (w->settings->is_infinite)
        direction = products[2] / products[0];
    else if (!non_negative(products, &direction, &endpoint))
        return AWKWARD;
    if (!(direction >= 0 && endpoint >= 0))
        return AWKWARD;
    double least = larger(MIN_POSITION_RATIO * noise.position, NOISE_FLOOR);
    noise.direction = larger(sqrt(direction), NOISE_FLOOR);
    noise.endpoint = sqrt(endpoint);
    position_sums(&w->pairs, &w->fit, w->trust, &noise, fitted_ratio(total), sums);
    if (!isfinite(sums[0] / sums[1]))
        return AWKWARD;
    noise.position = sqrt(larger(sums[0] / sums[1], least * least));
    return accept_noise(w, noise);
}

/* How far apart pairs may be with the present noise: `search_threshold`. */
static struct limits search_limits(const struct work *w, struct sigmas sigmas)
{
    const struct settings *s = w->settings;
    struct noise noise = w->state->model.noise;
    double direction = hypot(noise.direction, sqrt(2) * noise.endpoint / s->shortest);
    struct limits limits = {smaller(sigmas.position * sqrt(2) * noise.position, s->max_growth * s->limit.distance),
                            smaller(sigmas.direction * sqrt(2) * direction, s->max_growth * s->limit.angle),
                            smaller(s->slope_sigmas * direction, s->limit.angle), s->limit.directed};
    return limits;
}

/* Iterate until the set of close pairs is stable: `_approach`. The pairs nearby are known to be enough at first. */
static enum outcome approach(struct work *w)
{
    struct state *state = w->state;
    enum outcome outcome = GOING_ON;
    int changed = 1, is_first = 1;
    for (; state->iteration < w->settings->iterations; state->iteration++) {
        if (changed && !is_first && !covers(w->nearby, state))
            return ELSEWHERE;
        if (changed && (outcome = gather(w)) != GOING_ON)
            return outcome;
        is_first = 0;
        outcome = take_step(w);
        if (outcome == TOO_FEW && state->has_accepted) {
            state->model.noise = state->accepted;
            return GOING_ON;
        }
        if (outcome != GOING_ON)
            return outcome;
        accept_pose(w);
        state->accepted = state->model.noise;
        state->has_accepted = 1;
        if (w->settings->estimates_noise && (outcome = rough_noise(w)) != GOING_ON)
            return outcome;
        double before = state->search.distance, step = w->fit.xi[6];
        state->search = search_limits(w, w->settings->approach);
        double ratio = state->search.distance / before;
        int same = 1 - SAME_THRESHOLD < ratio && ratio < 1 + SAME_THRESHOLD;
        changed = step > SAME_PAIRS_STEP || !same;
        state->stable = step < w->settings->converged_step && same;
        if (state->stable)
            return GOING_ON;
    }
    return GOING_ON;
}

/* The last iterations, on a set of pairs that stays, and the fit at the last pose. */
static enum outcome finish(struct work *w)
{
    enum outcome outcome = gather(w);
    for (int64_t i = 0; outcome == GOING_ON && i < w->settings->final_iterations; i++) {
        outcome = take_step(w);
        if (outcome != GOING_ON)
            return outcome;
        accept_pose(w);
        if (w->settings->estimates_noise)
            outcome = fine_noise(w);
    }
    w->fit.information = w->state->information;
    return outcome == GOING_ON ? take_step(w) : outcome;
}

/* Rows of the probable pairs that are the most probable for both of their lines, and what the covariance needs. */
static void report(struct work *w, double *largest, int64_t *inliers)
{
    struct state *state = w->state;
    int64_t n = w->pairs.count, sources = w->nearby->lines[0];
    const double *weight = w->fit.weight;
    memset(largest, 0, (sources + w->nearby->lines[1]) * sizeof(double));
    state->matched = 0;
    state->inliers = 0;
    state->converged = state->stable || w->fit.xi[6] < w->settings->converged_step;
    for (int64_t i = 0; i < n; i++) {
        double *own = largest + w->first[i], *other = largest + sources + w->second[i];
        *own = larger(weight[i], *own);
        *other = larger(weight[i], *other);
        state->matched += weight[i];
    }
    for (int64_t i = 0; i < n; i++)
        if (weight[i] > w->settings->min_match_probability && weight[i] == largest[w->first[i]] &&
            weight[i] == largest[sources + w->second[i]])
            memcpy(inliers + 2 * state->inliers++, w->rows + 2 * i, 2 * sizeof(int64_t));
}

/* From the state on, as far as the pairs nearby allow. */
static enum outcome refine(struct work *w, double *largest, int64_t *inliers)
{
    struct state *state = w->state;
    if (!state->is_final) {
        enum outcome outcome = approach(w);
        if (outcome != GOING_ON)
            return outcome;
        state->is_final = 1;
        state->search = search_limits(w, w->settings->final);
        if (!covers(w->nearby, state))
            return ELSEWHERE;
    }
    enum outcome outcome = finish(w);
    if (outcome != GOING_ON)
        return outcome;
    report(w, largest, inliers);
    return DONE;
}

/* Goes on with a refinement; the pairs nearby include all that the search of the state finds. Returns DONE, with the
   rows of the inliers, at most as many as there are pairs, TOO_FEW for fewer than three matches, ELSEWHERE if other
   pairs are needed to go on, and AWKWARD where only Python can: a motion or a noise that the lines do not determine. */
KERNEL int64_t refine_near(const struct nearby *nearby, const struct settings *settings, struct state *state,
                           int64_t *inliers)
{
    int64_t n = nearby->count, lines = nearby->lines[0] + nearby->lines[1];
    double *numbers = malloc((25 * n + lines + 1) * sizeof(double));
    int64_t *indices = malloc((6 * n + 1) * sizeof(int64_t));
    int64_t outcome = NO_MEMORY;
    if (numbers && indices) {
        struct work w = {nearby, settings, state};
        double *rows = numbers + 16 * n, *small = w.small;
        struct fit fit = {rows,         rows + n, rows + 2 * n, rows + 3 * n, rows + 4 * n,
                          rows + 6 * n, small,    NULL,         small + 42,   small + 49};
        w.fit = fit;
        w.source = numbers;
        w.target = numbers + 8 * n;
        w.trust = rows + 8 * n;
        w.places = indices;
        w.rows = indices + n;
        w.first = indices + 3 * n;
        w.second = indices + 4 * n;
        w.competitors = indices + 5 * n;
        outcome = refine(&w, rows + 9 * n, inliers);
    }
    free(numbers);
    free(indices);
    return outcome;
}
