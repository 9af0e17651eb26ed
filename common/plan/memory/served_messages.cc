#include "common/plan/memory/served_messages.h"

#include <algorithm>

#include "common/partition/memory_bounds.h"
#include "common/partition/schema.h"
#include "common/partition/tensor_spec.h"
#include "common/partition/unit_pulls.h"
#include "common/partition/wire_dtype.h"
#include "common/plan/memory/unit_bytes.h"
#include "common/plan/size/model_size.h"
#include "common/transport/shared_memory/shared_segment.h"

namespace muster {
namespace {

// Shared memory of a connection to a server, each way: what receivers may keep, and what is to be
// sent.
constexpr uint64_t kConnectionBytes = kDefaultArenaBytes - MaxTakenBytes(kDefaultArenaBytes);

// Returns the bytes on their way at once, of units of so many bytes.
uint64_t OnTheirWay(const std::vector<uint64_t>& pulled) {
  const uint64_t due = LargestOf(pulled, 2);
  return std::min(SumOf(pulled), std::max(kPullWindowBytes, due));
}

}  // namespace

bool IsHalf(v1::UpdateSpec::WireType wire) {
  return wire == v1::UpdateSpec::BF16 || wire == v1::UpdateSpec::F16;
}

uint64_t ServedMessages::Gradients() const {
  const uint64_t element = IsHalf(spec_.update().wire()) ? 2 : sizeof(float);
  const std::vector<uint64_t> pushed = UnitBytes(model_, [this, element](size_t i) {
    const TensorSpec& tensor = model_.tensors[i];
    return tensor.tied_to.empty() && !tensor.frozen ? element : 0;
  });
  const uint64_t shared = std::max(1u, spec_.servers()) * kConnectionBytes;
  const uint64_t most = std::min(SumOf(pushed), shared);
  if (spec_.workers() <= 1) return most;
  const uint64_t partitions = LayoutOptions(spec_.update()).partitions;
  const uint64_t sent = std::max(kPushWindowBytes, LargestOf(pushed, 1));
  return std::min(most, sent + partitions * kKeptGradientBytes);
}

uint64_t ServedMessages::Parameters() const {
  const auto wire = WireDType(spec_.update().wire());
  const bool half = IsHalf(spec_.update().wire());
  return OnTheirWay(UnitBytes(model_, [this, half, wire](size_t i) -> uint64_t {
    const bool lands = !half || held_as_[i] == *wire;
    return lands || !model_.tensors[i].tied_to.empty() ? 0 : 2;
  }));
}

uint64_t ServedMessages::CopiedParameters() const {
  const bool half = IsHalf(spec_.update().wire());
  return OnTheirWay(UnitBytes(model_, [this, half](size_t i) -> uint64_t {
    return model_.tensors[i].tied_to.empty() ? (half ? 2 : SizeOf(held_as_[i])) : 0;
  }));
}

uint64_t ServedMessages::TiedGradients() const {
  uint64_t bytes = 0;
  for (const TensorSpec& tensor : model_.tensors) {
    if (tensor.stages == 1 || !tensor.first_stage || tensor.frozen) continue;
    bytes = std::max(bytes,
                     sizeof(float) * std::min<uint64_t>(kTiedMessageElements, tensor.elements()));
  }
  return bytes;
}

}  // namespace muster
