#include "worker/strategy/local_strategy.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/optim/schedule.h"
#include "common/partition/initial_values.h"
#include "proto/schema.pb.h"

namespace muster {

absl::StatusOr<std::unique_ptr<LocalStrategy>> LocalStrategy::Create(
    const v1::TablesSchema& schema) {
  MUSTER_RETURN_IF_ERROR(ValidateSchema(schema));
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<const Optimizer> dense_optimizer,
                          CreateOptimizer(schema.optimizer(), Granularity::kElements));
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<const Optimizer> row_optimizer,
                          CreateOptimizer(schema.optimizer(), Granularity::kRow));
  return std::unique_ptr<LocalStrategy>(
      new LocalStrategy(schema, std::move(dense_optimizer), std::move(row_optimizer)));
}

LocalStrategy::LocalStrategy(const v1::TablesSchema& schema,
                             std::unique_ptr<const Optimizer> dense_optimizer,
                             std::unique_ptr<const Optimizer> row_optimizer)
    : schema_(std::make_unique<v1::TablesSchema>(schema)),
      tables_(TablesFromSchema(schema)),
      layout_(LayoutFromSchema(schema)),
      dense_optimizer_(std::move(dense_optimizer)),
      row_optimizer_(std::move(row_optimizer)),
      values_(layout_.elements()),
      sums_(layout_.elements()),
      weights_(TensorSpans(layout_, tables_.tensors, values_.values())),
      parameters_(weights_.begin(), weights_.end()),
      gradients_(TensorSpans(layout_, tables_.tensors, sums_.values())),
      slots_(tables_.tensors.size()),
      rows_(tables_.sparse.size()),
      pushed_(tables_.sparse.size()) {
  for (size_t i = 0; i < tables_.tensors.size(); ++i) {
    InitialValues(tables_.tensors[i], schema.seed(), 0, weights_[i]);
    slots_[i].resize(dense_optimizer_->slot_floats(weights_[i].size()));
    dense_optimizer_->InitSlots(weights_[i].size(), absl::MakeSpan(slots_[i]));
  }
}

std::vector<float>& LocalStrategy::Row(int table, uint64_t key) {
  auto [it, added] = rows_[table].try_emplace(key);
  std::vector<float>& row = it->second;
  if (added) {
    const SparseTableSpec& spec = tables_.sparse[table];
    row.resize(spec.dim + row_optimizer_->slot_floats(spec.dim));
    absl::Span<float> all = absl::MakeSpan(row);
    InitialRow(spec, schema_->seed(), key, all.first(spec.dim));
    row_optimizer_->InitSlots(spec.dim, all.subspan(spec.dim));
  }
  return row;
}

absl::Status LocalStrategy::BeginStep(uint64_t clock) {
  clock_ = clock;
  return absl::OkStatus();
}

absl::Status LocalStrategy::LookUp(MicroBatch& micro_batch) {
  for (size_t table = 0; table < rows_.size(); ++table) {
    SparseRows& sparse = micro_batch.sparse[table];
    const SparseTableSpec& spec = tables_.sparse[table];
    sparse.rows.resize(sparse.keys.size() * spec.dim);
    for (size_t i = 0; i < sparse.keys.size(); ++i) {
      absl::Span<float> to = absl::MakeSpan(sparse.rows).subspan(i * spec.dim, spec.dim);
      auto it = rows_[table].find(sparse.keys[i]);
      if (it == rows_[table].end()) {
        InitialRow(spec, schema_->seed(), sparse.keys[i], to);
      } else {
        std::copy_n(it->second.begin(), spec.dim, to.begin());
      }
    }
  }
  return absl::OkStatus();
}

absl::Status LocalStrategy::BeforeBackward(uint64_t examples) {
  examples_ = examples;
  absl::Span<float> sums = sums_.values();
  std::fill(sums.begin(), sums.end(), 0.0f);
  for (PushedRows& pushed : pushed_) pushed = PushedRows();
  return absl::OkStatus();
}

absl::Status LocalStrategy::PushRows(const MicroBatch& micro_batch) {
  for (size_t table = 0; table < rows_.size(); ++table) {
    pushed_[table].keys = micro_batch.sparse[table].keys;
    pushed_[table].gradients = micro_batch.sparse[table].gradients;
  }
  return absl::OkStatus();
}

double LocalStrategy::SquaredNorm() const {
  double squared = 0;
  for (float g : sums_.values()) squared += static_cast<double>(g) * g;
  for (const PushedRows& pushed : pushed_) {
    for (float g : pushed.gradients) squared += static_cast<double>(g) * g;
  }
  return squared / (static_cast<double>(examples_) * examples_);
}

absl::Status LocalStrategy::EndStep() {
  OptimizerStep step;
  step.learning_rate = LearningRate(schema_->schedule(), schema_->optimizer().learning_rate(),
                                    clock_, schema_->total_steps());
  step.step = clock_ + 1;
  double scale = 1.0 / examples_;
  if (const double max_norm = schema_->clipping().by_global_norm(); max_norm > 0) {
    const double norm = std::sqrt(SquaredNorm());
    if (!std::isfinite(norm)) {
      return absl::OutOfRangeError(
          absl::StrCat("diverged: the gradient's norm is ", norm, "; lower the learning rate"));
    }
    if (norm > max_norm) scale *= max_norm / norm;
  }
  step.gradient_scale = static_cast<float>(scale);
  if (schema_->clipping().by_value() > 0) step.clip_value = schema_->clipping().by_value();

  for (size_t i = 0; i < weights_.size(); ++i) {
    step.weight_decay = tables_.tensors[i].weight_decay;
    dense_optimizer_->Apply(step, gradients_[i], weights_[i], absl::MakeSpan(slots_[i]));
  }
  for (size_t table = 0; table < rows_.size(); ++table) {
    const uint32_t dim = tables_.sparse[table].dim;
    step.weight_decay = tables_.sparse[table].weight_decay;
    const PushedRows& pushed = pushed_[table];
    for (size_t i = 0; i < pushed.keys.size(); ++i) {
      absl::Span<float> row = absl::MakeSpan(Row(table, pushed.keys[i]));
      row_optimizer_->Apply(step, absl::MakeConstSpan(pushed.gradients).subspan(i * dim, dim),
                            row.first(dim), row.subspan(dim));
    }
  }
  return absl::OkStatus();
}

std::vector<uint64_t> LocalStrategy::Keys(int table) const {
  std::vector<uint64_t> keys;
  for (const auto& [key, row] : rows_[table]) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace muster
