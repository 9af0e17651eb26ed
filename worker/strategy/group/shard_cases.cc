#include "worker/strategy/group/shard_cases.h"

#include <string>
#include <utility>

#include "common/base/fingerprint.h"
#include "common/tensor/dtype.h"

namespace muster {
namespace {

TensorSpec Tensor(std::string name, int64_t elements, uint32_t unit, DType compute = DType::kF32,
                  std::string tied_to = "") {
  TensorSpec tensor;
  tensor.name = std::move(name);
  tensor.shape = {elements};
  tensor.unit = unit;
  tensor.weight_decay = elements > 20;
  tensor.compute = compute;
  tensor.tied_to = std::move(tied_to);
  return tensor;
}

std::vector<TensorSpec> Tensors(int64_t scale) {
  return {Tensor("embedding", 185 * scale, 0),
          Tensor("positions", 13, 0),
          Tensor("a", 301 * scale, 1, DType::kBf16),
          Tensor("a.bias", 7, 1),
          Tensor("single", 1, 2),
          Tensor("again", 90 * scale, 2, DType::kF32, "b"),
          Tensor("c", 1024 * scale, 4, DType::kBf16),
          Tensor("c.gain", 3, 4),
          Tensor("b", 90 * scale, 5),
          Tensor("d", 77 * scale, 5, DType::kF16),
          Tensor("norm", 5, 6),
          Tensor("head", 185 * scale, 6, DType::kBf16, "embedding")};
}

}  // namespace

ShardCase::ShardCase(int shard_count, int64_t scale)
    : tensors(Tensors(scale)),
      layout(DenseLayout::Create(tensors, {.block_bytes = 256}).value()),
      shards(layout, shard_count) {}

int ShardCase::OwnerOf(int tensor) const {
  for (int i = 0; i < static_cast<int>(tensors.size()); ++i) {
    if (tensors[i].name == tensors[tensor].tied_to) return i;
  }
  return tensor;
}

float CaseValue(uint64_t seed, uint64_t index) {
  const uint64_t bits = MixBits(seed * 0x9e3779b97f4a7c15 + index);
  return static_cast<float>(static_cast<int64_t>(bits)) * 0x1p-63f;
}

}  // namespace muster
