#include "tests/golden/golden_run.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/model_files/weights.h"
#include "gtest/gtest.h"
#include "tests/equivalence/step_observer.h"
#include "tests/equivalence/training_run.h"
#include "worker/generate/loaded_transformer.h"
#include "worker/runtime/training/prepared_job.h"

namespace muster {
namespace {

// Thread-safe.
class StepRecorder final : public StepObserver {
 public:
  explicit StepRecorder(const ModelDescription& model) : model_(model) {}

  void GradientReady(uint32_t slot, uint64_t clock, int unit, float loss_scale,
                     GradientSpans gradients) override {
    absl::MutexLock lock(&mutex_);
    for (size_t i = 0; i < model_.tensors.size(); ++i) {
      // A tied tensor's gradient is that of the other.
      if (static_cast<int>(model_.tensors[i].unit) != unit || !model_.tensors[i].tied_to.empty()) {
        continue;
      }
      std::vector<float> gradient(gradients[i].begin(), gradients[i].end());
      for (float& value : gradient) value /= loss_scale;
      const GoldenValues values = GoldenValues::Of(gradient);
      Step(slot, clock).gradients[i] = static_cast<uint32_t>(values.fingerprint);
      if (slot == 0 && clock == 0) first_gradients_[i] = values;
    }
  }
  void StepEnded(uint32_t slot, uint64_t clock, const StepSums& sums) override {
    absl::MutexLock lock(&mutex_);
    Step(slot, clock).loss_sum = sums.loss_sum;
  }

  std::vector<GoldenStep> steps() const {
    absl::MutexLock lock(&mutex_);
    std::vector<GoldenStep> steps;
    for (const auto& entry : steps_) steps.push_back(entry.second);
    return steps;
  }
  GoldenValues first_gradient(size_t tensor) const {
    absl::MutexLock lock(&mutex_);
    const auto found = first_gradients_.find(tensor);
    return found == first_gradients_.end() ? GoldenValues() : found->second;
  }

 private:
  GoldenStep& Step(uint32_t slot, uint64_t clock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    GoldenStep& step = steps_[{clock, slot}];
    step.step = clock + 1;
    step.slot = slot;
    step.gradients.resize(model_.tensors.size());
    return step;
  }

  const ModelDescription& model_;
  mutable absl::Mutex mutex_;
  std::map<std::pair<uint64_t, uint32_t>, GoldenStep> steps_ ABSL_GUARDED_BY(mutex_);
  std::map<size_t, GoldenValues> first_gradients_ ABSL_GUARDED_BY(mutex_);
};

class TrainedWeights final : public Weights {
 public:
  TrainedWeights(const v1::TransformerSpec& spec, const ModelDescription& model,
                 const TrainedValues& trained)
      : spec_(spec), trained_(trained) {
    for (const TensorSpec& tensor : model.tensors) {
      if (tensor.tied_to.empty()) tensors_.push_back({tensor.name, tensor.shape});
    }
  }

  const v1::TransformerSpec& spec() const override { return spec_; }
  const std::vector<MusterTensor>& tensors() const override { return tensors_; }
  absl::Status Read(const std::string& tensor, std::vector<float>& values) const override {
    const auto found = trained_.values.find(tensor);
    if (found == trained_.values.end()) return absl::NotFoundError(tensor);
    values = found->second;
    return absl::OkStatus();
  }

 private:
  const v1::TransformerSpec& spec_;
  const TrainedValues& trained_;
  std::vector<MusterTensor> tensors_;
};

// Takes in a prompt of some tokens, then twelve times the likeliest token.
void Generate(const Weights& weights, GoldenRecord& record) {
  auto model = LoadedTransformer::Create(weights);
  ASSERT_TRUE(model.ok()) << model.status();
  std::vector<float> all;
  std::vector<int32_t> tokens = {116, 104, 101, 32, 113, 117, 105, 99, 107};
  for (int i = 0; i < 12; ++i) {
    const auto logits = (*model)->Take(tokens);
    ASSERT_TRUE(logits.ok()) << logits.status();
    all.insert(all.end(), logits->begin(), logits->end());
    const auto likeliest = std::max_element(logits->begin(), logits->end());
    tokens = {static_cast<int32_t>(likeliest - logits->begin())};
    record.generated.push_back(tokens[0]);
  }
  record.logits = GoldenValues::Of(all);
}

RunResult Train(const GoldenJob& job, const RunOptions& options) {
  switch (job.road) {
    case GoldenRoad::kAlone:
      return TrainAlone(job.spec, options);
    case GoldenRoad::kServers:
      return TrainOnServers(job.spec, options);
    case GoldenRoad::kAllReduce:
      return TrainByAllReduce(job.spec, options);
  }
  return {};
}

// The rows of every table that the job's steps push.
std::map<std::string, std::vector<uint64_t>> KeysOf(const v1::JobSpec& spec,
                                                    const ModelDescription& model) {
  return model.sparse_tables.empty() ? std::map<std::string, std::vector<uint64_t>>()
                                     : TrainLocally(spec).keys;
}

}  // namespace

GoldenRecord RunGoldenJob(const GoldenJob& job) {
  GoldenRecord record;
  const auto prepared = PrepareJob(job.spec);
  EXPECT_EQ(prepared.status(), absl::OkStatus());
  if (!prepared.ok()) return record;
  const ModelDescription& model = prepared->model->description();
  StepRecorder recorder(model);
  RunOptions options;
  options.observer = &recorder;
  options.keys = KeysOf(job.spec, model);
  const RunResult run = Train(job, options);
  if (run.trained.empty()) return record;
  for (const TrainedValues& other : run.trained) {
    EXPECT_EQ(other.values, run.trained[0].values) << "the slots do not agree";
  }
  const TrainedValues& trained = run.trained[0];
  record.steps = recorder.steps();
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const TensorSpec& tensor = model.tensors[i];
    const std::vector<float> none;
    const auto& values = tensor.tied_to.empty() ? trained.values.at(tensor.name) : none;
    record.tensors.push_back(
        {tensor.name, tensor.shape, GoldenValues::Of(values), recorder.first_gradient(i)});
  }
  for (const auto& [table, keys] : trained.keys) {
    const std::vector<float>& rows = trained.values.at(table);
    const auto count = static_cast<int64_t>(keys.size());
    record.tensors.push_back(
        {table, {count, static_cast<int64_t>(rows.size()) / count}, GoldenValues::Of(rows), {}});
  }
  record.evaluations = run.curve;
  if (job.spec.model().has_transformer()) {
    Generate(TrainedWeights(job.spec.model().transformer(), model, trained), record);
  }
  return record;
}

}  // namespace muster
