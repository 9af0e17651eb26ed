#ifndef MUSTER_COMMON_PARTITION_TENSOR_SPEC_H_
#define MUSTER_COMMON_PARTITION_TENSOR_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/tensor/dtype.h"

namespace muster {

// The rule for elements' first values: a pure function of (job seed, tensor or table name, global
// index).
struct Initializer {
  enum class Kind { kConstant, kUniform, kNormal };

  Kind kind = Kind::kConstant;
  // kUniform: the values lie in [-scale, scale). kNormal: standard deviation.
  float scale = 0;
  // kConstant: all values.
  float value = 0;
};

// The placement of a tensor's elements along one axis of the mesh.
struct Placement {
  enum class Kind { kReplicate, kShard, kPartial };

  Kind kind = Kind::kReplicate;
  // Axis of the mesh by name, and for kShard the tensor's dimension that is divided.
  std::string mesh_axis;
  int dimension = 0;
};

// One logical parameter of a model, whoever holds it. Checkpoints are keyed by its name and global
// shape.
struct TensorSpec {
  std::string name;
  // Global shape, row-major.
  std::vector<int64_t> shape;
  Initializer initializer;
  // Layer unit, counted from 0 in forward order.
  uint32_t unit = 0;
  // Optimizer group: whether weight decay applies.
  bool weight_decay = true;
  // Type that workers compute with: kF32, or kBf16 or kF16 if a model reads nothing but values
  // rounded to that (to the nearest). The values themselves are f32, whoever holds them.
  DType compute = DType::kF32;
  // One per axis that is not replicated.
  std::vector<Placement> placements;
  // Name of the tensor whose storage this one shares; empty: none.
  std::string tied_to;

  int64_t elements() const {
    int64_t n = 1;
    for (int64_t extent : shape) n *= extent;
    return n;
  }
};

// A table of rows by 64-bit key; rows exist from their first push on, and read as their initial
// value before.
struct SparseTableSpec {
  std::string name;
  // Floats per row.
  uint32_t dim = 0;
  Initializer initializer;
  bool weight_decay = true;
};

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_TENSOR_SPEC_H_
