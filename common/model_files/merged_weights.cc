#include "common/model_files/merged_weights.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/partition/tensor_spec.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// Splits "block3.qkv.weight" into 3 and "qkv.weight". Returns whether the tensor is a block's.
bool SplitBlock(absl::string_view tensor, uint32_t& block, absl::string_view& rest) {
  if (!absl::ConsumePrefix(&tensor, "block")) return false;
  const size_t dot = tensor.find('.');
  if (dot == absl::string_view::npos || !absl::SimpleAtoi(tensor.substr(0, dot), &block)) {
    return false;
  }
  rest = tensor.substr(dot + 1);
  return true;
}

}  // namespace

MergedWeights::MergedWeights(const Weights& weights, const v1::AdapterSpec& adapter)
    : weights_(weights), adapter_(std::make_unique<v1::AdapterSpec>(adapter)) {
  for (const MusterTensor& tensor : weights.tensors()) {
    if (!IsAdapter(tensor.name)) tensors_.push_back(tensor);
  }
}

MergedWeights::~MergedWeights() = default;

absl::Status MergedWeights::Read(const std::string& tensor, std::vector<float>& values) const {
  MUSTER_RETURN_IF_ERROR(weights_.Read(tensor, values));
  uint32_t block = 0;
  absl::string_view matrix;
  if (!SplitBlock(tensor, block, matrix)) return absl::OkStatus();
  const auto rank = static_cast<int64_t>(adapter_->rank());
  const float scale = AdapterScale(*adapter_);
  for (const AdapterPlace& place : AdapterPlaces(spec(), *adapter_)) {
    if (place.matrix != matrix) continue;
    std::vector<float> down, up;
    MUSTER_RETURN_IF_ERROR(weights_.Read(AdapterTensorName(block, place.target, "down"), down));
    MUSTER_RETURN_IF_ERROR(weights_.Read(AdapterTensorName(block, place.target, "up"), up));
    if (static_cast<int64_t>(down.size()) != rank * place.in ||
        static_cast<int64_t>(up.size()) != place.rows * rank ||
        static_cast<int64_t>(values.size()) != place.matrix_rows * place.in) {
      return absl::InvalidArgumentError(
          absl::StrCat("the adapter of ", tensor, " has ", down.size(), " and ", up.size(),
                       " numbers, but adapters of rank ", rank, " have ", rank * place.in, " and ",
                       place.rows * rank, " there: these weights are of another model"));
    }
    for (int64_t row = 0; row < place.rows; ++row) {
      float* const to = values.data() + (place.first_row + row) * place.in;
      for (int64_t r = 0; r < rank; ++r) {
        const float factor = scale * up[row * rank + r];
        for (int64_t i = 0; i < place.in; ++i) to[i] += factor * down[r * place.in + i];
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace muster
