#ifndef MUSTER_COMMON_PARTITION_TENSOR_SPEC_H_
#define MUSTER_COMMON_PARTITION_TENSOR_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
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

// The way in which the ranks of a tensor group (tensor parallelism) or expert ranks divide a
// tensor.
struct Placement {
  enum class Kind {
    // Every rank has the whole tensor.
    kReplicate,
    // Every rank has its share of each section.
    kShard,
    // The first rank has the whole tensor, the others have nothing of it.
    kFirst,
    // Every expert rank has its share of each section, and all its tensor ranks have that.
    kExperts,
  };
  // Consecutive indices of the dimension, `extent` in number, that form `units` of equal size.
  // Ranks get whole units: each as many as the others or, where there are fewer units than ranks,
  // one that neighbours have in common.
  struct Section {
    int64_t extent = 0;
    int64_t units = 0;
  };

  Kind kind = Kind::kReplicate;
  // Of kShard and kExperts: the dimension that is divided, and its sections in order, which make up
  // all of it. There are several only in dimension 0.
  int dimension = 0;
  std::vector<Section> sections;
};

// A part of a tensor: from `start` on, `extent` long in each dimension.
struct Rectangle {
  std::vector<int64_t> start;
  std::vector<int64_t> extent;

  friend bool operator==(const Rectangle& a, const Rectangle& b) = default;
};

// Elements [begin, end), row-major, of a rank's share of a tensor that `ranks` consecutive tensor
// ranks have, too.
struct SharedElements {
  uint64_t begin = 0;
  uint64_t end = 0;
  int ranks = 1;
  // True on the lowest of these ranks.
  bool first = true;

  friend bool operator==(const SharedElements& a, const SharedElements& b) = default;
};

// One logical parameter of a model, or a rank's share of it (LocalTensors). Checkpoints and initial
// values are keyed by its name and its global indices.
struct TensorSpec {
  std::string name;
  // The shape of what this describes, row-major.
  std::vector<int64_t> shape;
  Initializer initializer;
  // Layer unit, counted from 0 in forward order.
  uint32_t unit = 0;
  // Optimizer group: whether weight decay applies.
  bool weight_decay = true;
  // Above 0: the tensor is no parameter of the loss. Each optimizer step moves each of its elements
  // by -sign_rate · sign(gradient), by nothing where the gradient is 0, without learning rate,
  // schedule, decay or clipping. The global norm leaves its gradient out. Its elements have
  // optimizer state, which nobody reads and no step changes. Servers get its gradient as f32,
  // whatever the wire's type. By all-reduce in bf16, ranks round their gradients before the sum.
  float sign_rate = 0;
  // Optimizer group: multiplies the learning rate; and the tensor's weight decay, if it is not the
  // optimizer's, in which case `weight_decay` is false.
  float rate = 1;
  absl::optional<float> own_weight_decay;
  // Optimizer group: no step moves the tensor. It has no gradient (the span of it is empty) and no
  // optimizer state.
  bool frozen = false;
  // Optimizer group: the tensor consists of matrices, which the optimizer moves as a whole; the
  // rows of each, in order. Also of a share, these are the rows of whole matrices (MatrixShares).
  // Empty: its elements move by themselves.
  std::vector<int64_t> matrix_rows;
  // Type that workers compute with: kF32, or kBf16 or kF16 if a model reads nothing but values
  // rounded to that (to the nearest). The values themselves are f32, whoever holds them.
  DType compute = DType::kF32;
  Placement placement;
  // Name of the tensor whose storage this one shares; empty: none.
  std::string tied_to;
  // Of a share: the whole tensor's shape, and the parts of it that the share consists of, one after
  // another along dimension 0. Both are empty for a whole tensor.
  std::vector<int64_t> global_shape;
  std::vector<Rectangle> rectangles;
  // The elements of a share that other tensor ranks have, too, in order.
  std::vector<SharedElements> shared;
  // Of a share: the number of stages that have the same elements, and whether this is
  // the one with the tensor's own unit. Several have a tensor to which tensors of other stages are
  // tied; each of these stages computes a part of its gradient.
  int stages = 1;
  bool first_stage = true;
  // A share has the number of expert ranks that divide the tensor. Only ranks with the same share
  // have gradients of it.
  int expert_ranks = 1;

  int64_t elements() const {
    int64_t n = 1;
    for (int64_t extent : shape) n *= extent;
    return n;
  }
};

// Returns whether a tensor is one of an adapter's (AdapterSpec): the names of these alone have this
// part.
inline bool IsAdapter(absl::string_view name) { return absl::StrContains(name, ".adapter."); }

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
