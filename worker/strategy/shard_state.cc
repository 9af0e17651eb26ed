#include "worker/strategy/shard_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/machine/resident_peak.h"
#include "common/base/status_macros.h"
#include "common/kernels/parallel_for.h"
#include "common/optim/schedule.h"
#include "common/partition/initial_values.h"
#include "common/partition/memory_bounds.h"
#include "common/tables/block_step.h"
#include "common/tables/squared_norm.h"
#include "common/trace/trace_scope.h"
#include "proto/checkpoint.pb.h"
#include "proto/schema.pb.h"
#include "worker/strategy/global_norm.h"

namespace muster {
namespace {

// Returns the factor that makes a mean of a sum over `examples`.
double MeanScale(double scale, uint64_t examples) {
  // Without examples there is no gradient.
  return examples == 0 ? 0 : scale / static_cast<double>(examples);
}

// Returns squared norms of a table's sums by partition, of those that the shard owns. Each
// partition's rows keep their order, as on its server.
std::vector<double> RowNorms(const RowSum& sum, uint32_t partitions, const MeshPosition& shard) {
  std::vector<std::vector<float>> rows(partitions);
  const float* row = sum.sums().data();
  for (uint64_t key : sum.keys()) {
    std::vector<float>& to = rows[SparsePartition(key, partitions)];
    to.insert(to.end(), row, row + sum.dim());
    row += sum.dim();
  }
  std::vector<double> norms;
  const uint32_t shards = shard.size(kShardAxes);
  for (uint32_t p = shard.at(kShardAxes); p < partitions; p += shards) {
    norms.push_back(SquaredNorm(rows[p]));
  }
  return norms;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShardState>> ShardState::Create(
    const v1::TablesSchema& schema, const MeshPosition& shard,
    const absl::optional<std::string>& offload_folder) {
  MUSTER_ASSIGN_OR_RETURN(Parts parts, MakeParts(schema, shard));
  std::unique_ptr<ShardState> state(new ShardState(schema, shard, std::move(parts)));
  if (offload_folder.has_value()) {
    MUSTER_ASSIGN_OR_RETURN(
        state->offloaded_state_,
        OffloadedFloats::Create(*offload_folder, state->state_floats(Holders(shard.mesh))));
  }
  state->MakeWindows();
  state->AllocateValues();
  state->Reset();
  return state;
}

absl::StatusOr<ShardState::Parts> ShardState::MakeParts(const v1::TablesSchema& schema,
                                                        const MeshPosition& shard) {
  MUSTER_RETURN_IF_ERROR(ValidateSchema(schema));
  const int stages = shard.size(Axis::kPipeline);
  if (shard.size(kPartAxes) > 1 && schema.sparse_size() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a job with ", shard.size(Axis::kTensor), " tensor ranks in ", stages,
                     " stages has sparse tables, which neither tensor ranks nor stages divide"));
  }
  if (const int divided = MeshOf(schema).size(Axis::kPipeline); divided != stages) {
    return absl::InvalidArgumentError(absl::StrCat("a rank holds a shard of one of ", stages,
                                                   " stages, but the schema's tensors are divided "
                                                   "among ",
                                                   divided));
  }
  MUSTER_ASSIGN_OR_RETURN(Tables tables, LocalTables(schema, shard));
  MUSTER_ASSIGN_OR_RETURN(DenseLayout layout, LayoutOfTensors(schema, tables.tensors));
  std::vector<NormCells> cells;
  for (const int other_rank : shard.mesh.Group(0, kPartAxes)) {
    MUSTER_ASSIGN_OR_RETURN(const Tables other, LocalTables(schema, shard.Of(other_rank)));
    MUSTER_ASSIGN_OR_RETURN(const DenseLayout its_layout, LayoutOfTensors(schema, other.tensors));
    cells.emplace_back(its_layout, ShardLayout(its_layout, Holders(shard.mesh)));
  }
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<const Optimizer> dense_optimizer,
                          CreateOptimizer(schema.optimizer(), Granularity::kElements));
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<const Optimizer> row_optimizer,
                          CreateOptimizer(schema.optimizer(), Granularity::kRow));
  return Parts{std::move(tables), std::move(layout), std::move(cells), std::move(dense_optimizer),
               std::move(row_optimizer)};
}

ShardState::ShardState(const v1::TablesSchema& schema, const MeshPosition& shard, Parts parts)
    : schema_(std::make_unique<const v1::TablesSchema>(schema)),
      tables_(std::move(parts.tables)),
      layout_(std::move(parts.layout)),
      trained_layout_(layout_.Trained()),
      shard_(shard),
      shard_layout_(layout_, Holders(shard.mesh)),
      trained_shards_(trained_layout_, Holders(shard.mesh)),
      owned_(shard_layout_.OwnedBlocks(layout_, shard.at(kHolderAxes))),
      dense_optimizer_(std::move(parts.dense_optimizer)),
      row_optimizer_(std::move(parts.row_optimizer)),
      state_per_weight_(dense_optimizer_->state_floats(1)),
      cells_(std::move(parts.cells)),
      steps_(owned_.size()) {
  CountCells();
}

ShardState::~ShardState() = default;

size_t ShardState::state_floats(const Holders& holders) const {
  return ShardLayout(trained_layout_, holders).slice_elements() * state_per_weight_;
}

void ShardState::CountCells() {
  size_t own = 0;
  for (const NormCells::BlockCells& block :
       cells_[shard_.at(kPartAxes)].blocks(shard_.at(kHolderAxes))) {
    first_cells_.push_back(own);
    own += block.count;
  }
  for (int other = 0; other < shard_.mesh.world_size(); ++other) {
    const int index = shard_.Of(other).at(kHolderAxes);
    size_t cells = cells_[shard_.Of(other).at(kPartAxes)].count(index);
    for (uint32_t p = index; p < layout_.partitions(); p += shard_.size(kShardAxes)) {
      cells += tables_.sparse.size();
    }
    cells_by_shard_.push_back(cells);
  }
}

void ShardState::MakeWindows() {
  size_t bytes = 0;
  for (size_t i = 0; i < owned_.size(); ++i) {
    const size_t more = StateFloats(owned_[i].block, *dense_optimizer_) * sizeof(float);
    const bool full = offloaded_state_ != nullptr && bytes + more > kOffloadWindowBytes;
    if (windows_.empty() || full) {
      windows_.push_back({i, i});
      bytes = 0;
    }
    windows_.back().last = i + 1;
    bytes += more;
  }
}

void ShardState::ReleaseValues() {
  parameters_.clear();
  SetSlices(std::vector<absl::Span<float>>(shard_layout_.parts().size()));
  own_weights_ = nullptr;
  optimizer_state_ = nullptr;
}

void ShardState::AllocateValues() {
  if (own_weights_ != nullptr) return;
  own_weights_ = std::make_unique<Arena>(shard_layout_.slice_elements());
  if (offloaded_state_ == nullptr) {
    optimizer_state_ =
        std::make_unique<Arena>(trained_shards_.slice_elements() * state_per_weight_);
  }
  SetSlices(PartSlices(own_weights_->values()));
  if (shard_layout_.holders().shards > 1) return;
  for (absl::Span<float> span : TensorSpans(layout_, tables_.tensors, own_weights_->values())) {
    parameters_.push_back(span);
  }
}

void ShardState::SetSlices(std::vector<absl::Span<float>> slices) {
  slices_ = std::move(slices);
  readable_slices_.assign(slices_.begin(), slices_.end());
}

void ShardState::PlaceWeights(absl::Span<float* const> places) {
  const auto elsewhere = [&](size_t part) { return !places.empty() && places[part] != nullptr; };
  size_t own = 0;
  for (size_t part = 0; part < slices_.size(); ++part) {
    if (!elsewhere(part)) own += slices_[part].size();
  }
  // No weights are placed elsewhere, before or after.
  if (own == shard_layout_.slice_elements() && own == own_weights_->values().size()) return;
  auto memory = std::make_unique<Arena>(own);
  float* next = memory->values().data();
  std::vector<absl::Span<float>> slices = slices_;
  for (size_t part = 0; part < slices.size(); ++part) {
    const absl::Span<const float> from = slices_[part];
    float* const to = elsewhere(part) ? places[part] : next;
    if (!elsewhere(part)) next += from.size();
    if (to != from.data()) std::copy(from.begin(), from.end(), to);
    slices[part] = {to, from.size()};
  }
  SetSlices(std::move(slices));
  own_weights_ = std::move(memory);
}

absl::Span<float> ShardState::Of(const ShardLayout::OwnedBlock& owned,
                                 absl::Span<const absl::Span<float>> slices) const {
  const uint32_t part = owned.block.part;
  return slices[part].subspan(owned.slice_begin - shard_layout_.parts()[part].slice_begin,
                              owned.block.elements());
}

absl::Span<float> ShardState::OptimizerState() const {
  return offloaded_state_ != nullptr ? offloaded_state_->values() : optimizer_state_->values();
}

absl::Span<float> ShardState::OptimizerState(const ShardLayout::OwnedBlock& owned) const {
  if (owned.block.frozen) return {};
  return OptimizerState().subspan(owned.slice_begin * state_per_weight_,
                                  owned.block.elements() * state_per_weight_);
}

OffloadedFloats::Range ShardState::FloatsOf(const Window& window) const {
  const ShardLayout::OwnedBlock& last = owned_[window.last - 1];
  // Frozen blocks lie behind all that has state.
  const uint64_t all = trained_shards_.slice_elements();
  return {std::min(all, owned_[window.first].slice_begin) * state_per_weight_,
          std::min(all, last.slice_begin + last.block.elements()) * state_per_weight_};
}

void ShardState::ForEachWindow(absl::FunctionRef<void(const Window&)> work) const {
  absl::optional<FileWindow> mapped;
  if (offloaded_state_ != nullptr) mapped.emplace();
  for (size_t i = 0; i < windows_.size(); ++i) {
    if (offloaded_state_ != nullptr) {
      // After the last window comes the next pass.
      const Window& next = windows_[(i + 1) % windows_.size()];
      offloaded_state_->Enter(FloatsOf(windows_[i]), FloatsOf(next));
    }
    work(windows_[i]);
    if (offloaded_state_ != nullptr) offloaded_state_->Leave(FloatsOf(windows_[i]));
  }
}

void ShardState::UnmapState() {
  if (offloaded_state_ != nullptr) offloaded_state_->Leave({0, OptimizerState().size()});
}

std::vector<absl::Span<float>> ShardState::PartSlices(absl::Span<float> values) const {
  std::vector<absl::Span<float>> slices;
  for (const ShardLayout::Part& part : shard_layout_.parts()) {
    if (part.slice_begin == values.size()) break;
    slices.push_back(values.subspan(part.slice_begin, part.slice));
  }
  return slices;
}

std::vector<absl::Span<float>> ShardState::TensorSlices(
    absl::Span<const absl::Span<float>> slices) const {
  std::vector<absl::Span<float>> tensors(tables_.tensors.size());
  for (const ShardLayout::OwnedBlock& owned : owned_) {
    if (owned.block.part >= slices.size()) break;
    float* at = Of(owned, slices).data();
    for (const DenseLayout::Piece& piece : owned.block.pieces) {
      absl::Span<float>& tensor = tensors[piece.tensor];
      const size_t elements = piece.end - piece.begin;
      // A tensor's pieces follow one another.
      tensor = {tensor.empty() ? at : tensor.data(), tensor.size() + elements};
      at += elements;
    }
  }
  return tensors;
}

void ShardState::Reset() {
  ForEachWindow([this](const Window& window) {
    for (size_t i = window.first; i < window.last; ++i) {
      const ShardLayout::OwnedBlock& owned = owned_[i];
      absl::Span<float> rest = Of(owned, slices_);
      for (const DenseLayout::Piece& piece : owned.block.pieces) {
        const size_t elements = piece.end - piece.begin;
        InitialValues(tables_.tensors[piece.tensor], schema_->seed(), piece.begin,
                      rest.first(elements));
        rest.remove_prefix(elements);
      }
      if (owned.block.frozen) continue;
      dense_optimizer_->InitState(Of(owned, slices_), OptimizerState(owned));
    }
  });
  std::fill(steps_.begin(), steps_.end(), 0);
  ClearRows();
  clock_ = 0;
}

void ShardState::ClearRows() {
  rows_.clear();
  rows_.reserve(tables_.sparse.size());
  for (const SparseTableSpec& spec : tables_.sparse) {
    rows_.emplace_back(spec, schema_->seed(), *row_optimizer_);
  }
}

void ShardState::LookUp(size_t table, absl::Span<const uint64_t> keys,
                        absl::Span<float> out) const {
  rows_[table].Pull(keys, out);
}

std::vector<double> ShardState::CellNorms(absl::Span<const absl::Span<float>> dense,
                                          absl::Span<const RowSum> rows) const {
  std::vector<double> norms(cells_by_shard_[shard_.rank]);
  ParallelFor(owned_.size(), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      if (!owned_[i].block.in_norm()) continue;
      double* cell = norms.data() + first_cells_[i];
      muster::SquaredNorms(Of(owned_[i], dense), layout_.cells(owned_[i].block),
                           [&cell](double squared_norm) { *cell++ = squared_norm; });
    }
  });
  double* end = norms.data() + norms.size();
  for (size_t table = rows.size(); table-- > 0;) {
    const std::vector<double> of_table = RowNorms(rows[table], layout_.partitions(), shard_);
    end = std::copy_backward(of_table.begin(), of_table.end(), end);
  }
  return norms;
}

std::vector<absl::Span<const double>> ShardState::CellsByShard(
    absl::Span<const double> cells) const {
  std::vector<absl::Span<const double>> by_coordinate;
  for (const size_t count : cells_by_shard_) {
    by_coordinate.push_back(cells.first(count));
    cells.remove_prefix(count);
  }
  return by_coordinate;
}

std::vector<std::vector<double>> ShardState::SquaredNorms(const GradientSums& sums) const {
  const double mean = MeanScale(1, sums.examples);
  const size_t tables = tables_.sparse.size();
  std::vector<std::vector<double>> norms(layout_.partitions());
  for (uint32_t p = 0; p < layout_.partitions(); ++p) {
    norms[p].resize(layout_.partition_blocks(p).size() + tables);
  }
  std::vector<double> own;
  if (shard_layout_.holders().count() == 1) own = CellNorms(sums.dense, sums.rows);
  const std::vector<absl::Span<const double>> cells =
      CellsByShard(shard_layout_.holders().count() == 1 ? absl::MakeConstSpan(own) : sums.cells);
  const std::vector<double> blocks = cells_[0].AddUp(cells);
  for (uint32_t id = 0; id < blocks.size(); ++id) {
    const DenseLayout::Block& block = layout_.blocks()[id];
    norms[block.partition][block.index_in_partition] = blocks[id];
  }
  const int shards = shard_layout_.holders().count();
  for (int shard = 0; shard < shards; ++shard) {
    const double* cell = cells[shard].data() + cells_[0].count(shard);
    for (size_t table = 0; table < tables; ++table) {
      for (uint32_t p = shard; p < layout_.partitions(); p += shards) {
        norms[p][layout_.partition_blocks(p).size() + table] = *cell++;
      }
    }
  }
  for (std::vector<double>& of_partition : norms) {
    for (double& norm : of_partition) norm = norm * mean * mean;
  }
  return norms;
}

double ShardState::SquaredNormOfAll(const GradientSums& sums) const {
  const double mean = MeanScale(1, sums.examples);
  const std::vector<absl::Span<const double>> cells = CellsByShard(sums.cells);
  double squared = 0;
  for (const int first_stage : shard_.mesh.Group(0, Axis::kTensor)) {
    // Norms of blocks of all stages by unit, which is the order of one stage alone.
    std::vector<std::pair<uint32_t, double>> blocks;
    for (const int stage : shard_.mesh.Group(first_stage, Axis::kPipeline)) {
      std::vector<absl::Span<const double>> of_rank;
      for (const int holder : shard_.mesh.Group(stage, kHolderAxes)) {
        of_rank.push_back(cells[holder]);
      }
      const NormCells& own = cells_[shard_.mesh.Position(stage, kPartAxes)];
      const std::vector<double> norms = own.AddUp(of_rank);
      for (size_t id = 0; id < norms.size(); ++id) blocks.emplace_back(own.unit(id), norms[id]);
    }
    std::stable_sort(blocks.begin(), blocks.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [unit, norm] : blocks) squared += norm * mean * mean;
  }
  return squared;
}

absl::StatusOr<NormClipping> ShardState::Clipping(const GradientSums& sums) const {
  const double max_norm = schema_->clipping().by_global_norm();
  if (max_norm <= 0) return NormClipping();
  absl::StatusOr<NormClipping> clipping =
      shard_.size(kPartAxes) > 1
          ? ClipBySquaredNorm(SquaredNormOfAll(sums), max_norm)
          : ClipByNorm(layout_, tables_.sparse.size(), SquaredNorms(sums), max_norm);
  if (clipping.ok() && sums.examples == 0) clipping->norm.reset();
  return clipping;
}

OptimizerStep ShardState::StepOf(const GradientSums& sums, double scale, double rate_factor) const {
  OptimizerStep step;
  step.learning_rate = LearningRate(schema_->schedule(), schema_->optimizer().learning_rate(),
                                    clock_, schema_->total_steps(), rate_factor);
  step.step = clock_ + 1;
  step.gradient_scale = static_cast<float>(MeanScale(scale, sums.examples));
  if (schema_->clipping().by_value() > 0) step.clip_value = schema_->clipping().by_value();
  return step;
}

bool ShardState::HasWholeMatrix(const ShardLayout::OwnedBlock& owned) const {
  return MatrixRuleOf(owned.block, *dense_optimizer_) != nullptr && owned.block.whole_matrix();
}

bool ShardState::HasPartOfMatrix(const ShardLayout::OwnedBlock& owned) const {
  return MatrixRuleOf(owned.block, *dense_optimizer_) != nullptr && !owned.block.whole_matrix();
}

bool ShardState::divides_matrices() const {
  const bool has_matrices =
      std::any_of(schema_->tensors().begin(), schema_->tensors().end(),
                  [](const v1::TensorSchema& tensor) { return tensor.matrix_rows_size() > 0; });
  return has_matrices && dense_optimizer_->matrix_rule() != nullptr && shard_.size(kMatrixAxes) > 1;
}

absl::StatusOr<std::vector<MatrixRound>> ShardState::MakeMatrixRounds() const {
  MUSTER_ASSIGN_OR_RETURN(const MatrixDivision division, DivideMatrices(*schema_, shard_));
  return division.RoundsOf(shard_.at(kMatrixAxes));
}

void ShardState::DirectMatrices(const GradientSums& sums, double scale) {
  const OptimizerStep step = StepOf(sums, scale);
  ForEachWindow([&](const Window& window) {
    ParallelFor(window.last - window.first, 1, [&](int64_t first, int64_t last) {
      for (size_t i = window.first + first; i < window.first + last; ++i) {
        const ShardLayout::OwnedBlock& owned = owned_[i];
        if (MatrixRuleOf(owned.block, *dense_optimizer_) == nullptr) continue;
        DirectBlock(owned.block, *dense_optimizer_, step, Of(owned, sums.dense),
                    OptimizerState(owned));
      }
    });
  });
}

absl::Span<float> ShardState::Direction(size_t block) {
  const ShardLayout::OwnedBlock& owned = owned_[block];
  return MatrixRule::Direction(OptimizerState(owned), owned.block.elements());
}

void ShardState::ReadDirections(absl::Span<float> slice) {
  for (size_t i = 0; i < owned_.size(); ++i) {
    if (!HasPartOfMatrix(owned_[i])) continue;
    const absl::Span<float> direction = Direction(i);
    std::copy(direction.begin(), direction.end(), slice.begin() + owned_[i].slice_begin);
  }
}

void ShardState::WriteDirections(absl::Span<const float> slice) {
  for (size_t i = 0; i < owned_.size(); ++i) {
    if (!HasPartOfMatrix(owned_[i])) continue;
    const absl::Span<float> direction = Direction(i);
    std::copy_n(slice.begin() + owned_[i].slice_begin, direction.size(), direction.begin());
  }
}

void ShardState::Apply(const GradientSums& sums, double scale, double rate_factor) {
  const TraceScope trace(ActionKind::kOptimizer);
  if (sums.examples == 0) {
    ++clock_;
    return;
  }
  OptimizerStep step = StepOf(sums, scale, rate_factor);
  const auto step_block = [&](size_t i) {
    const ShardLayout::OwnedBlock& owned = owned_[i];
    StepBlock(owned.block, *dense_optimizer_, step, Of(owned, sums.dense), Of(owned, slices_),
              OptimizerState(owned));
    ++steps_[i];
  };
  ForEachWindow([&](const Window& window) {
    ParallelFor(window.last - window.first, 1, [&](int64_t first, int64_t last) {
      for (size_t i = window.first + first; i < window.first + last; ++i) {
        if (!owned_[i].block.frozen && !HasWholeMatrix(owned_[i])) step_block(i);
      }
    });
    // All threads work at one matrix.
    for (size_t i = window.first; i < window.last; ++i) {
      if (HasWholeMatrix(owned_[i])) step_block(i);
    }
  });
  for (size_t table = 0; table < rows_.size(); ++table) {
    step.weight_decay = tables_.sparse[table].weight_decay;
    rows_[table].Update(sums.rows[table].keys(), sums.rows[table].sums(), step,
                        SparseTable::Steps::kGiven, static_cast<uint32_t>(clock_), /*lsn=*/0);
  }
  ++clock_;
}

absl::Status ShardState::Restore(const CheckpointReader& checkpoint, RestoreExtent extent,
                                 uint64_t clock) {
  MUSTER_RETURN_IF_ERROR(CheckTokenizer(checkpoint, *schema_));
  const bool with_state = RestoresState(checkpoint, extent, schema_->optimizer().name());
  const std::vector<std::string> state_names =
      with_state ? dense_optimizer_->state_names() : std::vector<std::string>();
  absl::Status status;
  ForEachWindow([&](const Window& window) {
    for (size_t i = window.first; i < window.last && status.ok(); ++i) {
      const ShardLayout::OwnedBlock& owned = owned_[i];
      const absl::StatusOr<uint64_t> steps =
          RestoreBlock(checkpoint, extent, tables_.tensors, owned.block,
                       {state_names, dense_optimizer_->packs_pairs()}, Of(owned, slices_),
                       OptimizerState(owned));
      status = steps.status();
      if (!steps.ok()) continue;
      if (with_state) {
        steps_[i] = *steps;
      } else if (!OptimizerState(owned).empty()) {
        dense_optimizer_->InitState(Of(owned, slices_), OptimizerState(owned));
      }
    }
  });
  MUSTER_RETURN_IF_ERROR(status);
  RestoreRowsOptions options;
  options.with_state = with_state;
  for (size_t table = 0; table < rows_.size(); ++table) {
    MUSTER_RETURN_IF_ERROR(RestoreRows(
        checkpoint, tables_.sparse[table].name, options,
        [this](uint64_t key) -> absl::StatusOr<bool> {
          return OwnerOf(key) == static_cast<uint32_t>(shard_.at(kShardAxes));
        },
        rows_[table]));
  }
  clock_ = clock;
  return absl::OkStatus();
}

PartitionContent ShardState::Content(const ShardFile& file) const {
  PartitionContent content;
  content.job_id = file.job_id;
  content.generation = file.generation;
  content.clock = clock_;
  content.partition = file.number;
  content.state_names = dense_optimizer_->state_names();
  content.packs_pairs = dense_optimizer_->packs_pairs();
  content.tensors = tables_.tensors;
  content.loss_scales = file.loss_scales;
  if (offloaded_state_ != nullptr) {
    content.written = [this, blocks = file.blocks](size_t block) {
      const size_t i = blocks[block];
      offloaded_state_->Leave(FloatsOf({i, i + 1}));
    };
  }
  for (uint32_t i : file.blocks) {
    const ShardLayout::OwnedBlock& owned = owned_[i];
    content.blocks.push_back({.layout = &owned.block,
                              .weights = weights(owned),
                              .state = OptimizerState(owned),
                              .steps = steps_[i]});
  }
  std::vector<bool> has_rows(layout_.partitions());
  for (uint32_t partition : file.partitions) has_rows[partition] = true;
  for (size_t table = 0; table < rows_.size(); ++table) {
    PartitionContent::Rows rows;
    rows.table = tables_.sparse[table].name;
    rows.width = rows_[table].width();
    rows.rows = rows_[table].Sorted(
        [&](uint64_t key) { return has_rows[SparsePartition(key, layout_.partitions())]; });
    content.sparse.push_back(std::move(rows));
  }
  return content;
}

absl::StatusOr<PartitionFileInfo> ShardState::Save(const ShardFile& file,
                                                   CheckpointStorage& storage) const {
  return WritePartition(storage, file.checkpoint_root, Content(file));
}

ShardState::State ShardState::state() {
  return {own_weights_->values(), OptimizerState(), absl::MakeSpan(steps_), absl::MakeSpan(rows_)};
}

}  // namespace muster
