#ifndef MUSTER_WORKER_RUNTIME_TRAINING_TRAINER_DOUBLES_FOR_TESTING_H_
#define MUSTER_WORKER_RUNTIME_TRAINING_TRAINER_DOUBLES_FOR_TESTING_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "worker/nn/loss_scaler.h"
#include "worker/nn/model.h"
#include "worker/strategy/background_cuts.h"
#include "worker/strategy/local_strategy_for_testing.h"

namespace muster {

// A strategy that counts cuts and passes everything else on.
class CountingStrategy final : public Strategy, private BackgroundCuts {
 public:
  CountingStrategy(Strategy& inner, uint64_t start) : inner_(inner), start_(start) {}

  absl::StatusOr<uint64_t> Start() override { return start_; }
  void SetRateFactor(double factor) override {
    rate_factors_.push_back(factor);
    inner_.SetRateFactor(factor);
  }
  absl::Status BeginStep(uint64_t clock) override {
    clock_ = clock;
    // The inner strategy leaves out no clock.
    return inner_.BeginStep(left_out_ == nullptr ? clock - start_ : steps_);
  }
  absl::Status Acquire(int unit, Direction direction) override {
    if (group_scale_.has_value() && unit == 0) group_scale_->Restore(GroupScaleAt(clock_));
    return inner_.Acquire(unit, direction);
  }
  void Release(int unit, Direction direction) override { inner_.Release(unit, direction); }
  ModelParameters parameters() const override { return inner_.parameters(); }
  absl::Status Prefetch(const MicroBatch& batch) override { return inner_.Prefetch(batch); }
  absl::Status LookUp(MicroBatch& batch) override { return inner_.LookUp(batch); }
  absl::Status BeforeBackward(uint64_t examples, SeriesPosition position) override {
    micro_batches_.push_back(examples);
    positions_.push_back(position);
    return inner_.BeforeBackward(examples, position);
  }
  Accumulation GradientStore(int unit) const override { return inner_.GradientStore(unit); }
  GradientSpans gradients() const override { return inner_.gradients(); }
  float loss_scale() const override {
    return group_scale_.has_value() ? group_scale_->scale() : inner_.loss_scale();
  }
  absl::Status GradientReady(int unit) override {
    sent_units_.push_back(unit);
    return inner_.GradientReady(unit);
  }
  absl::Status PushRows(MicroBatch& batch) override { return inner_.PushRows(batch); }
  absl::Status EndStep() override {
    if (group_scale_.has_value()) group_scale_->Overflowed();
    ++steps_;
    return inner_.EndStep();
  }
  absl::StatusOr<CutFiles> Cut(uint64_t clock) override {
    cuts_.push_back(clock);
    return AwaitFiles();
  }
  BackgroundCuts& background_cuts() override { return *this; }
  absl::StatusOr<CutEnd> EndCut(CutEnd mine) override {
    if (committed_) committed_();
    return mine;
  }
  // Called at every EndCut.
  void OnCommitted(std::function<void()> committed) { committed_ = std::move(committed); }
  const LossScaler* loss_scaler() const override {
    return group_scale_.has_value() ? &*group_scale_ : inner_.loss_scaler();
  }
  StrategyCounters counters() const override { return inner_.counters(); }
  absl::optional<uint64_t> LeftOutUntil() const override {
    if (left_out_ == nullptr) return absl::nullopt;
    return left_out_(clock_);
  }
  // Says of the step at each clock whether it was left out, and where the slot goes on then.
  void LeaveOut(std::function<absl::optional<uint64_t>(uint64_t clock)> left_out) {
    left_out_ = std::move(left_out);
  }

  // Has a loss scale, which does nothing, of which a step hears when its first unit is acquired,
  // and which changes again when the step ends.
  void HearOfAGroupsScale() { group_scale_.emplace(/*fixed=*/0, /*window=*/0); }
  static LossScale GroupScaleAt(uint64_t clock) {
    return {.scale = clock % 2 == 0 ? 64.0f : 128.0f, .steps = 0};
  }

  const std::vector<uint64_t>& cuts() const { return cuts_; }

  // The learning rate's factor before every step.
  const std::vector<double>& rate_factors() const { return rate_factors_; }
  const std::vector<int>& sent_units() const { return sent_units_; }
  // The examples and the position of every micro-batch.
  const std::vector<uint64_t>& micro_batches() const { return micro_batches_; }
  const std::vector<SeriesPosition>& positions() const { return positions_; }

 private:
  absl::Status Take(uint64_t clock) override {
    cuts_.push_back(clock);
    return absl::OkStatus();
  }
  void Write(uint64_t clock, absl::optional<uint64_t> base) override {}
  bool Written() const override { return true; }
  absl::StatusOr<CutFiles> AwaitFiles() override {
    return CutFiles{.by_partition = {{0, "f0", 10, 11}, {1, "f1", 20, 21}}, .failure = ""};
  }

  Strategy& inner_;
  const uint64_t start_;
  uint64_t clock_ = 0;
  absl::optional<LossScaler> group_scale_;
  std::function<void()> committed_;
  std::function<absl::optional<uint64_t>(uint64_t)> left_out_;
  uint64_t steps_ = 0;
  std::vector<uint64_t> cuts_;
  std::vector<double> rate_factors_;
  std::vector<int> sent_units_;
  std::vector<uint64_t> micro_batches_;
  std::vector<SeriesPosition> positions_;
};

// A model of several units whose first micro-batches, so many, leave a NaN in the first tensor's
// gradient.
class PoisonedModel final : public Model {
 public:
  PoisonedModel(const Model& inner, int poisons) : inner_(inner), poisons_(poisons) {}

  const ModelDescription& description() const override { return inner_.description(); }
  std::unique_ptr<MicroBatch> NewMicroBatch() const override { return inner_.NewMicroBatch(); }
  absl::Status Load(const Batch& batch, MicroBatch& micro_batch) const override {
    return inner_.Load(batch, micro_batch);
  }
  absl::Status Forward(const LayerContext& context, int unit, const ModelParameters& parameters,
                       MicroBatch& micro_batch) const override {
    return inner_.Forward(context, unit, parameters, micro_batch);
  }
  absl::Status RunLastUnit(const LayerContext& context, const ModelParameters& parameters,
                           GradientSpans gradients, MicroBatch& micro_batch) const override {
    return inner_.RunLastUnit(context, parameters, gradients, micro_batch);
  }
  absl::Status Backward(const LayerContext& context, int unit, const ModelParameters& parameters,
                        GradientSpans gradients, MicroBatch& micro_batch) const override {
    const absl::Status status = inner_.Backward(context, unit, parameters, gradients, micro_batch);
    if (unit == 0 && poisons_ > 0) {
      --poisons_;
      gradients[0][0] = std::numeric_limits<float>::quiet_NaN();
    }
    return status;
  }

 private:
  const Model& inner_;
  mutable int poisons_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_TRAINER_DOUBLES_FOR_TESTING_H_
