#include "server/shard/partition/apply/mutation_applier.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "common/base/status_macros.h"
#include "proto/parameter_service.pb.h"
#include "proto/partition_state.pb.h"
#include "server/shard/tables/rate_factor.h"

namespace muster {

using Operation = v1::ExchangeRequest::OperationCase;

MutationApplier::MutationApplier(PartitionTables& tables, BufferPool& pool, PartitionHealth& health,
                                 uint64_t start)
    : tables_(tables),
      job_(*tables.job),
      health_(health),
      updater_(tables, pool),
      clocks_(job_.slots(), start),
      entries_(job_.slots(), job_.slots() - job_.backup_workers(), start),
      rows_(tables, updater_, clocks_, health) {}

absl::Status MutationApplier::Apply(const AdmittedCall& call) {
  if (absl::Status status = ApplyToTables(call); !status.ok()) {
    rows_.Note(status);
    // It is in the ledger and the log, but not in the tables: only a recovery makes them one.
    if (health_.ok()) health_.Fail(status.message());
    return health_.status();
  }
  if (!health_.Pass("applied")) rows_.Note(rows_.Trim());
  return absl::OkStatus();
}

absl::Status MutationApplier::Replay(const AdmittedCall& call) {
  MUSTER_RETURN_IF_ERROR(ApplyToTables(call));
  // A full disk is met again by the first push that is not replayed.
  const absl::Status trimmed = rows_.Trim();
  return absl::IsResourceExhausted(trimmed) ? absl::OkStatus() : trimmed;
}

absl::Status MutationApplier::ApplyToTables(const AdmittedCall& call) {
  const v1::ExchangeRequest& request = *call.call.request;
  switch (request.operation_case()) {
    case Operation::kDensePush:
    case Operation::kSparsePush:
      return updater_.Push(call, clocks_.completed());
    case Operation::kClose:
      CloseSlots(call);
      return CompleteClocks(call.lsn);
    case Operation::kEnter:
      entries_.Enter(request.slot());
      return absl::OkStatus();
    default:
      return EndClock(request.clip().scale(), call.lsn);
  }
}

void MutationApplier::CloseSlots(const AdmittedCall& call) {
  const v1::ExchangeRequest& request = *call.call.request;
  if (!job_.policy().synchronous()) return clocks_.Close(request.slot(), std::nullopt);
  if (request.close().has_loss_scale()) {
    loss_scale_.Close(request.clock() - clocks_.completed(), request.close().loss_scale());
  }
  // A slot that is left out closes clocks that had other factors than the one that it knows.
  if (!absl::c_linear_search(request.close().left_out(), request.slot())) {
    rate_factors_.Close(request.clock() - clocks_.completed(), RateFactorOf(request));
  }
  // Slots that the clock does not wait for have no examples of it.
  uint64_t examples = request.close().examples();
  for (const uint32_t slot : call.closes) clocks_.Close(slot, std::exchange(examples, 0));
}

absl::Status MutationApplier::CompleteClocks(uint64_t lsn) {
  if (job_.clips_by_norm()) return absl::OkStatus();
  while (clocks_.completed() < clocks_.slowest()) {
    if (job_.policy().synchronous()) {
      MUSTER_RETURN_IF_ERROR(EndClock(1, lsn));
    } else {
      clocks_.Complete();
    }
  }
  return absl::OkStatus();
}

absl::Status MutationApplier::EndClock(double scale, uint64_t lsn) {
  if (job_.clips_by_norm()) {
    last_norms_ = ClipNorms();
    norms_.clear();
  }
  MUSTER_RETURN_IF_ERROR(updater_.EndClock({.clock = clocks_.completed(),
                                            .scale = scale,
                                            .rate_factor = rate_factors_.next(),
                                            .examples = clocks_.pending_examples(),
                                            .left_out = loss_scale_.leaves_out(),
                                            .lsn = lsn}));
  loss_scale_.Complete();
  rate_factors_.Complete();
  clocks_.Complete();
  return absl::OkStatus();
}

const std::string& MutationApplier::ClipNorms() {
  if (norms_.empty() && !loss_scale_.leaves_out()) {
    norms_ = updater_.SquaredNorms(clocks_.pending_examples());
  }
  return norms_;
}

void MutationApplier::SettleSoon(const std::shared_ptr<Executor>& strand) {
  if (tables_.dense.settled() || settles_soon_) return;
  if (strand == nullptr) return tables_.dense.Settle();
  settles_soon_ = true;
  strand->Add([this] {
    settles_soon_ = false;
    tables_.dense.Settle();
  });
}

void MutationApplier::Save(v1::PartitionState& state) const {
  state.set_completed_clocks(clocks_.completed());
  for (uint32_t slot = 0; slot < clocks_.slots(); ++slot) {
    const auto& pending = clocks_.slot(slot).pending_examples;
    state.mutable_slots(slot)->mutable_pending_examples()->Assign(pending.begin(), pending.end());
  }
  state.set_clip_norms(last_norms_);
  entries_.Save(state);
  loss_scale_.Save(state);
  rate_factors_.Save(state);
}

void MutationApplier::Restore(const v1::PartitionState& state) {
  std::vector<Clocks::Slot> slots;
  for (const v1::SlotState& stored : state.slots()) {
    slots.push_back(
        {.closed = stored.closed_clocks(),
         .pending_examples = {stored.pending_examples().begin(), stored.pending_examples().end()}});
  }
  clocks_ = Clocks(std::move(slots), state.completed_clocks());
  last_norms_ = state.clip_norms();
  entries_.Restore(state);
  loss_scale_.Restore(state);
  rate_factors_.Restore(state);
}

}  // namespace muster
