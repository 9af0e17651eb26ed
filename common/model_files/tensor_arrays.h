#ifndef MUSTER_COMMON_MODEL_FILES_TENSOR_ARRAYS_H_
#define MUSTER_COMMON_MODEL_FILES_TENSOR_ARRAYS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

// Returns the number of elements of a tensor of this shape.
int64_t ElementsOf(const std::vector<int64_t>& shape);

// Returns a shape for messages, such as "[2, 3]".
std::string ShapeText(const std::vector<int64_t>& shape);

// Returns the transpose of a matrix [rows, cols]. REQUIRES: it has so many values.
std::vector<float> Transposed(const std::vector<float>& values, int64_t rows, int64_t cols);

}  // namespace muster

#endif  // MUSTER_COMMON_MODEL_FILES_TENSOR_ARRAYS_H_
