// Products of bfloat16 matrices with float32 sums and results, as a compiled program calls them: C = A B, or
// C = bias + A B. Where the CPU has an instruction for it (AVX512-BF16) it does twice the work of a float32 one.
//
// As in gemm.h a tile of C stays in registers while K is walked once, here two steps at a time: the instruction takes
// pairs of neighbours along K, so both sides are read as 32-bit words of two numbers. B is copied one panel of columns
// at a time, since its pairs lie in two rows; A only where its pairs do not lie side by side.
//
// The sums run over K in order, so the result depends on nothing but the numbers.
#pragma once
#include "gemm.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("O3", "tree-vectorize")
#endif

namespace hotloop {

typedef uint16_t Half;  // the upper half of a float

#if defined(__AVX512BF16__) && defined(__AVX512BW__) && defined(__AVX512VL__)

// R rows × COLS vectors of C.
template <int R>
inline __attribute__((always_inline)) void pair_tile(
    const uint32_t* a, int64_t a_row, int64_t a_pair, const uint32_t* b, const float* bias, float* c, int64_t c_row,
    int64_t pairs) {
  __m512 sum[R][COLS];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int j = 0; j < COLS; ++j) sum[r][j] = bias ? _mm512_loadu_ps(bias + j * LANES) : _mm512_setzero_ps();
  for (int64_t p = 0; p < pairs; ++p) {
    __m512bh row[COLS];
#pragma GCC unroll 2
    for (int j = 0; j < COLS; ++j) row[j] = (__m512bh)_mm512_loadu_si512(b + p * WIDE + j * LANES);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const __m512bh x = (__m512bh)_mm512_set1_epi32((int)a[r * a_row + p * a_pair]);
#pragma GCC unroll 2
      for (int j = 0; j < COLS; ++j) sum[r][j] = _mm512_dpbf16_ps(sum[r][j], x, row[j]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int j = 0; j < COLS; ++j) _mm512_storeu_ps(c + r * c_row + j * LANES, sum[r][j]);
}

// The tile with as many rows as are left.
template <int R>
inline void pair_rows(
    int64_t left, const uint32_t* a, int64_t a_row, int64_t a_pair, const uint32_t* b, const float* bias, float* c,
    int64_t c_row, int64_t pairs) {
  if (left == R) return pair_tile<R>(a, a_row, a_pair, b, bias, c, c_row, pairs);
  if constexpr (R > 1) pair_rows<R - 1>(left, a, a_row, a_pair, b, bias, c, c_row, pairs);
}

// 16 × 16 words, in place: halves, then quarters, eighths and single ones change places across the diagonal.
inline void transpose(__m512i x[16]) {
  const __m512i number = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
#pragma GCC unroll 4
  for (int d = 8; d; d /= 2) {
    const __m512i far = _mm512_set1_epi32(d), second = _mm512_set1_epi32(16);
    const __mmask16 upper = _mm512_test_epi32_mask(number, far);
    const __m512i above = _mm512_mask_add_epi32(number, upper, _mm512_sub_epi32(number, far), second);
    const __m512i below = _mm512_mask_add_epi32(_mm512_add_epi32(number, far), upper, number, second);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i)
      if (!(i & d)) {
        const __m512i one = x[i], other = x[i + d];
        x[i] = _mm512_permutex2var_epi32(one, above, other);
        x[i + d] = _mm512_permutex2var_epi32(one, below, other);
      }
  }
}

// 16 columns of two rows as 16 words. odd: null past the end of K.
inline __m512i zipped(const Half* even, const Half* odd, __mmask16 columns) {
  const __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(columns, even));
  if (!odd) return low;
  return _mm512_or_si512(low, _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(columns, odd)), 16));
}

// x [k, width] with strides, of at most 16 columns -> pairs along k as `room_width` words, zeros after the columns.
inline void copy_pairs(
    const Half* x, int64_t x_k, int64_t x_col, int64_t width, int64_t k, uint32_t* room, int64_t room_row,
    int64_t room_width) {
  const int64_t pairs = (k + 1) / 2;
  const __mmask16 columns = (__mmask16)((1u << width) - 1), into = (__mmask16)((1u << room_width) - 1);
  int64_t p = 0;
  if (x_col == 1) {
    for (; p < pairs; ++p) {
      const Half* even = x + 2 * p * x_k;
      _mm512_mask_storeu_epi32(room + p * room_row, into, zipped(even, 2 * p + 1 < k ? even + x_k : nullptr, columns));
    }
    return;
  }
  if (x_k == 1)
    for (; 2 * (p + 16) <= k; p += 16) {
      __m512i block[16];
#pragma GCC unroll 16
      for (int j = 0; j < 16; ++j)
        block[j] = j < width ? _mm512_loadu_si512(x + j * x_col + 2 * p) : _mm512_setzero_si512();
      transpose(block);
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) _mm512_mask_storeu_epi32(room + (p + i) * room_row, into, block[i]);
    }
  for (; p < pairs; ++p)
    for (int64_t j = 0; j < room_width; ++j) {
      const Half* from = x + 2 * p * x_k + j * x_col;
      room[p * room_row + j] = j < width ? from[0] | (uint32_t)(2 * p + 1 < k ? from[x_k] : 0) << 16 : 0;
    }
}

// a [m, k] with strides (a_row, a_k), b [k, n] with strides (b_row, b_col), bias [n] or null, c [m, n] contiguous.
inline void multiply_half(
    const Half* a, int64_t a_row, int64_t a_k, const Half* b, int64_t b_row, int64_t b_col, const float* bias,
    float* c, int64_t m, int64_t n, int64_t k) {
  const int64_t pairs = (k + 1) / 2, tiles = (m + ROWS - 1) / ROWS;
  const bool side_by_side = a_k == 1 && a_row % 2 == 0 && k % 2 == 0;
  static thread_local std::vector<uint32_t> memory;
  static thread_local std::vector<float> edges((1 + ROWS) * WIDE);
  const size_t size = (side_by_side ? 0 : tiles * ROWS * pairs) + pairs * WIDE;
  if (memory.size() < size) memory.resize(size);
  uint32_t *panel = memory.data(), *copied = panel + pairs * WIDE;
  float *edge_bias = edges.data(), *edge_c = edge_bias + WIDE;
  const uint32_t* left = side_by_side ? (const uint32_t*)a : copied;
  const int64_t left_row = side_by_side ? a_row / 2 : 1, left_pair = side_by_side ? 1 : ROWS;
  const int64_t left_tile = side_by_side ? ROWS * left_row : ROWS * pairs;
  if (!side_by_side)
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t i = t * ROWS, height = m - i < ROWS ? m - i : ROWS;
      copy_pairs(a + i * a_row, a_k, a_row, height, k, copied + i * pairs, ROWS, ROWS);
    }
  for (int64_t j = 0; j < n; j += WIDE) {
    const int64_t width = n - j < WIDE ? n - j : WIDE;
    for (int64_t v = 0; v < WIDE; v += LANES) {
      const int64_t here = width < v ? 0 : width - v < LANES ? width - v : LANES;
      copy_pairs(b + (j + v) * b_col, b_row, b_col, here, k, panel + v, WIDE, LANES);
    }
    const float* panel_bias = bias ? bias + j : nullptr;
    if (bias && width < WIDE) {
      std::memset(edge_bias, 0, WIDE * sizeof(float));
      std::memcpy(edge_bias, bias + j, width * sizeof(float));
      panel_bias = edge_bias;
    }
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t i = t * ROWS, height = m - i < ROWS ? m - i : ROWS;
      const bool whole = width == WIDE;
      float* to = whole ? c + i * n + j : edge_c;
      pair_rows<ROWS>(height, left + t * left_tile, left_row, left_pair, panel, panel_bias, to, whole ? n : WIDE, pairs);
      if (!whole)
        for (int64_t r = 0; r < height; ++r)
          std::memcpy(c + (i + r) * n + j, edge_c + r * WIDE, width * sizeof(float));
    }
  }
}

#else

// [rows, columns] with strides -> contiguous floats
inline void widen(const Half* x, int64_t x_row, int64_t x_col, int64_t rows, int64_t columns, float* to) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      const uint32_t word = (uint32_t)x[i * x_row + j * x_col] << 16;
      std::memcpy(to + i * columns + j, &word, sizeof(float));
    }
}

// The same numbers in twice the width: nothing is won, and nothing is different but the order of the sums.
inline void multiply_half(
    const Half* a, int64_t a_row, int64_t a_k, const Half* b, int64_t b_row, int64_t b_col, const float* bias,
    float* c, int64_t m, int64_t n, int64_t k) {
  static thread_local std::vector<float> memory;
  if ((int64_t)memory.size() < (m + n) * k) memory.resize((m + n) * k);
  float *left = memory.data(), *right = left + m * k;
  widen(a, a_row, a_k, m, k, left);
  widen(b, b_row, b_col, k, n, right);
  multiply(left, k, 1, right, n, 1, bias, c, m, n, k);
}

#endif

}  // namespace hotloop

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

#ifdef AOTI_TORCH_EXPORT
// As aoti_torch_hotloop_addmm_out, of bfloat16 matrices; bias and out are float32.
inline AOTITorchError aoti_torch_hotloop_addmm_half_out(
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
  hotloop::multiply_half(
      (const hotloop::Half*)a, a_stride[0], a_stride[1], (const hotloop::Half*)b, b_stride[0], b_stride[1],
      (const float*)start, (float*)c, size[0], n[1], size[1]);
  return AOTI_TORCH_SUCCESS;
}

inline AOTITorchError aoti_torch_hotloop_mm_half_out(
    AtenTensorHandle out, AtenTensorHandle left, AtenTensorHandle right) {
  return aoti_torch_hotloop_addmm_half_out(out, nullptr, left, right);
}
#endif
