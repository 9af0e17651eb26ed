#ifndef MUSTER_CLIENT_PROVE_WEIGHTS_DIFFERENCE_H_
#define MUSTER_CLIENT_PROVE_WEIGHTS_DIFFERENCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/safetensors/safetensors_file.h"

namespace muster {

// Says how a tensor of one file differs from the same tensor of another.
struct TensorDifference {
  std::string tensor;
  // The largest difference of two elements, the row-major index of the first one that has it, and
  // both values there.
  double difference = 0;
  int64_t element = 0;
  double value = 0;
  double expected = 0;
  // The largest absolute value that is expected of the tensor.
  double largest = 0;
};

// Returns all differences, in the order in which `expected` has its tensors in the file; rows of
// sparse tables are found by their keys. A value that is not a number is infinitely far from one
// that is. InvalidArgument: the files have other tensors, shapes or keys; names the first.
absl::StatusOr<std::vector<TensorDifference>> WeightsDifference(const SafetensorsFile& file,
                                                                const SafetensorsFile& expected);

// Returns what a tensor may differ by: `tolerance` of its largest element or, if all of its are
// small, of a twentieth of the largest element of all. A tensor that theory gives no gradient, such
// as a bias of keys, has one of rounding alone.
double AllowedDifference(const TensorDifference& tensor, double largest_of_all, double tolerance);

}  // namespace muster

#endif  // MUSTER_CLIENT_PROVE_WEIGHTS_DIFFERENCE_H_
