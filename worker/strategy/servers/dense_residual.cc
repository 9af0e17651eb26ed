#include "worker/strategy/servers/dense_residual.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/tensor/half.h"

namespace muster {
namespace {

// The limit of a message, less its header.
constexpr uint64_t kMostBytes = (uint64_t{63} << 20);

}  // namespace

absl::Status DenseResidual::CheckFits(const DenseLayout& layout) {
  for (uint32_t partition = 0; partition < layout.partitions(); ++partition) {
    uint64_t bytes = 0;
    for (uint32_t block : layout.partition_blocks(partition)) {
      bytes += layout.blocks()[block].elements() * sizeof(float);
    }
    if (bytes <= kMostBytes) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "update.wire is of 16 bits, and partition ", partition, " has ", bytes,
        " bytes of dense parameters, at most ", kMostBytes, " can be; set update.partitions to ",
        (layout.elements() * sizeof(float) + kMostBytes / 2 - 1) / (kMostBytes / 2),
        " or more, or update.wire to F32"));
  }
  return absl::OkStatus();
}

DenseResidual::DenseResidual(const DenseLayout& layout, DType type, int pushes,
                             std::shared_ptr<RegisteredMemory> registered)
    : layout_(layout),
      type_(type),
      residual_(layout.elements()),
      pool_((layout.elements() + 1) / 2, pushes, std::move(registered)) {}

Payload DenseResidual::Round(const DenseRun& run, absl::Span<const float> flat) {
  auto* bits = reinterpret_cast<uint16_t*>(bits_->values().data());
  RoundWithResidual(type_, flat.subspan(run.begin, run.elements()),
                    residual_.values().data() + run.begin, bits + run.begin);
  const Payload::Span span(reinterpret_cast<const std::byte*>(bits + run.begin),
                           run.elements() * sizeof(uint16_t));
  return Payload({span}, bits_);
}

void DenseResidual::Clear(const DenseRun& run) {
  absl::Span<float> values = residual_.values().subspan(run.begin, run.elements());
  std::fill(values.begin(), values.end(), 0.0f);
}

void DenseResidual::Append(uint32_t partition, std::string& bytes) const {
  for (uint32_t id : layout_.partition_blocks(partition)) {
    const DenseLayout::Block& block = layout_.blocks()[id];
    bytes.append(reinterpret_cast<const char*>(residual_.values().data() + block.begin),
                 block.elements() * sizeof(float));
  }
}

absl::Status DenseResidual::Restore(const CheckpointReader& checkpoint,
                                    absl::Span<const TensorSpec> tensors, uint32_t slot,
                                    uint32_t slots) {
  std::vector<float> values;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const size_t elements = tensors[i].elements();
    absl::Span<float> sum = residual_.values().subspan(layout_.tensor_offset(i), elements);
    for (uint32_t from = slot;; from += slots) {
      values.resize(elements);
      const absl::Status status = checkpoint.ReadTensor(TensorName(from, tensors[i].name), "",
                                                        /*begin=*/0, absl::MakeSpan(values));
      if (absl::IsNotFound(status)) break;
      MUSTER_RETURN_IF_ERROR(status);
      for (size_t k = 0; k < elements; ++k) sum[k] += values[k];
    }
  }
  return absl::OkStatus();
}

std::string DenseResidual::TensorName(uint32_t slot, const std::string& tensor) {
  return absl::StrCat("residual/", slot, "/", tensor);
}

}  // namespace muster
