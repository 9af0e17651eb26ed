#include "worker/device/passes/warm_up.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/device/device.h"
#include "common/tensor/dtype.h"
#include "worker/nn/layer_context.h"

namespace muster {
namespace {

// A rank's place in a group, without the calls.
template <typename Group>
class PlaceIn : public Group {
 public:
  explicit PlaceIn(const Group& group) : size_(group.size()), rank_(group.rank()) {}

  int size() const override { return size_; }
  int rank() const override { return rank_; }
  void Gather(DType, int64_t, const void*, void*) override {}
  void ScatterSums(DType, int64_t, void*, void*) override {}
  void Sum(DType, int64_t, void*) override {}
  absl::Status status() const override { return absl::OkStatus(); }

 private:
  const int size_;
  const int rank_;
};

class PlaceInContext final : public PlaceIn<ContextGroup> {
 public:
  using PlaceIn::PlaceIn;

  void StartToPass(DType, int64_t, const void*, void*) override {}
  void AwaitPassed() override {}
  void Exchange(DType, int64_t, const void*, void*) override {}
};

class PlaceAmongExperts final : public ExpertGroup {
 public:
  explicit PlaceAmongExperts(const ExpertGroup& group) : size_(group.size()), rank_(group.rank()) {}

  int size() const override { return size_; }
  int rank() const override { return rank_; }
  void Exchange(std::function<void()> exchange) override { exchange(); }
  // `all` is of memory that begins with zeros.
  void Gather(int64_t numbers, const int32_t*, int32_t*, int32_t* on_host) override {
    std::fill_n(on_host, numbers * size_, 0);
  }
  void Start(absl::Span<const Sent>, absl::Span<const Received>) override {}
  void Await() override {}
  absl::Status status() const override { return absl::OkStatus(); }

 private:
  const int size_;
  const int rank_;
};

class PlaceAmongCounters final : public CountingGroup {
 public:
  explicit PlaceAmongCounters(const CountingGroup& group)
      : size_(group.size()), rank_(group.rank()) {}

  int size() const override { return size_; }
  int rank() const override { return rank_; }
  void Sum(int64_t, float*) override {}
  absl::Status status() const override { return absl::OkStatus(); }

 private:
  const int size_;
  const int rank_;
};

}  // namespace

absl::Status WarmUp(DevicePasses& passes, const Model& model, const ModelParameters& parameters,
                    GradientSpans gradients, const WarmUpPart& part) {
  LayerContext context;
  absl::optional<PlaceIn<TensorGroup>> group;
  if (part.tensor_group != nullptr) {
    context.tensor_group = &group.emplace(*part.tensor_group);
    context.sequence_parallel = part.sequence_parallel;
  }
  absl::optional<PlaceInContext> context_group;
  if (part.context_group != nullptr) {
    context.context_group = &context_group.emplace(*part.context_group);
    context.context_exchange = part.context_exchange;
  }
  absl::optional<PlaceAmongExperts> expert_group;
  if (part.expert_group != nullptr) {
    context.expert_group = &expert_group.emplace(*part.expert_group);
  }
  absl::optional<PlaceAmongCounters> counting_group;
  if (part.counting_group != nullptr) {
    context.counting_group = &counting_group.emplace(*part.counting_group);
  }
  const std::unique_ptr<MicroBatch> m = model.NewMicroBatch();
  m->split_backward = part.split_backward;
  const int last_unit = model.description().units - 1;
  // What other stages would send.
  DeviceBuffer received;
  const auto run = [&](const UnitRange& units, const Batch& batch) -> absl::Status {
    m->units = units;
    const int first = units.first;
    const int end = std::min(units.end, last_unit);
    const absl::Span<const std::byte> values(received.data(), received.bytes());
    MUSTER_RETURN_IF_ERROR(model.Load(batch, *m));
    if (first > 0) {
      MUSTER_RETURN_IF_ERROR(model.boundaries()->SetOutput(context, first - 1, values, *m));
    }
    for (int unit = first; unit < end; ++unit) {
      MUSTER_RETURN_IF_ERROR(model.Forward(context, unit, parameters, *m));
    }
    if (units.end > last_unit) {
      MUSTER_RETURN_IF_ERROR(model.RunLastUnit(context, parameters, gradients, *m));
    } else {
      MUSTER_RETURN_IF_ERROR(model.boundaries()->SetGradient(context, end - 1, values, *m));
    }
    for (int unit = end - 1; unit >= first; --unit) {
      MUSTER_RETURN_IF_ERROR(part.split_backward
                                 ? model.BackwardInput(context, unit, parameters, gradients, *m)
                                 : model.Backward(context, unit, parameters, gradients, *m));
    }
    for (int unit = end - 1; part.split_backward && unit >= first; --unit) {
      MUSTER_RETURN_IF_ERROR(model.BackwardWeights(context, unit, gradients, *m));
    }
    return absl::OkStatus();
  };
  return passes.WarmUp([&](const Batch& batch) -> absl::Status {
    const size_t bytes = model.boundaries()->Bytes(context, part.units[0].first, batch);
    MUSTER_ASSIGN_OR_RETURN(received, DeviceBuffer::Allocate(MemoryPlace::kDevice, bytes));
    passes.stream().Fill(received.data(), 0, bytes);
    for (const UnitRange& units : part.units) MUSTER_RETURN_IF_ERROR(run(units, batch));
    return absl::OkStatus();
  });
}

}  // namespace muster
