#include "worker/strategy/replica.h"

#include <optional>
#include <utility>

#include "common/base/status_macros.h"
#include "common/kernels/parallel_for.h"
#include "common/optim/schedule.h"
#include "common/partition/initial_values.h"
#include "common/partition/sparse_placement.h"
#include "common/tables/squared_norm.h"
#include "proto/checkpoint.pb.h"
#include "proto/schema.pb.h"
#include "worker/strategy/global_norm.h"

namespace muster {
namespace {

// The factor that makes a mean of a sum over `examples`.
double MeanScale(double scale, uint64_t examples) {
  // No examples, no gradient.
  return examples == 0 ? 0 : scale / static_cast<double>(examples);
}

// Squared norms of a table's sums by partition. Each partition's rows are taken in their order
// among all, as its server has them.
std::vector<double> RowNorms(const RowSum& sum, uint32_t partitions) {
  std::vector<std::vector<float>> rows(partitions);
  const float* row = sum.sums().data();
  for (uint64_t key : sum.keys()) {
    std::vector<float>& to = rows[SparsePartition(key, partitions)];
    to.insert(to.end(), row, row + sum.dim());
    row += sum.dim();
  }
  std::vector<double> norms;
  for (const std::vector<float>& values : rows) norms.push_back(SquaredNorm(values));
  return norms;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Replica>> Replica::Create(const v1::TablesSchema& schema) {
  MUSTER_RETURN_IF_ERROR(ValidateSchema(schema));
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<const Optimizer> dense_optimizer,
                          CreateOptimizer(schema.optimizer(), Granularity::kElements));
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<const Optimizer> row_optimizer,
                          CreateOptimizer(schema.optimizer(), Granularity::kRow));
  return std::unique_ptr<Replica>(
      new Replica(schema, std::move(dense_optimizer), std::move(row_optimizer)));
}

Replica::Replica(const v1::TablesSchema& schema, std::unique_ptr<const Optimizer> dense_optimizer,
                 std::unique_ptr<const Optimizer> row_optimizer)
    : schema_(std::make_unique<const v1::TablesSchema>(schema)),
      tables_(TablesFromSchema(schema)),
      layout_(LayoutFromSchema(schema)),
      dense_optimizer_(std::move(dense_optimizer)),
      row_optimizer_(std::move(row_optimizer)),
      state_per_weight_(dense_optimizer_->state_floats(1)),
      steps_(layout_.blocks().size()) {
  AllocateValues();
  Reset();
}

Replica::~Replica() = default;

void Replica::ReleaseValues() {
  parameters_.clear();
  weights_ = {};
  state_ = {};
  values_ = nullptr;
}

void Replica::AllocateValues() {
  if (values_ != nullptr) return;
  values_.reset(new Values{.weights = Arena(layout_.elements()),
                           .state = Arena(layout_.elements() * state_per_weight_)});
  weights_ = values_->weights.values();
  state_ = values_->state.values();
  for (absl::Span<float> span : TensorSpans(layout_, tables_.tensors, weights_)) {
    parameters_.push_back(span);
  }
}

absl::Span<float> Replica::BlockState(const DenseLayout::Block& block) {
  return state_.subspan(block.begin * state_per_weight_, block.elements() * state_per_weight_);
}

void Replica::Reset() {
  for (const DenseLayout::Block& block : layout_.blocks()) {
    absl::Span<float> rest = weights_.subspan(block.begin, block.elements());
    for (const DenseLayout::Piece& piece : block.pieces) {
      const size_t elements = piece.end - piece.begin;
      InitialValues(tables_.tensors[piece.tensor], schema_->seed(), piece.begin,
                    rest.first(elements));
      rest.remove_prefix(elements);
    }
    dense_optimizer_->InitState(block.elements(), BlockState(block));
  }
  std::fill(steps_.begin(), steps_.end(), 0);
  ClearRows();
  clock_ = 0;
}

void Replica::ClearRows() {
  rows_.clear();
  rows_.reserve(tables_.sparse.size());
  for (const SparseTableSpec& spec : tables_.sparse) {
    rows_.emplace_back(spec, schema_->seed(), *row_optimizer_);
  }
}

void Replica::LookUp(size_t table, absl::Span<const uint64_t> keys, absl::Span<float> out) const {
  rows_[table].Pull(keys, out);
}

std::vector<uint64_t> Replica::Keys(size_t table) const {
  std::vector<uint64_t> keys;
  for (const SparseTable::Row* row : rows_[table].Sorted()) keys.push_back(row->key);
  return keys;
}

std::vector<std::vector<double>> Replica::SquaredNorms(const GradientSums& sums) const {
  const double mean = MeanScale(1, sums.examples);
  std::vector<std::vector<double>> norms(layout_.partitions());
  for (uint32_t p = 0; p < layout_.partitions(); ++p) {
    norms[p].resize(layout_.partition_blocks(p).size());
  }
  ParallelFor(layout_.blocks().size(), 1, [&](int64_t first, int64_t last) {
    for (int64_t id = first; id < last; ++id) {
      const DenseLayout::Block& block = layout_.blocks()[id];
      norms[block.partition][block.index_in_partition] =
          SquaredNorm(sums.dense.subspan(block.begin, block.elements()), layout_.cells(block)) *
          mean * mean;
    }
  });
  for (const RowSum& rows : sums.rows) {
    const std::vector<double> by_partition = RowNorms(rows, layout_.partitions());
    for (uint32_t p = 0; p < layout_.partitions(); ++p) {
      norms[p].push_back(by_partition[p] * mean * mean);
    }
  }
  return norms;
}

absl::StatusOr<NormClipping> Replica::Clipping(const GradientSums& sums) const {
  const double max_norm = schema_->clipping().by_global_norm();
  if (max_norm <= 0) return NormClipping();
  absl::StatusOr<NormClipping> clipping =
      ClipByNorm(layout_, tables_.sparse.size(), SquaredNorms(sums), max_norm);
  if (clipping.ok() && sums.examples == 0) clipping->norm.reset();
  return clipping;
}

void Replica::Apply(const GradientSums& sums, double scale) {
  if (sums.examples == 0) {
    ++clock_;
    return;
  }
  OptimizerStep step;
  step.learning_rate = LearningRate(schema_->schedule(), schema_->optimizer().learning_rate(),
                                    clock_, schema_->total_steps());
  step.step = clock_ + 1;
  step.gradient_scale = static_cast<float>(MeanScale(scale, sums.examples));
  if (schema_->clipping().by_value() > 0) step.clip_value = schema_->clipping().by_value();

  ParallelFor(layout_.blocks().size(), 1, [&](int64_t first, int64_t last) {
    OptimizerStep block_step = step;
    for (int64_t i = first; i < last; ++i) {
      const DenseLayout::Block& block = layout_.blocks()[i];
      block_step.weight_decay = block.weight_decay;
      dense_optimizer_->Apply(block_step, sums.dense.subspan(block.begin, block.elements()),
                              weights_.subspan(block.begin, block.elements()), BlockState(block));
      ++steps_[i];
    }
  });
  for (size_t table = 0; table < rows_.size(); ++table) {
    step.weight_decay = tables_.sparse[table].weight_decay;
    rows_[table].Update(sums.rows[table].keys(), sums.rows[table].sums(), step,
                        SparseTable::Steps::kGiven, static_cast<uint32_t>(clock_), /*lsn=*/0);
  }
  ++clock_;
}

absl::Status Replica::Restore(const CheckpointReader& checkpoint, RestoreExtent extent,
                              uint64_t clock) {
  MUSTER_RETURN_IF_ERROR(CheckTokenizer(checkpoint, *schema_));
  const bool with_state = RestoresState(checkpoint, extent, schema_->optimizer().name());
  const std::vector<std::string> state_names =
      with_state ? dense_optimizer_->state_names() : std::vector<std::string>();
  for (size_t i = 0; i < steps_.size(); ++i) {
    const DenseLayout::Block& block = layout_.blocks()[i];
    MUSTER_ASSIGN_OR_RETURN(
        const uint64_t steps,
        RestoreBlock(checkpoint, tables_.tensors, block, state_names,
                     weights_.subspan(block.begin, block.elements()), BlockState(block)));
    if (with_state) steps_[i] = steps;
  }
  RestoreRowsOptions options;
  options.with_state = with_state;
  for (size_t table = 0; table < rows_.size(); ++table) {
    MUSTER_RETURN_IF_ERROR(RestoreRows(
        checkpoint, tables_.sparse[table].name, options,
        [](uint64_t) -> absl::StatusOr<bool> { return true; }, rows_[table]));
  }
  clock_ = clock;
  return absl::OkStatus();
}

absl::StatusOr<PartitionFileInfo> Replica::Save(const ReplicaFile& file,
                                                CheckpointStorage& storage) const {
  PartitionContent content;
  content.job_id = file.job_id;
  content.generation = file.generation;
  content.clock = clock_;
  content.partition = file.number;
  content.state_names = dense_optimizer_->state_names();
  content.tensors = tables_.tensors;
  content.loss_scales = file.loss_scales;
  for (uint32_t id : layout_.partition_blocks(file.partition)) {
    const DenseLayout::Block& block = layout_.blocks()[id];
    content.blocks.push_back({.layout = &block,
                              .weights = weights().subspan(block.begin, block.elements()),
                              .state = state_.subspan(block.begin * state_per_weight_,
                                                      block.elements() * state_per_weight_),
                              .steps = steps_[id]});
  }
  for (size_t table = 0; table < rows_.size(); ++table) {
    PartitionContent::Rows rows;
    rows.table = tables_.sparse[table].name;
    rows.width = rows_[table].width();
    rows.rows = rows_[table].Sorted(
        [&](uint64_t key) { return SparsePartition(key, layout_.partitions()) == file.partition; });
    content.sparse.push_back(std::move(rows));
  }
  return WritePartition(storage, file.checkpoint_root, content);
}

Replica::State Replica::state() {
  return {weights_, state_, absl::MakeSpan(steps_), absl::MakeSpan(rows_)};
}

}  // namespace muster
