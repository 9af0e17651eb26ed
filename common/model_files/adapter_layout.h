#ifndef MUSTER_COMMON_MODEL_FILES_ADAPTER_LAYOUT_H_
#define MUSTER_COMMON_MODEL_FILES_ADAPTER_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/job/adapter_targets.h"

namespace muster {

namespace v1 {
class AdapterSpec;
class TransformerSpec;
}  // namespace v1

// A kind of a block's adapters, and the rows of the matrix beside which each lies.
struct AdapterPlace {
  AdapterTarget target = AdapterTarget::kQuery;
  // The matrix's name within a block, such as qkv.weight, and its rows in all.
  std::string matrix;
  int64_t matrix_rows = 0;
  // The rows that the adapter adds to, and their length: down [rank, in], up [rows, rank].
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t in = 0;
};

// Returns the kinds of adapters that each block has, in order of target; none if the specification
// is empty. REQUIRES: the
// specification of the transformer was filled (FillTransformerDefaults), without experts.
std::vector<AdapterPlace> AdapterPlaces(const v1::TransformerSpec& spec,
                                        const v1::AdapterSpec& adapter);

// Returns the name of an adapter's matrix, "down" or "up".
std::string AdapterTensorName(uint32_t block, AdapterTarget target, absl::string_view matrix);

}  // namespace muster

#endif  // MUSTER_COMMON_MODEL_FILES_ADAPTER_LAYOUT_H_
