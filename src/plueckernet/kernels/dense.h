/* Layers of networks on rows of floats. A matrix is read in panels of 16 of its outputs: panel p has, for each input k,
   the 16 weights from k to the outputs 16 p ... 16 p + 15, zeros where there is no output. */
#ifndef PLUECKERNET_DENSE_H
#define PLUECKERNET_DENSE_H

#include "kernels.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=fast") /* a product and a sum are one instruction, as Clang has it anyway */
#endif

#define PANEL 16
#define NORM_EPSILON 1e-5f
#if defined(__AVX512F__)
#define LANES 16
#define TILE_ROWS 12 /* as many as there are registers for the addresses of */
#elif defined(__AVX__)
#define LANES 8
#define TILE_ROWS 6 /* times two vectors of a panel: as many sums as there are registers for */
#else
#define LANES 4
#define TILE_ROWS 3
#endif
#define SOME_ROWS (TILE_ROWS / 3 > 2 ? TILE_ROWS / 3 : 2) /* of what is left */
#define PANEL_VECTORS (PANEL / LANES)

typedef float Lanes __attribute__((vector_size(4 * LANES)));
typedef float LooseLanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline, unused))
#define HELPER static __attribute__((unused))

INLINE Lanes load_lanes(const float *p)
{
    return *(const LooseLanes *)p;
}

INLINE void store_lanes(float *p, Lanes v)
{
    *(LooseLanes *)p = v;
}

INLINE int64_t padded(int64_t size)
{
    return (size + PANEL - 1) / PANEL * PANEL;
}

/* e^x, to two units in the last place; 0 and infinity become e^-87 and e^88. */
INLINE float exp_of(float x)
{
    x = x > -87.0f ? x : -87.0f;
    x = x < 88.0f ? x : 88.0f;
    float shifted = x * 1.44269504089f + 12582912.0f; /* 1.5 2^23: the whole number is in the lowest bits */
    float whole = shifted - 12582912.0f;
    x = x - whole * 0.693359375f;
    x = x - whole * -2.12194440e-4f;
    float y = 1.9875691500e-4f;
    y = y * x + 1.3981999507e-3f;
    y = y * x + 8.3334519073e-3f;
    y = y * x + 4.1665795894e-2f;
    y = y * x + 1.6666665459e-1f;
    y = y * x + 5.0000001201e-1f;
    y = y * (x * x) + x + 1.0f;
    uint32_t exponent = (uint32_t)((int32_t)whole + 127) << 23;
    float power;
    memcpy(&power, &exponent, 4);
    return y * power;
}

/* log x of a positive normal number, to two units in the last place. */
INLINE float log_of(float x)
{
    int32_t bits, offset = 0x3f3504f3; /* of the root of 1/2, so that the mantissa is around one */
    memcpy(&bits, &x, 4);
    int32_t difference = (int32_t)((uint32_t)bits - (uint32_t)offset), exponent = difference >> 23;
    bits = (int32_t)((uint32_t)bits - ((uint32_t)exponent << 23));
    float f, power = (float)exponent;
    memcpy(&f, &bits, 4);
    f -= 1.0f;
    float y = 7.0376836292e-2f;
    y = y * f - 1.1514610310e-1f;
    y = y * f + 1.1676998740e-1f;
    y = y * f - 1.2420140846e-1f;
    y = y * f + 1.4249322787e-1f;
    y = y * f - 1.6668057665e-1f;
    y = y * f + 2.0000714765e-1f;
    y = y * f - 2.4999993993e-1f;
    y = y * f + 3.3333331174e-1f;
    float square = f * f;
    y = y * f * square + power * -2.12194440e-4f - 0.5f * square;
    return f + y + power * 0.693359375f;
}

/* x Φ(x), with the error function as a quotient of polynomials that is exact to a few units in the last place. */
INLINE float gelu_of(float x)
{
    float t = x * 0.70710678118654752f;
    t = t > -4.0f ? t : -4.0f;
    t = t < 4.0f ? t : 4.0f;
    float s = t * t;
    float p = -2.72614225801306e-10f;
    p = p * s + 2.77068142495902e-08f;
    p = p * s - 2.10102402082508e-06f;
    p = p * s - 5.69250639462346e-05f;
    p = p * s - 7.34990630326855e-04f;
    p = p * s - 2.95459980854025e-03f;
    p = p * s - 1.60960333262415e-02f;
    float q = -1.45660718464996e-05f;
    q = q * s - 2.13374055278905e-04f;
    q = q * s - 1.68282697438203e-03f;
    q = q * s - 7.37332916720468e-03f;
    q = q * s - 1.42647390514189e-02f;
    return 0.5f * x * (1.0f + t * p / q);
}

HELPER void gelu(int64_t count, float *x)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        x[i] = gelu_of(x[i]);
}

/* Sums of up to TILE_ROWS rows with one panel, added to what is in `sum`. */
INLINE void add_products(int rows, int64_t in, const float *x, int64_t x_stride, const float *panel,
                         Lanes sum[TILE_ROWS][PANEL_VECTORS])
{
    for (int64_t k = 0; k < in; k++) {
        Lanes weights[PANEL_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < PANEL_VECTORS; v++)
            weights[v] = load_lanes(panel + k * PANEL + v * LANES);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            float value = x[r * x_stride + k];
#pragma GCC unroll 4
            for (int v = 0; v < PANEL_VECTORS; v++)
                sum[r][v] += value * weights[v];
        }
    }
}

/* One tile of outputs. `start` has the 16 values that the sums begin with, the same for all rows (`start_stride` 0), or
   others for each. The last panel may have fewer outputs than 16. */
INLINE void product_tile(int rows, int64_t in, const float *x, int64_t x_stride, const float *panel, const float *start,
                         int64_t start_stride, float *y, int64_t y_stride)
{
    Lanes sum[TILE_ROWS][PANEL_VECTORS];
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < PANEL_VECTORS; v++)
            sum[r][v] = load_lanes(start + r * start_stride + v * LANES);
    add_products(rows, in, x, x_stride, panel, sum);
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < PANEL_VECTORS; v++)
            store_lanes(y + r * y_stride + v * LANES, sum[r][v]);
}

HELPER void product_tiles(int64_t rows, int64_t in, const float *x, int64_t x_stride, const float *panel,
                          const float *start, int64_t start_stride, float *y, int64_t y_stride)
{
    int64_t row = 0;
    for (; row + TILE_ROWS <= rows; row += TILE_ROWS)
        product_tile(TILE_ROWS, in, x + row * x_stride, x_stride, panel, start + row * start_stride, start_stride,
                     y + row * y_stride, y_stride);
    for (; row + SOME_ROWS <= rows; row += SOME_ROWS)
        product_tile(SOME_ROWS, in, x + row * x_stride, x_stride, panel, start + row * start_stride, start_stride,
                     y + row * y_stride, y_stride);
    for (; row < rows; row++)
        product_tile(1, in, x + row * x_stride, x_stride, panel, start + row * start_stride, start_stride,
                     y + row * y_stride, y_stride);
}

/* A matrix in panels, with a bias for every output of every panel, or NULL. */
typedef struct {
    int64_t in, out;
    const float *panels, *bias;
} Layer;

/* y = x W + b. All panels are written: rows of y have room for a multiple of 16. */
HELPER void apply_layer(const Layer *layer, int64_t rows, const float *x, int64_t x_stride, float *y, int64_t y_stride)
{
    static const float zeros[PANEL];
    for (int64_t column = 0; column < layer->out; column += PANEL) {
        const float *panel = layer->panels + column * layer->in;
        const float *start = layer->bias ? layer->bias + column : zeros;
        product_tiles(rows, layer->in, x, x_stride, panel, start, 0, y + column, y_stride);
    }
}

/* Panels of a matrix that is given as rows of outputs: those of keys, for products of queries with keys. */
HELPER void pack_outputs(int64_t out, int64_t in, const float *rows, int64_t stride, float *panels)
{
    for (int64_t first = 0; first < out; first += PANEL, panels += in * PANEL) {
        int64_t count = out - first < PANEL ? out - first : PANEL;
        if (count < PANEL)
            memset(panels, 0, sizeof(float) * in * PANEL);
        for (int64_t o = 0; o < count; o++)
            for (int64_t k = 0; k < in; k++)
                panels[k * PANEL + o] = rows[(first + o) * stride + k];
    }
}

/* Panels of a matrix that is given as rows of inputs: those of values, for sums of values. */
HELPER void pack_inputs(int64_t in, int64_t out, const float *rows, int64_t stride, float *panels)
{
    for (int64_t first = 0; first < out; first += PANEL, panels += in * PANEL) {
        int64_t count = out - first < PANEL ? out - first : PANEL;
        for (int64_t k = 0; k < in; k++) {
            for (int64_t o = 0; o < count; o++)
                panels[k * PANEL + o] = rows[k * stride + first + o];
            for (int64_t o = count; o < PANEL; o++)
                panels[k * PANEL + o] = 0;
        }
    }
}

/* The weights and biases of a layer norm. */
typedef struct {
    int64_t size;
    const float *weight, *bias;
} Norm;

/* The layer norm of every row, then the activation. */
HELPER void normalize_and_activate(const Norm *norm, int64_t rows, float *x, int64_t stride)
{
    int64_t size = norm->size;
    const float *weight = norm->weight, *bias = norm->bias;
    for (int64_t row = 0; row < rows; row++, x += stride) {
        float mean = 0, variance = 0;
#pragma omp simd reduction(+ : mean)
        for (int64_t i = 0; i < size; i++)
            mean += x[i];
        mean /= size;
#pragma omp simd reduction(+ : variance)
        for (int64_t i = 0; i < size; i++)
            variance += (x[i] - mean) * (x[i] - mean);
        float factor = 1.0f / sqrtf(variance / size + NORM_EPSILON);
#pragma omp simd
        for (int64_t i = 0; i < size; i++)
            x[i] = gelu_of((x[i] - mean) * factor * weight[i] + bias[i]);
    }
}

/* A matrix with its bias from a place in memory, which moves behind them. */
HELPER Layer next_layer(const float **memory, int64_t in, int64_t out, int has_bias)
{
    Layer layer = {in, out, *memory, has_bias ? *memory + in * padded(out) : NULL};
    *memory += (in + has_bias) * padded(out);
    return layer;
}

HELPER Norm next_norm(const float **memory, int64_t size)
{
    Norm norm = {size, *memory, *memory + padded(size)};
    *memory += 2 * padded(size);
    return norm;
}

#endif
