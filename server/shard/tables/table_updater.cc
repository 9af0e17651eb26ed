#include "server/shard/tables/table_updater.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "common/base/payload.h"
#include "common/base/status_macros.h"
#include "common/partition/wire_dtype.h"
#include "common/trace/trace_scope.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/calls/typed_payload.h"
#include "server/shard/tables/rate_factor.h"

namespace muster {
namespace {

// Returns the factor that makes a mean of a sum over `examples`.
double MeanScale(double scale, uint64_t examples) {
  // Without examples there is no gradient.
  return examples == 0 ? 0 : scale / static_cast<double>(examples);
}

}  // namespace

TableUpdater::TableUpdater(PartitionTables& tables, BufferPool& pool)
    : tables_(tables),
      job_(*tables.job),
      pool_(pool),
      pushed_(tables.dense.size()),
      previous_rows_(tables.sparse.size()) {
  for (const TieredTable& table : tables.sparse) sparse_sums_.emplace_back(table.dim(), pool_);
}

absl::Status TableUpdater::Push(const AdmittedCall& call, uint64_t completed) {
  if (!call.call.request->has_dense_push()) return PushSparse(call, completed);
  PushDense(call);
  return absl::OkStatus();
}

void TableUpdater::PushDense(const AdmittedCall& call) {
  const v1::ExchangeRequest& request = *call.call.request;
  const v1::DensePush& push = request.dense_push();
  DenseTable& dense = tables_.dense;
  const OptimizerStep step =
      job_.StepAt(request.clock(), MeanScale(1, push.examples()), RateFactorOf(request));
  const bool synchronous = job_.policy().synchronous();
  if (!synchronous && (push.examples() == 0 || push.absent())) return;
  const DType type = *WireDType(push.type());  // Admission has looked at it.
  const auto bytes = [&dense, type](uint32_t first, uint32_t count) {
    return dense.PayloadBytes(first, count) / sizeof(float) * SizeOf(type);
  };
  const bool registered = call.call.payload_memory == ExchangeCall::PayloadMemory::kRegistered;
  DenseTable::Keeping keeping = DenseTable::Keeping::kScarce;
  if (job_.pushes_micro_batches()) {
    keeping = DenseTable::Keeping::kImpossible;
  } else if (registered && type == DType::kF32) {  // What is widened is a copy.
    keeping = DenseTable::Keeping::kFree;
  }
  for (uint32_t block : call.new_blocks) {
    if (synchronous) {
      pushed_[block].examples += push.examples();
      ++pushed_[block].pushes;
      sums_empty_ = false;
    }
    if (push.absent()) continue;
    Payload gradient =
        WidenPayload(call.call.payload.Slice(bytes(push.first_block(), block - push.first_block()),
                                             bytes(block, 1)),
                     type, pool_);
    if (synchronous) {
      const uint32_t pusher = job_.PusherOf(request.slot(), dense.layout(block));
      dense.Accumulate(block, pusher, std::move(gradient), keeping);
    } else {
      dense.Update(block, gradient, step, call.lsn);
    }
  }
}

absl::Status TableUpdater::PushSparse(const AdmittedCall& call, uint64_t completed) {
  const v1::ExchangeRequest& request = *call.call.request;
  const v1::SparsePush& push = request.sparse_push();
  const size_t table = push.table() - 1;
  SparseSum& sum = sparse_sums_[table];
  if (job_.policy().synchronous()) {
    sum.Add(request.slot(), push.chunk(), call.chunk);
    sums_empty_ = false;
    return absl::OkStatus();
  }
  if (push.examples() == 0) return absl::OkStatus();
  sum.Add(request.slot(), push.chunk(), call.chunk);
  const absl::Cleanup clear = [&sum] { sum.Clear(); };
  sum.Finish();
  TieredTable& rows = tables_.sparse[table];
  MUSTER_ASSIGN_OR_RETURN(const TieredTable::Fetched fetched, rows.Fetch(sum.keys()));
  OptimizerStep step =
      job_.StepAt(request.clock(), MeanScale(1, push.examples()), RateFactorOf(request));
  step.weight_decay = job_.tables().sparse[table].weight_decay;
  rows.Update(fetched, sum.sums(), step, SparseTable::Steps::kPerRow, request.clock(), completed,
              call.lsn);
  return absl::OkStatus();
}

uint64_t TableUpdater::ExamplesOf(uint32_t block, uint64_t closed) const {
  const DenseLayout::Block& layout = tables_.dense.layout(block);
  if (job_.has_others_examples(layout)) return closed;
  // Slots without dense gradients (`no_dense`) count by their closes alone.
  const uint64_t all = uint64_t{job_.pushers(layout)} * job_.pushes_of_block();
  return pushed_[block].pushes == all ? pushed_[block].examples : closed;
}

void TableUpdater::FinishSums() {
  if (sums_finished_) return;
  sums_finished_ = true;
  tables_.dense.FinishSums();
  for (SparseSum& sum : sparse_sums_) sum.Finish();
}

absl::Status TableUpdater::EndClock(const ClockEnd& end) {
  const TraceScope trace(ActionKind::kOptimizer, end.clock, 0);
  FinishSums();
  const bool moves = end.examples > 0 && !end.left_out;
  // All that can fail comes before anything is applied.
  std::vector<TieredTable::Fetched> fetched;
  for (size_t i = 0; i < tables_.sparse.size(); ++i) {
    MUSTER_ASSIGN_OR_RETURN(
        TieredTable::Fetched rows,
        tables_.sparse[i].Fetch(moves ? sparse_sums_[i].keys() : absl::Span<const uint64_t>()));
    fetched.push_back(rows);
  }
  OptimizerStep step = job_.StepAt(end.clock, MeanScale(end.scale, end.examples), end.rate_factor);
  std::vector<absl::optional<float>> scales(tables_.dense.size());
  for (uint32_t block = 0; block < tables_.dense.size(); ++block) {
    const uint64_t of_block = ExamplesOf(block, end.examples);
    if (of_block > 0 && !end.left_out) {
      scales[block] = static_cast<float>(MeanScale(end.scale, of_block));
    }
    pushed_[block] = {};
  }
  tables_.dense.ApplySums(step, std::move(scales), end.lsn);
  for (size_t i = 0; i < tables_.sparse.size(); ++i) {
    TieredTable& table = tables_.sparse[i];
    SparseSum& sum = sparse_sums_[i];
    if (job_.keeps_previous()) previous_rows_[i].Keep(table, fetched[i], end.clock);
    step.weight_decay = job_.tables().sparse[i].weight_decay;
    if (moves) {
      // As many clocks are completed as this one's number says.
      table.Update(fetched[i], sum.sums(), step, SparseTable::Steps::kGiven, end.clock, end.clock,
                   end.lsn);
    }
    sum.Clear();
  }
  previous_kept_ = job_.keeps_previous() && (end.lsn == 0 || end.lsn > loaded_lsn_);
  last_lsn_ = end.lsn;
  sums_empty_ = true;
  sums_finished_ = false;
  return absl::OkStatus();
}

std::string TableUpdater::SquaredNorms(uint64_t examples) {
  FinishSums();
  std::vector<double> norms;
  for (uint32_t block = 0; block < tables_.dense.size(); ++block) {
    const double mean = MeanScale(1, ExamplesOf(block, examples));
    norms.push_back(tables_.dense.SquaredNormOfSum(block) * mean * mean);
  }
  const double mean = MeanScale(1, examples);
  for (const SparseSum& sum : sparse_sums_) norms.push_back(sum.SquaredNorm() * mean * mean);
  return std::string(reinterpret_cast<const char*>(norms.data()), norms.size() * sizeof(double));
}

size_t TableUpdater::memory_bytes() const {
  size_t bytes = 0;
  for (const SparseSum& sum : sparse_sums_) bytes += sum.memory_bytes();
  return bytes;
}

absl::Status TableUpdater::PullRows(size_t sparse_table, absl::Span<const uint64_t> keys,
                                    DenseTable::Version version, uint64_t completed,
                                    absl::Span<float> out) {
  TieredTable& rows = tables_.sparse[sparse_table];
  if (version == DenseTable::Version::kPrevious) {
    return previous_rows_[sparse_table].Pull(rows, keys, completed - 1, out);
  }
  return rows.Pull(keys, completed, out);
}

}  // namespace muster
