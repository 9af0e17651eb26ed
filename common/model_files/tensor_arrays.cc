#include "common/model_files/tensor_arrays.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muster {

int64_t ElementsOf(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  for (const int64_t extent : shape) product *= extent;
  return product;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

std::vector<float> Transposed(const std::vector<float>& values, int64_t rows, int64_t cols) {
  std::vector<float> out(values.size());
  // It goes by squares, so that both sides stay in cache.
  constexpr int64_t kSide = 32;
  for (int64_t r0 = 0; r0 < rows; r0 += kSide) {
    for (int64_t c0 = 0; c0 < cols; c0 += kSide) {
      for (int64_t r = r0; r < std::min(rows, r0 + kSide); ++r) {
        for (int64_t c = c0; c < std::min(cols, c0 + kSide); ++c) {
          out[c * rows + r] = values[r * cols + c];
        }
      }
    }
  }
  return out;
}

}  // namespace muster
