// Small float32 matrix products, as a compiled program calls them: C = A B, or C = bias + A B.
//
// Why not the library torch calls: on CPUs that are not Intel's, MKL uses half of the vector width, and oneDNN, which
// uses all of it, costs ten microseconds per call; a network of 128 units is done in eight. Here a tile of C stays in
// registers while K is walked once. A is read element by element, so with any strides; B by rows, and where its rows
// are not contiguous (a transposed weight) one panel of columns at a time is copied first.
//
// The sum over K runs in order, one product after another, so the result depends on nothing but the numbers.
#pragma once
#include <immintrin.h>
#include <cstdint>
#include <cstring>
#include <vector>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("O3", "tree-vectorize")
#endif

namespace hotloop {

#if defined(__AVX512F__)
constexpr int LANES = 16, ROWS = 12, COLS = 2;  // 24 of 32 registers hold C
typedef __m512 Vector;
#define HOTLOOP_LOAD _mm512_loadu_ps
#define HOTLOOP_STORE _mm512_storeu_ps
#define HOTLOOP_SPREAD _mm512_set1_ps
#define HOTLOOP_FMA _mm512_fmadd_ps
#define HOTLOOP_ZERO _mm512_setzero_ps
#else
constexpr int LANES = 8, ROWS = 6, COLS = 2;  // 12 of 16
typedef __m256 Vector;
#define HOTLOOP_LOAD _mm256_loadu_ps
#define HOTLOOP_STORE _mm256_storeu_ps
#define HOTLOOP_SPREAD _mm256_set1_ps
#define HOTLOOP_FMA _mm256_fmadd_ps
#define HOTLOOP_ZERO _mm256_setzero_ps
#endif
constexpr int64_t WIDE = LANES * COLS;
constexpr int64_t NARROW = 4;  // so few columns that dot products along K are quicker than a padded tile

// R rows × COLS vectors of C.
template <int R>
inline __attribute__((always_inline)) void tile(
    const float* a, int64_t a_row, int64_t a_k, const float* b, int64_t b_row, const float* bias, float* c,
    int64_t c_row, int64_t k) {
  Vector sum[R][COLS];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int j = 0; j < COLS; ++j) sum[r][j] = bias ? HOTLOOP_LOAD(bias + j * LANES) : HOTLOOP_ZERO();
  for (int64_t p = 0; p < k; ++p) {
    Vector row[COLS];
#pragma GCC unroll 2
    for (int j = 0; j < COLS; ++j) row[j] = HOTLOOP_LOAD(b + p * b_row + j * LANES);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const Vector x = HOTLOOP_SPREAD(a[r * a_row + p * a_k]);
#pragma GCC unroll 2
      for (int j = 0; j < COLS; ++j) sum[r][j] = HOTLOOP_FMA(x, row[j], sum[r][j]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int j = 0; j < COLS; ++j) HOTLOOP_STORE(c + r * c_row + j * LANES, sum[r][j]);
}

// The tile with as many rows as are left.
template <int R>
inline void rows(
    int64_t left, const float* a, int64_t a_row, int64_t a_k, const float* b, int64_t b_row, const float* bias,
    float* c, int64_t c_row, int64_t k) {
  if (left == R) return tile<R>(a, a_row, a_k, b, b_row, bias, c, c_row, k);
  if constexpr (R > 1) rows<R - 1>(left, a, a_row, a_k, b, b_row, bias, c, c_row, k);
}

// A few columns, both sides contiguous along K.
inline void dots(
    const float* a, int64_t a_row, const float* b, int64_t b_col, const float* bias, float* c, int64_t m, int64_t n,
    int64_t k) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const float *x = a + i * a_row, *y = b + j * b_col;
      Vector sum = HOTLOOP_ZERO();
      int64_t p = 0;
      for (; p + LANES <= k; p += LANES) sum = HOTLOOP_FMA(HOTLOOP_LOAD(x + p), HOTLOOP_LOAD(y + p), sum);
      float parts[LANES], total = bias ? bias[j] : 0.0f;
      HOTLOOP_STORE(parts, sum);
      for (int l = 0; l < LANES; ++l) total += parts[l];
      for (; p < k; ++p) total += x[p] * y[p];
      c[i * n + j] = total;
    }
}

// Columns j … j+width of b as contiguous rows of WIDE, zeros after them.
inline void copy_panel(const float* b, int64_t b_row, int64_t b_col, int64_t width, int64_t k, float* room) {
  for (int64_t p = 0; p < k; ++p) {
    float* to = room + p * WIDE;
    const float* from = b + p * b_row;
    if (width == WIDE) {
#pragma GCC unroll 8
      for (int64_t j = 0; j < WIDE; ++j) to[j] = from[j * b_col];
    } else {
      for (int64_t j = 0; j < width; ++j) to[j] = from[j * b_col];
      for (int64_t j = width; j < WIDE; ++j) to[j] = 0.0f;
    }
  }
}

// a [m, k] with strides (a_row, a_k), b [k, n] with strides (b_row, b_col), bias [n] or null, c [m, n] contiguous.
inline void multiply(
    const float* a, int64_t a_row, int64_t a_k, const float* b, int64_t b_row, int64_t b_col, const float* bias,
    float* c, int64_t m, int64_t n, int64_t k) {
  if (n <= NARROW && a_k == 1 && b_row == 1) return dots(a, a_row, b, b_col, bias, c, m, n, k);
  static thread_local std::vector<float> memory;
  if ((int64_t)memory.size() < (k + 1 + ROWS) * WIDE) memory.resize((k + 1 + ROWS) * WIDE);
  float *room = memory.data(), *edge_bias = room + k * WIDE, *edge_c = edge_bias + WIDE;
  for (int64_t j = 0; j < n; j += WIDE) {
    const int64_t width = n - j < WIDE ? n - j : WIDE;
    const float *panel = b + j * b_col, *panel_bias = bias ? bias + j : nullptr;
    int64_t panel_row = b_row;
    if (b_col != 1 || width < WIDE) {
      copy_panel(panel, b_row, b_col, width, k, room);
      panel = room;
      panel_row = WIDE;
    }
    if (bias && width < WIDE) {
      std::memset(edge_bias, 0, WIDE * sizeof(float));
      std::memcpy(edge_bias, bias + j, width * sizeof(float));
      panel_bias = edge_bias;
    }
    for (int64_t i = 0; i < m; i += ROWS) {
      const int64_t height = m - i < ROWS ? m - i : ROWS;
      if (width == WIDE) {
        rows<ROWS>(height, a + i * a_row, a_row, a_k, panel, panel_row, panel_bias, c + i * n + j, n, k);
      } else {
        rows<ROWS>(height, a + i * a_row, a_row, a_k, panel, panel_row, panel_bias, edge_c, WIDE, k);
        for (int64_t r = 0; r < height; ++r)
          std::memcpy(c + (i + r) * n + j, edge_c + r * WIDE, width * sizeof(float));
      }
    }
  }
}

}  // namespace hotloop

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

#ifdef AOTI_TORCH_EXPORT
// What the generated code calls, in the manner of aoti_torch_cpu_mm_out. [m, k] @ [k, n] into a contiguous [m, n].
inline AOTITorchError aoti_torch_hotloop_addmm_out(
    AtenTensorHandle out, AtenTensorHandle bias, AtenTensorHandle left, AtenTensorHandle right) {
  void *c, *a, *b, *start = nullptr;
  int64_t *size, *n, *a_stride, *b_stride;
  aoti_torch_get_data_ptr(out, &c);
  aoti_torch_get_data_ptr(left, &a);
  aoti_torch_get_data_ptr(right, &b);
  if (bias) aoti_torch_get_data_ptr(bias, &start);
  aoti_torch_get_sizes(left, &size);
  aoti_torch_get_sizes(right, &n);
  aoti_torch_get_strides(left, &a_stride);
  aoti_torch_get_strides(right, &b_stride);
  hotloop::multiply(
      (const float*)a, a_stride[0], a_stride[1], (const float*)b, b_stride[0], b_stride[1], (const float*)start,
      (float*)c, size[0], n[1], size[1]);
  return AOTI_TORCH_SUCCESS;
}

inline AOTITorchError aoti_torch_hotloop_mm_out(AtenTensorHandle out, AtenTensorHandle left, AtenTensorHandle right) {
  return aoti_torch_hotloop_addmm_out(out, nullptr, left, right);
}
#endif
