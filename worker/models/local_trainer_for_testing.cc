#include "worker/models/local_trainer_for_testing.h"

#include <algorithm>
#include <limits>
#include <string>

#include "common/base/status_macros.h"
#include "common/partition/initial_values.h"

namespace muster {

LocalTrainer::LocalTrainer(const Model& model, const std::vector<TensorSpec>& tensors,
                           uint64_t seed)
    : model_(model), seed_(seed), micro_batch_(model.NewMicroBatch()) {
  for (const TensorSpec& tensor : tensors) {
    const int64_t elements = tensor.tied_to.empty() ? tensor.elements() : 0;
    parameters_.emplace_back(elements);
    gradients_.emplace_back(elements);
    InitialValues(tensor, seed, 0, absl::MakeSpan(parameters_.back()));
  }
  for (const TensorSpec& tensor : tensors) {
    const std::string& owner = tensor.tied_to.empty() ? tensor.name : tensor.tied_to;
    size_t t = 0;
    while (tensors[t].name != owner) ++t;
    parameter_spans_.push_back(parameters_[t]);
    gradient_spans_.push_back(absl::MakeSpan(gradients_[t]));
  }
  copies_ =
      std::make_unique<LowPrecisionCopies>(tensors, ModelParameters{.values = parameter_spans_});
  rows_.resize(model.description().sparse_tables.size());
}

std::vector<float>& LocalTrainer::Row(int table, uint64_t key) {
  std::vector<float>& row = rows_[table][key];
  if (row.empty()) {
    const SparseTableSpec& spec = model_.description().sparse_tables[table];
    row.resize(spec.dim);
    InitialRow(spec, seed_, key, absl::MakeSpan(row));
  }
  return row;
}

absl::Status LocalTrainer::Load(const Batch& batch) {
  MUSTER_RETURN_IF_ERROR(model_.Load(batch, *micro_batch_));
  for (size_t table = 0; table < rows_.size(); ++table) {
    SparseRows& sparse = micro_batch_->sparse[table];
    auto out = sparse.rows.begin();
    for (uint64_t key : sparse.keys) {
      const std::vector<float>& row = Row(table, key);
      out = std::copy(row.begin(), row.end(), out);
    }
  }
  return absl::OkStatus();
}

ModelParameters LocalTrainer::Rounded() {
  copies_->Outdate();
  for (int unit = 0; unit < model_.description().units; ++unit) copies_->Refresh(unit);
  return copies_->parameters();
}

absl::Status LocalTrainer::RunUnits(const LayerContext& context) {
  const ModelParameters parameters = Rounded();
  const int last = model_.description().units - 1;
  for (int unit = 0; unit < last; ++unit) {
    MUSTER_RETURN_IF_ERROR(model_.Forward(context, unit, parameters, *micro_batch_));
  }
  MUSTER_RETURN_IF_ERROR(model_.RunLastUnit(context, parameters, gradient_spans_, *micro_batch_));
  const bool split = micro_batch_->split_backward;
  for (int unit = last - 1; unit >= 0; --unit) {
    MUSTER_RETURN_IF_ERROR(
        split ? model_.BackwardInput(context, unit, parameters, gradient_spans_, *micro_batch_)
              : model_.Backward(context, unit, parameters, gradient_spans_, *micro_batch_));
  }
  for (int unit = last - 1; split && unit >= 0; --unit) {
    MUSTER_RETURN_IF_ERROR(model_.BackwardWeights(context, unit, gradient_spans_, *micro_batch_));
  }
  return absl::OkStatus();
}

absl::Status LocalTrainer::Run(const LayerContext& context) {
  for (std::vector<float>& gradient : gradients_) {
    std::fill(gradient.begin(), gradient.end(), std::numeric_limits<float>::quiet_NaN());
  }
  LayerContext writes = context;
  writes.gradients = Accumulation::kWrite;
  return RunUnits(writes);
}

absl::Status LocalTrainer::Evaluate(const Batch& batch) {
  MUSTER_RETURN_IF_ERROR(Load(batch));
  const ModelParameters parameters = Rounded();
  for (int unit = 0; unit < model_.description().units; ++unit) {
    MUSTER_RETURN_IF_ERROR(
        model_.Forward({.pass = Pass::kEvaluation}, unit, parameters, *micro_batch_));
  }
  return absl::OkStatus();
}

absl::Status LocalTrainer::Step(const Batch& batch, float learning_rate) {
  MUSTER_RETURN_IF_ERROR(Load(batch));
  MUSTER_RETURN_IF_ERROR(Run());
  if (micro_batch_->loss_weight == 0) return absl::OkStatus();
  const float scale = learning_rate / static_cast<float>(micro_batch_->loss_weight);
  for (size_t t = 0; t < parameters_.size(); ++t) {
    for (size_t i = 0; i < parameters_[t].size(); ++i) {
      parameters_[t][i] -= scale * gradients_[t][i];
    }
  }
  for (size_t table = 0; table < rows_.size(); ++table) {
    const SparseRows& sparse = micro_batch_->sparse[table];
    auto gradient = sparse.gradients.begin();
    for (uint64_t key : sparse.keys) {
      for (float& value : Row(table, key)) value -= scale * *gradient++;
    }
  }
  return absl::OkStatus();
}

}  // namespace muster
