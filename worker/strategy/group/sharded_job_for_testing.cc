#include "worker/strategy/group/sharded_job_for_testing.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/partition/local_tensors.h"
#include "common/tensor/bfloat16.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "worker/collectives/host/ranks_for_testing.h"
#include "worker/strategy/row_keys_for_testing.h"

namespace muster {
namespace {

v1::TensorPlacement::Section Section(int64_t extent, int64_t units) {
  v1::TensorPlacement::Section section;
  section.set_extent(extent);
  section.set_units(units);
  return section;
}

// Divides a tensor by sections.
void Divide(const std::vector<v1::TensorPlacement::Section>& sections, v1::TensorSchema& tensor) {
  v1::TensorPlacement& placement = *tensor.mutable_placement();
  placement.set_kind(v1::TensorPlacement::SHARD);
  int64_t elements = 0;
  for (const v1::TensorPlacement::Section& section : sections) {
    *placement.add_sections() = section;
    elements += section.extent();
  }
  tensor.set_shape(0, elements);
}

void AddTensor(const std::string& name, int64_t elements, uint32_t unit, DType compute,
               v1::TablesSchema& schema) {
  v1::TensorSchema* tensor = schema.add_tensors();
  tensor->set_name(name);
  tensor->add_shape(elements);
  tensor->set_unit(unit);
  tensor->set_weight_decay(name != "bias");
  tensor->mutable_initializer()->set_kind(v1::Initializer::UNIFORM);
  tensor->mutable_initializer()->set_scale(1);
  if (compute == DType::kBf16) tensor->set_compute(v1::UpdateSpec::BF16);
}

void AddTable(uint32_t dim, v1::TablesSchema& schema) {
  v1::SparseTableSchema* table = schema.add_sparse();
  table->set_name(absl::StrCat("table", dim));
  table->set_dim(dim);
  table->mutable_initializer()->set_kind(v1::Initializer::UNIFORM);
  table->mutable_initializer()->set_scale(1);
}

}  // namespace

v1::TablesSchema Schema(const ShardedJob& job) {
  v1::TablesSchema schema;
  schema.set_seed(3);
  AddTensor("embedding", 1030, 0, job.compute, schema);
  AddTensor("b", 37, 1, job.compute, schema);
  AddTensor("bias", 5, 1, job.compute, schema);
  AddTensor("c", 130, 2, DType::kF32, schema);
  AddTensor("d", 21, 3, job.compute, schema);
  AddTensor("head", 1030, 3, job.compute, schema);
  AddTensor("signs", 150, 2, DType::kF32, schema);
  schema.mutable_tensors(6)->set_sign_rate(0.01);
  schema.mutable_tensors(5)->set_tied_to("embedding");
  if (job.tensor > 1) {
    for (const int t : {0, 5}) Divide({Section(1032, 8)}, *schema.mutable_tensors(t));
    schema.mutable_tensors(2)->mutable_placement()->set_kind(v1::TensorPlacement::FIRST);
    Divide({Section(96, 4), Section(24, 2), Section(10, 1)}, *schema.mutable_tensors(3));
  }
  if (job.has_matrices) {
    v1::TensorSchema& c = *schema.mutable_tensors(3);
    if (job.tensor > 1) {
      c.clear_placement();
      Divide({Section(16, 4), Section(8, 2), Section(2, 1)}, c);
    }
    c.set_shape(0, 26);
    c.add_shape(5);
    for (const int64_t rows : {16, 8, 2}) c.add_matrix_rows(rows);
  }
  if (job.has_rows) {
    for (const uint32_t dim : {3, 1}) AddTable(dim, schema);
  }
  schema.set_partitions(job.has_rows ? 7 : 3);
  schema.set_block_bytes(256);
  schema.mutable_optimizer()->set_name(job.has_matrices ? "muon" : "adamw");
  schema.mutable_optimizer()->set_learning_rate(0.1);
  schema.mutable_optimizer()->set_weight_decay(0.01);
  // Sums that differ in their last bits are rounded apart in 16 bits.
  if (job.micro_batches == 1 && !job.has_matrices)
    schema.mutable_optimizer()->set_state_type(v1::OptimizerSpec::BF16);
  schema.mutable_optimizer()->set_average_decay(0.75);
  schema.mutable_clipping()->set_by_global_norm(job.max_norm);
  schema.set_total_steps(100);
  return schema;
}

ShardedTask::ShardedTask(const ShardedJob& job, int slot, CheckpointStorage& storage,
                         const std::string& restore_uri, uint64_t start_clock)
    : job_(job) {
  v1::TaskOrder order;
  order.set_job_id("job");
  order.set_generation(2);
  order.set_checkpoint_root("/root");
  order.set_slot(slot);
  order.set_worker_id(absl::StrCat("worker-", slot / job.ranks_per_daemon));
  order.set_restore_uri(restore_uri);
  order.set_start_clock(start_clock);
  v1::JobSpec* spec = order.mutable_spec();
  spec->set_workers(job.ranks);
  if (job.tensor > 1) {
    spec->mutable_parallelism()->set_tensor(job.tensor);
    // Its tensor ranks have parts of the gradients of replicated tensors, too.
    spec->mutable_model()->mutable_transformer();
  }
  spec->mutable_parallelism()->mutable_zero()->set_stage(job.stage);
  spec->mutable_parallelism()->mutable_zero()->set_shard(job.shard);
  spec->mutable_parallelism()->mutable_zero()->set_keep_gathered_bytes(job.kept_bytes);
  spec->mutable_parallelism()->mutable_zero()->set_redundancy(job.redundant ? 1 : 0);
  if (!job.offload_folder.empty()) {
    spec->mutable_parallelism()->mutable_zero()->set_offload(v1::ZeroSpec::OPTIMIZER_STATE);
  }
  if (job.may_shrink) spec->set_min_workers(job.tensor);
  spec->mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  spec->mutable_update()->set_deterministic(true);
  spec->mutable_update()->set_first_bucket_bytes(64);
  spec->mutable_update()->set_bucket_bytes(200);
  if (job.compute == DType::kF16) {
    spec->mutable_compute()->set_type(v1::ComputeSpec::F16);
    spec->mutable_compute()->set_loss_scale_window(1);
  }
  ShardedDependencies dependencies;
  dependencies.storage = &storage;
  dependencies.clock = &clock_;
  dependencies.offload_folder = job.offload_folder;
  strategy_ = ShardedStrategy::Create(order, Schema(job), {}, std::move(dependencies)).value();
}

std::vector<std::vector<float>> ShardedTask::Evaluate() {
  EXPECT_EQ(strategy_->BeginStep(*strategy_->replica_clock()), absl::OkStatus());
  for (int unit = 0; unit < kUnits; ++unit) Forward(unit);
  return read_;
}

absl::Status ShardedTask::Step() {
  const uint64_t clock = *strategy_->replica_clock();
  if (absl::Status status = strategy_->BeginStep(clock); !status.ok()) return status;
  for (int m = 0; m < job_.micro_batches; ++m) {
    if (absl::Status status = RunMicroBatch(clock, m); !status.ok()) return status;
  }
  overflows_ = false;
  return strategy_->EndStep();
}

void ShardedTask::Read(int unit) {
  read_.resize(tensors().size());
  const ModelParameters parameters = strategy_->parameters();
  for (size_t t = 0; t < tensors().size(); ++t) {
    if (static_cast<int>(tensors()[t].unit) != unit) continue;
    std::vector<float>& values = read_[t];
    values.assign(parameters.values[t].begin(), parameters.values[t].end());
    if (tensors()[t].compute == DType::kF32) continue;
    const auto* const rounded = static_cast<const uint16_t*>(parameters.rounded[t]);
    values.clear();
    for (int64_t i = 0; i < tensors()[t].elements(); ++i) {
      values.push_back(ToFloat(BFloat16{rounded[i]}));
    }
  }
}

absl::Status ShardedTask::MeetTensorRanks() {
  TensorGroup* const group = strategy_->tensor_group();
  if (group == nullptr) return absl::OkStatus();
  float ranks = 1;
  group->Sum(DType::kF32, 1, &ranks);
  if (group->status().ok()) EXPECT_EQ(ranks, job_.tensor);
  return group->status();
}

absl::Status ShardedTask::Forward(int unit) {
  if (absl::Status status = strategy_->Acquire(unit, Direction::kForward); !status.ok()) {
    return status;
  }
  Read(unit);
  if (absl::Status status = MeetTensorRanks(); !status.ok()) return status;
  strategy_->Release(unit, Direction::kForward);
  return absl::OkStatus();
}

float ShardedTask::Gradient(uint64_t clock, int m, size_t tensor, const Element& element) const {
  for (const SharedElements& shared : tensors()[tensor].shared) {
    const bool has = shared.begin <= element.local && element.local < shared.end;
    // Each of the other ranks has 1 of the whole gradient.
    if (has && !shared.first) return 1;
    if (has) return WholeGradient(clock, m, tensor, element) - static_cast<float>(shared.ranks - 1);
  }
  return WholeGradient(clock, m, tensor, element);
}

float ShardedTask::WholeGradient(uint64_t clock, int m, size_t tensor,
                                 const Element& element) const {
  const int64_t data_rank = strategy_->communicator()->rank() / job_.tensor;
  const int64_t mixed = static_cast<int64_t>(clock) * 7 + data_rank * 5 + m * 3 +
                        static_cast<int64_t>(tensor) * 11 + static_cast<int64_t>(element.global);
  return (static_cast<float>(mixed % 13) - 6 + 0.25f * read_[tensor][element.local]) *
         strategy_->loss_scale();
}

void ShardedTask::Write(uint64_t clock, int m, int unit) {
  for (size_t t = 0; t < tensors().size(); ++t) {
    if (static_cast<int>(tensors()[t].unit) != unit) continue;
    const absl::Span<float> gradient = strategy_->gradients()[t];
    // The tied tensor's unit comes first in backward, so its owner adds.
    const bool adds = strategy_->GradientStore(unit) == Accumulation::kAdd || t == 0;
    ForEachGlobal(tensors()[t], 0, gradient.size(),
                  [&](uint64_t first, uint64_t global, uint64_t count) {
                    for (uint64_t i = 0; i < count; ++i) {
                      const float value = Gradient(clock, m, t, {first + i, global + i});
                      gradient[first + i] = adds ? gradient[first + i] + value : value;
                    }
                  });
    if (overflows_ && m == 0 && tensors()[t].name == "c") gradient.back() = INFINITY;
  }
}

MicroBatch ShardedTask::RowsOf(uint64_t clock, int m) const {
  const uint64_t rank = strategy_->communicator()->rank();
  MicroBatch micro_batch;
  for (size_t table = 0; table < strategy_->shard_state().tables().sparse.size(); ++table) {
    SparseRows& rows = micro_batch.sparse.emplace_back();
    for (uint64_t i = 0; i < 6; ++i) {
      // The summands of one rank and micro-batch come to different keys.
      rows.keys.push_back((clock * 3 + rank * 2 + m + i * 8 + table) % 48);
    }
  }
  return micro_batch;
}

void ShardedTask::WriteRows(uint64_t clock, int m, MicroBatch& micro_batch) const {
  const uint64_t rank = strategy_->communicator()->rank();
  for (SparseRows& rows : micro_batch.sparse) {
    rows.gradients.clear();
    const size_t dim = rows.rows.size() / rows.keys.size();
    for (size_t i = 0; i < rows.rows.size(); ++i) {
      const uint64_t mixed = clock * 7 + rank * 5 + m * 3 + rows.keys[i / dim] * 11 + i;
      rows.gradients.push_back(static_cast<float>(mixed % 13) - 6 + 0.25f * rows.rows[i]);
    }
  }
}

absl::Status ShardedTask::RunMicroBatch(uint64_t clock, int m) {
  MicroBatch micro_batch = RowsOf(clock, m);
  if (absl::Status status = strategy_->Prefetch(micro_batch); !status.ok()) return status;
  if (absl::Status status = strategy_->LookUp(micro_batch); !status.ok()) return status;
  for (int unit = 0; unit + 1 < kUnits; ++unit) {
    if (absl::Status status = Forward(unit); !status.ok()) return status;
  }
  for (int unit = kUnits - 1; unit >= 0; --unit) {
    if (absl::Status status = strategy_->Acquire(unit, Direction::kBackward); !status.ok()) {
      return status;
    }
    Read(unit);
    if (unit == kUnits - 1) {
      const absl::Status status = strategy_->BeforeBackward(
          4, m + 1 == job_.micro_batches ? SeriesPosition::kLast : SeriesPosition::kMoreFollow);
      if (!status.ok()) return status;
    }
    Write(clock, m, unit);
    strategy_->Release(unit, Direction::kBackward);
    if (absl::Status status = strategy_->GradientReady(unit); !status.ok()) return status;
  }
  WriteRows(clock, m, micro_batch);
  return strategy_->PushRows(micro_batch);
}

void Whole::Add(const ShardState& state) {
  absl::MutexLock lock(&mutex_);
  std::vector<float>& whole = weights_[state.shard().at(Axis::kTensor)];
  whole.resize(state.layout().elements());
  for (const ShardLayout::OwnedBlock& owned : state.owned_blocks()) {
    const absl::Span<const float> weights = state.weights(owned);
    std::copy(weights.begin(), weights.end(), whole.begin() + owned.block.begin);
  }
  for (size_t table = 0; table < state.tables().sparse.size(); ++table) {
    for (const uint64_t key : KeysOf(state, table)) {
      std::vector<float>& row = rows_[{table, key}];
      row.resize(state.tables().sparse[table].dim);
      state.LookUp(table, {key}, absl::MakeSpan(row));
    }
  }
}

std::vector<float> Whole::weights() const {
  absl::MutexLock lock(&mutex_);
  std::vector<float> weights;
  for (const auto& [tensor_rank, whole] : weights_) {
    weights.insert(weights.end(), whole.begin(), whole.end());
  }
  for (const auto& [at, row] : rows_) {
    weights.push_back(static_cast<float>(at.second));
    weights.insert(weights.end(), row.begin(), row.end());
  }
  return weights;
}

std::vector<float> Train(const ShardedJob& job, uint64_t end, const std::string& restore_uri,
                         uint64_t start_clock, MemoryStorage* storage) {
  MemoryStorage own_storage;
  Whole whole;
  TestRanks ranks(job.ranks);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    ShardedTask rank(job, communicator->rank(), storage == nullptr ? own_storage : *storage,
                     restore_uri, start_clock);
    ASSERT_EQ(rank.strategy().Join(std::move(communicator), absl::nullopt), absl::OkStatus());
    ASSERT_EQ(rank.strategy().Start().value(), start_clock);
    while (*rank.strategy().replica_clock() < end) ASSERT_EQ(rank.Step(), absl::OkStatus());
    whole.Add(rank.strategy().shard_state());
  });
  return whole.weights();
}

}  // namespace muster
