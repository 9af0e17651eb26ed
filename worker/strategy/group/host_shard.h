#ifndef MUSTER_WORKER_STRATEGY_GROUP_HOST_SHARD_H_
#define MUSTER_WORKER_STRATEGY_GROUP_HOST_SHARD_H_

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "worker/strategy/group/recovery/kept_shard.h"
#include "worker/strategy/group/shard_place.h"

namespace muster {

// A shard that is stepped where KeptShard keeps it, by processors, cell by cell.
class HostShard final : public ShardPlace {
 public:
  enum class Norms { kNotNeeded, kMeasured };
  HostShard(KeptShard& kept, const BucketPlanOptions& buckets, Norms norms)
      : kept_(kept), buckets_(buckets), norms_(norms) {}

  bool on_host() const override { return true; }
  absl::StatusOr<std::vector<GradientBucket>> PlanBuckets(
      const DenseLayout& layout, absl::Span<const TensorSpec> tensors) const override {
    return MakeBucketPlan(layout, tensors, buckets_);
  }
  absl::Status Enter(RankGroups& groups) override { return absl::OkStatus(); }
  void Stop() override {}
  void Leave() override {}
  SliceOps& ops() override { return HostSliceOps(); }
  absl::Status MakeCall(Communicator& group, const CollectiveCall& call) override {
    return group.Run(call);
  }
  std::vector<std::shared_ptr<Work>> StartCalls(Communicator& group,
                                                absl::Span<const CollectiveCall> calls) override {
    return group.StartMessages(calls);
  }
  void Exchange(std::function<void()> exchange) override { exchange(); }
  absl::Status Read(const void* from, size_t bytes, void* to) override {
    std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }
  Replica replica() override { return {.parameters = {.values = state().parameters()}}; }
  absl::Span<float> sums() override { return {}; }
  void PlaceWeights(absl::Span<float* const> places) override { state().PlaceWeights(places); }
  absl::Span<const absl::Span<const float>> slices() const override { return state().slices(); }
  std::unique_ptr<LowPrecisionCopies> MakeCopies(absl::Span<const TensorSpec> tensors,
                                                 const ModelParameters& held) override {
    return std::make_unique<LowPrecisionCopies>(tensors, held);
  }
  absl::Status Fill(absl::Span<const absl::Span<float>> sums) override { return absl::OkStatus(); }
  absl::Status TakeBack() override { return absl::OkStatus(); }
  void HandOver() override {}
  void ZeroGradients() override {}
  absl::Status status() const override { return absl::OkStatus(); }
  absl::Status EndPasses() override { return absl::OkStatus(); }
  StepAgreement::Extent extent() const override { return StepAgreement::Extent::kAll; }
  size_t cells(int shard) const override;
  int Unscale(GradientSpans sums, Check check) override;
  absl::StatusOr<absl::Span<const double>> Measure(const GradientSums& sums, size_t cells) override;
  absl::Status Decide(const GradientSums& sums, StepOutcome& outcome) override;
  void Apply(const GradientSums& sums, const StepOutcome& outcome) override;

 private:
  ShardState& state() const { return kept_.state(); }

  KeptShard& kept_;
  const BucketPlanOptions buckets_;
  const Norms norms_;
  std::vector<double> cells_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_HOST_SHARD_H_
