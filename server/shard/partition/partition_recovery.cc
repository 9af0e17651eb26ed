// The part of Partition that stores its state and comes back from it.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "proto/parameter_service.pb.h"
#include "proto/partition_state.pb.h"
#include "server/shard/partition/partition.h"

namespace muster {
namespace {

// Replayed records after which memory is accounted for again, and whoever waits is asked.
constexpr uint64_t kRecordsPerAccount = 256;
// Batches that go by before a base that found the disk full is tried again.
constexpr int kMostBaseWaits = 64;

}  // namespace

v1::PartitionState Partition::State() const {
  v1::PartitionState state;
  state.set_generation(job().generation());
  state.set_schema_fingerprint(job().fingerprint());
  state.set_lsn(journal_->last_lsn());
  state.set_completed_clocks(clocks_.completed());
  admission_.Save(state);
  for (uint32_t slot = 0; slot < clocks_.slots(); ++slot) {
    const auto& pending = clocks_.slot(slot).pending_examples;
    state.mutable_slots(slot)->mutable_pending_examples()->Assign(pending.begin(), pending.end());
  }
  for (const CutRecord& record : cuts_) {
    StoreCut(record, *state.add_cuts());
  }
  state.set_clip_norms(last_norms_);
  state.set_adopted_term(adopted_term_);
  return state;
}

absl::Status Partition::WriteBase(PartitionJournal::Extent extent) {
  return journal_->WriteBase(*tables_, State(), extent,
                             [this] { return !options_.crash_point->Pass("base"); });
}

absl::Status Partition::StartJournal(PartitionJournal::Extent extent) { return WriteBase(extent); }

absl::Status Partition::LogIncarnation(uint32_t slot, uint64_t incarnation) {
  v1::ExchangeRequest record;
  record.set_job_id(job().job_id());
  record.set_generation(job().generation());
  record.set_partition(tables_->partition);
  record.set_slot(slot);
  record.set_incarnation(incarnation);
  return LogRecord(record, Payload());
}

absl::Status Partition::LogRecord(const v1::ExchangeRequest& record, const Payload& payload) {
  if (absl::Status status = journal_->Append(record, payload).status(); !status.ok()) {
    if (!absl::IsFailedPrecondition(status)) return absl::UnavailableError(status.message());
    Close(LogFailed(status));
    return closed_;
  }
  if (options_.crash_point->Pass("appended")) return absl::UnavailableError("crashed");
  if (absl::Status status = journal_->Sync(); !status.ok()) {
    Close(LogFailed(status));
    return closed_;
  }
  if (options_.crash_point->Pass("synced")) return absl::UnavailableError("crashed");
  return absl::OkStatus();
}

void Partition::WriteBaseIfLogIsLong() {
  // Gradients that wait for their clock are in the log alone.
  if (journal_ == nullptr || !updater_.sums_empty() || !closed_.ok()) return;
  // A base is as many bytes to write as its blocks have, and pushes wait for it: half as many as of
  // the log, at most.
  const uint64_t log_bytes = std::max(options_.log_bytes, 2 * tables_->dense.value_bytes());
  if (journal_->bytes_since_base() <= log_bytes) return;
  if (base_waits_ > 0) {
    --base_waits_;
    return;
  }
  // The state that is stored includes all that was let in.
  Drain();
  if (options_.crash_point->crashed() || !closed_.ok() || !updater_.sums_empty()) return;
  absl::Status status = WriteBase(PartitionJournal::Extent::kChanged);
  if (absl::IsResourceExhausted(status)) {
    // The log holds everything; as long as it can grow, nothing is refused.
    base_waits_ = base_next_wait_;
    base_next_wait_ = std::min(2 * base_next_wait_, kMostBaseWaits);
    return;
  }
  base_next_wait_ = 1;
  if (!status.ok()) {
    Close(absl::Status(status.code(),
                       absl::StrCat("partition ", tables_->partition, " of job ", job().job_id(),
                                    " cannot store its values: ", status.message())));
  }
}

absl::Status Partition::Recover(const v1::PartitionState& state,
                                absl::FunctionRef<absl::Status()> go_on) {
  MUSTER_RETURN_IF_ERROR(admission_.Restore(state));
  std::vector<Clocks::Slot> slots;
  for (const v1::SlotState& stored : state.slots()) {
    slots.push_back(
        {.closed = stored.closed_clocks(),
         .pending_examples = {stored.pending_examples().begin(), stored.pending_examples().end()}});
  }
  clocks_ = Clocks(std::move(slots), state.completed_clocks());
  for (const v1::CutState& cut : state.cuts()) {
    cuts_.push_back(LoadCut(cut));
  }
  last_norms_ = state.clip_norms();
  adopted_term_ = state.adopted_term();
  MUSTER_ASSIGN_OR_RETURN(const uint64_t loaded_lsn, journal_->ReadBase(state.lsn(), *tables_));
  updater_.SetLoadedLsn(loaded_lsn);
  std::optional<ReplayMeter::Partition> replay;
  if (options_.replays != nullptr) {
    replay.emplace(*options_.replays, job().job_id(), job().generation());
  }
  MUSTER_RETURN_IF_ERROR(
      journal_->Replay(state.lsn(),
                       [&](uint64_t lsn, std::shared_ptr<const v1::ExchangeRequest> request,
                           Payload payload) -> absl::Status {
                         if (lsn % kRecordsPerAccount == 0) MUSTER_RETURN_IF_ERROR(go_on());
                         ExchangeCall call;
                         const uint64_t bytes = request->ByteSizeLong() + payload.size();
                         call.request = std::move(request);
                         call.payload = std::move(payload);
                         MUSTER_RETURN_IF_ERROR(ReplayRecord(lsn, std::move(call)));
                         if (replay.has_value()) replay->Add(bytes);
                         return absl::OkStatus();
                       }));
  UpdateStats();
  return absl::OkStatus();
}

absl::Status Partition::ReplayRecord(uint64_t lsn, ExchangeCall call) {
  if (call.request->operation_case() == v1::ExchangeRequest::OPERATION_NOT_SET) {
    const uint32_t slot = call.request->slot();
    if (slot >= job().slots()) {
      return absl::DataLossError(
          absl::StrCat("log record ", lsn, " names slot ", slot, " of ", job().slots()));
    }
    return admission_.EnterIncarnation(slot, call.request->incarnation());
  }
  if (call.request->has_cut()) return ReplayCut(call);
  // The same door as for the living, so that a log which does not follow its own rules is found
  // out.
  AdmittedCall admitted;
  admitted.call = std::move(call);
  admission_.Check(admitted);
  if (absl::IsResourceExhausted(admitted.status)) {
    // Pushes are accounted for as if all their rows were new; ask again with what they really took.
    UpdateStats();
    call = std::move(admitted.call);
    admitted = AdmittedCall();
    admitted.call = std::move(call);
    admission_.Check(admitted);
  }
  if (absl::IsResourceExhausted(admitted.status)) return admitted.status;
  if (!admitted.status.ok() || admitted.already_applied) {
    return absl::DataLossError(
        absl::StrCat("log record ", lsn, " does not follow from those before it: ",
                     admitted.already_applied ? "it repeats one" : admitted.status.message()));
  }
  admitted.lsn = lsn;
  admission_.Enter(admitted);
  MUSTER_RETURN_IF_ERROR(Apply(admitted));
  // A full disk is met again by the first push that is not replayed.
  if (absl::Status trimmed = TrimRows(); !absl::IsResourceExhausted(trimmed)) {
    MUSTER_RETURN_IF_ERROR(trimmed);
  }
  if (lsn % kRecordsPerAccount == 0) UpdateStats();
  return absl::OkStatus();
}

}  // namespace muster
