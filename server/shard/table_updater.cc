#include "server/shard/table_updater.h"

#include <utility>

#include "common/base/payload.h"
#include "proto/parameter_service.pb.h"

namespace muster {
namespace {

// The factor that makes a mean of a sum over `examples`.
double MeanScale(double scale, uint64_t examples) {
  // No examples, no gradient.
  return examples == 0 ? 0 : scale / static_cast<double>(examples);
}

}  // namespace

TableUpdater::TableUpdater(PartitionTables& tables)
    : tables_(tables), job_(*tables.job), previous_rows_(tables.sparse.size()) {
  for (const SparseTable& table : tables.sparse) sparse_sums_.emplace_back(table.dim());
}

void TableUpdater::Push(const AdmittedCall& call) {
  if (call.call.request->has_dense_push()) {
    PushDense(call);
  } else {
    PushSparse(call);
  }
}

void TableUpdater::PushDense(const AdmittedCall& call) {
  const v1::ExchangeRequest& request = *call.call.request;
  const v1::DensePush& push = request.dense_push();
  DenseTable& dense = tables_.dense;
  const OptimizerStep step = job_.StepAt(request.clock(), MeanScale(1, push.examples()));
  for (uint32_t block : call.new_blocks) {
    Payload gradient =
        call.call.payload.Slice(dense.PayloadBytes(push.first_block(), block - push.first_block()),
                                dense.PayloadBytes(block, 1));
    if (job_.policy().synchronous()) {
      dense.Accumulate(block, request.slot(), std::move(gradient));
      sums_empty_ = false;
    } else {
      dense.Update(block, gradient, step, call.lsn);
    }
  }
}

void TableUpdater::PushSparse(const AdmittedCall& call) {
  const v1::ExchangeRequest& request = *call.call.request;
  const v1::SparsePush& push = request.sparse_push();
  const size_t table = push.table() - 1;
  if (job_.policy().synchronous()) {
    sparse_sums_[table].Add(request.slot(), push.chunk(), call.chunk);
    sums_empty_ = false;
    return;
  }
  OptimizerStep step = job_.StepAt(request.clock(), MeanScale(1, push.examples()));
  step.weight_decay = job_.tables().sparse[table].weight_decay;
  tables_.sparse[table].Update(call.chunk.keys, call.chunk.rows, step, SparseTable::Steps::kPerRow,
                               request.clock(), call.lsn);
}

void TableUpdater::FinishSums() {
  if (sums_finished_) return;
  sums_finished_ = true;
  tables_.dense.FinishSums();
  for (SparseSum& sum : sparse_sums_) sum.Finish();
}

void TableUpdater::EndClock(uint64_t clock, double scale, uint64_t examples, uint64_t lsn) {
  FinishSums();
  OptimizerStep step = job_.StepAt(clock, MeanScale(scale, examples));
  tables_.dense.ApplySums(step, lsn);
  for (size_t i = 0; i < tables_.sparse.size(); ++i) {
    SparseTable& table = tables_.sparse[i];
    SparseSum& sum = sparse_sums_[i];
    if (job_.order() == SummationOrder::kSlot) previous_rows_[i].Keep(table, sum.keys());
    step.weight_decay = job_.tables().sparse[i].weight_decay;
    table.Update(sum.keys(), sum.sums(), step, SparseTable::Steps::kGiven, clock, lsn);
    sum.Clear();
  }
  previous_kept_ = job_.order() == SummationOrder::kSlot && (lsn == 0 || lsn > loaded_lsn_);
  sums_empty_ = true;
  sums_finished_ = false;
}

std::string TableUpdater::SquaredNorms(uint64_t examples) {
  FinishSums();
  const double mean = MeanScale(1, examples);
  std::vector<double> norms;
  for (uint32_t block = 0; block < tables_.dense.size(); ++block) {
    norms.push_back(tables_.dense.SquaredNormOfSum(block) * mean * mean);
  }
  for (const SparseSum& sum : sparse_sums_) norms.push_back(sum.SquaredNorm() * mean * mean);
  return std::string(reinterpret_cast<const char*>(norms.data()), norms.size() * sizeof(double));
}

size_t TableUpdater::memory_bytes() const {
  size_t bytes = 0;
  for (const SparseSum& sum : sparse_sums_) bytes += sum.memory_bytes();
  return bytes;
}

void TableUpdater::PullRows(size_t sparse_table, absl::Span<const uint64_t> keys,
                            DenseTable::Version version, absl::Span<float> out) const {
  const SparseTable& rows = tables_.sparse[sparse_table];
  if (version == DenseTable::Version::kPrevious) {
    previous_rows_[sparse_table].Pull(rows, keys, out);
  } else {
    rows.Pull(keys, out);
  }
}

}  // namespace muster
