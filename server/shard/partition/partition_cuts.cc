// The part of Partition that takes cuts.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/write_failure.h"
#include "common/partition/cut_order.h"
#include "common/partition/wire_dtype.h"
#include "common/text/utf8.h"
#include "proto/parameter_service.pb.h"
#include "proto/partition_state.pb.h"
#include "server/shard/partition/partition.h"

namespace muster {
namespace {

// Cuts whose repeats are answered.
constexpr size_t kCutsKnown = 2;

}  // namespace

const Partition::CutRecord* Partition::FindCut(uint64_t clock) const {
  for (const CutRecord& cut : cuts_) {
    if (cut.clock == clock) return &cut;
  }
  return nullptr;
}

void Partition::KeepCut(CutRecord cut) {
  cuts_.push_front(std::move(cut));
  if (cuts_.size() > kCutsKnown) cuts_.pop_back();
}

absl::Status Partition::CheckCutCanBeTaken(const v1::ExchangeRequest& request) const {
  const uint64_t clock = request.clock();
  if (clock >= clocks_.completed() && !admission_.ledger().HasContributionsFrom(clock)) {
    return absl::OkStatus();
  }
  return GoneBy(request, absl::StrCat("slots have gone on (", clocks_.completed(),
                                      " clocks are complete); every slot must ask for the cut "
                                      "before it pushes"));
}

void Partition::RefuseCut(AdmittedCall& call, const absl::Status& status) const {
  Refuse(call, absl::Status(status.code(),
                            absl::StrCat("cut of partition ", tables_->partition, " of job ",
                                         job().job_id(), " at clock ", call.call.request->clock(),
                                         " failed: ", status.message())));
}

void Partition::AnswerCut(AdmittedCall& call, const CutRecord& cut) const {
  v1::ExchangeReply reply;
  reply.set_checkpoint_path(cut.path);
  reply.set_checkpoint_bytes(cut.bytes);
  reply.set_checkpoint_checksum(cut.checksum);
  Answer(call, std::move(reply), Payload());
}

void Partition::ServeCut(AdmittedCall& call) {
  const CutOrder order = call.cut;
  const v1::ExchangeRequest& request = *call.call.request;
  if (const CutRecord* known = FindCut(request.clock())) return AnswerCut(call, *known);
  if (cut_writer_->clock() != request.clock()) {
    // What the slots owe came with their takes, and does not come again.
    if (order.step == CutOrder::Step::kWrite) return AnswerGone(call);
    const absl::Status possible = CheckCutCanBeTaken(request);
    // Who has taken the cut everywhere goes on; that its view was lost since shows at the write.
    if (!possible.ok()) {
      return order.step == CutOrder::Step::kWhole ? RefuseCut(call, possible) : AnswerGone(call);
    }
    // One cut at a time: training waits here for files that take longer than the clocks between.
    if (cut_writer_->writing()) {
      deferred_cuts_.push_back(std::move(call));
      return;
    }
    if (absl::Status taken = cut_writer_->Take(request.clock()); !taken.ok()) {
      return RefuseCut(call, taken);
    }
    if (options_.crash_point->Pass("cut_taken")) return;
  }
  if (order.loss_scale.has_value() && !cut_writer_->writing()) {
    cut_writer_->AddLossScale({request.slot(), *order.loss_scale});
  }
  // The transport may want its memory back, and its peer may write to it.
  if (const size_t bytes = call.call.payload.size(); bytes > order.bytes()) {
    const Payload residual = call.call.payload.Slice(order.bytes(), bytes - order.bytes());
    call.call.payload = call.call.payload.Slice(0, 0);
    if (!cut_writer_->writing()) {
      const std::shared_ptr<float> values = options_.pool->Take(residual.size() / sizeof(float));
      residual.CopyTo(values.get());
      cut_writer_->AddResidual(request.slot(), values);
    }
  }
  const bool complete = cut_writer_->writing() || !LacksSlotState();
  // Who writes has been answered its take: an earlier life of the server had the state of all.
  if (order.step == CutOrder::Step::kWrite && !complete && cut_calls_.empty()) {
    DropIncompleteCut();
    return AnswerGone(call);
  }
  (order.step == CutOrder::Step::kTake ? take_calls_ : cut_calls_).push_back(std::move(call));
  if (!complete) return;
  for (AdmittedCall& take : take_calls_) AnswerOk(take);
  take_calls_.clear();
  if (!cut_calls_.empty() && !cut_writer_->writing()) StartCut(order.base);
}

void Partition::GiveUpIncompleteCut() {
  if (take_calls_.empty() || !cut_calls_.empty()) return;
  const absl::optional<uint64_t> clock = cut_writer_->clock();
  // As long as none has, those who are missing are still on their way.
  if (clock.has_value() && !admission_.ledger().HasContributionsFrom(*clock)) return;
  DropIncompleteCut();
}

void Partition::DropIncompleteCut() {
  if (const absl::optional<uint64_t> clock = cut_writer_->clock(); clock.has_value()) {
    failed_cut_clock_ = *clock;
    cut_failure_ = "some slots had been answered by an earlier life of the server and went on";
    cut_writer_->Drop();
  }
  for (AdmittedCall& take : take_calls_) AnswerGone(take);
  take_calls_.clear();
}

bool Partition::LacksSlotState() const {
  const size_t scales = cut_writer_->loss_scales();
  if (scales > 0 && scales < job().slots()) return true;
  const absl::StatusOr<DType> wire = WireDType(job().request().update().wire());
  return wire.ok() && *wire != DType::kF32 && tables_->dense.size() > 0 &&
         cut_writer_->residuals() < job().slots();
}

void Partition::StartCut(absl::optional<uint64_t> base) {
  const uint64_t clock = *cut_writer_->clock();
  cut_writer_->Write(base, [this, clock](const absl::StatusOr<PartitionFileInfo>& file) {
    CutWritten(clock, file);
  });
}

void Partition::AnswerGone(AdmittedCall& call) const {
  v1::ExchangeReply reply;
  reply.set_message(call.call.request->clock() == failed_cut_clock_
                        ? cut_failure_
                        : "it was taken by an earlier life of the server");
  Answer(call, std::move(reply), Payload());
}

void Partition::CutWritten(uint64_t clock, const absl::StatusOr<PartitionFileInfo>& file) {
  if (options_.crash_point->Pass("cut_written")) return;
  absl::Status status = file.status();
  // What came of the log when the partition failed is not to be written to any more.
  if (status.ok()) status = closed_;
  if (status.ok()) {
    const CutRecord cut{
        .clock = clock, .path = file->path, .bytes = file->bytes, .checksum = file->checksum};
    status = LogCut(cut);
    // What is not in the log is not answered later either, from memory.
    if (status.ok()) KeepCut(cut);
  }
  if (!status.ok()) {
    failed_cut_clock_ = clock;
    cut_failure_ = ToUtf8(status.message());
  }
  for (AdmittedCall& call : cut_calls_) {
    if (!closed_.ok()) {
      Refuse(call, closed_);
    } else if (status.ok()) {
      AnswerCut(call, cuts_.front());
    } else if (MayBeWrittenLater(status) &&
               (!file.ok() || call.cut.step == CutOrder::Step::kWrite)) {
      // Who asked decides whether to wait for it. A whole cut that the log lacks is tried again as
      // any other call.
      AnswerGone(call);
    } else {
      RefuseCut(call, status);
    }
  }
  cut_calls_.clear();
  for (AdmittedCall& call : std::exchange(deferred_cuts_, {})) Serve(std::move(call));
}

absl::Status Partition::LogCut(const CutRecord& cut) {
  if (journal_ == nullptr) return absl::OkStatus();
  v1::ExchangeRequest record;
  record.set_job_id(job().job_id());
  record.set_generation(job().generation());
  record.set_partition(tables_->partition);
  record.set_clock(cut.clock);
  record.mutable_cut();
  v1::CutState state;
  StoreCut(cut, state);
  const std::string bytes = state.SerializeAsString();
  return LogRecord(record,
                   Payload::Copy({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}));
}

absl::Status Partition::ReplayCut(const ExchangeCall& call) {
  std::string bytes(call.payload.size(), '\0');
  call.payload.CopyTo(bytes.data());
  v1::CutState state;
  if (!state.ParseFromString(bytes)) {
    return absl::DataLossError(absl::StrCat("a log record says of the cut at clock ",
                                            call.request->clock(), " nothing that can be read"));
  }
  KeepCut(LoadCut(state));
  return absl::OkStatus();
}

void Partition::StoreCut(const CutRecord& cut, v1::CutState& state) {
  state.set_clock(cut.clock);
  state.set_path(cut.path);
  state.set_bytes(cut.bytes);
  state.set_checksum(cut.checksum);
}

Partition::CutRecord Partition::LoadCut(const v1::CutState& state) {
  return {.clock = state.clock(),
          .path = state.path(),
          .bytes = state.bytes(),
          .checksum = state.checksum()};
}

}  // namespace muster
