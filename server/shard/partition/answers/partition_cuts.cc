#include "server/shard/partition/answers/partition_cuts.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/loss_scale.h"
#include "common/checkpoint/write_failure.h"
#include "common/partition/cut_order.h"
#include "common/partition/wire_dtype.h"
#include "common/text/utf8.h"
#include "proto/parameter_service.pb.h"

namespace muster {

PartitionCuts::PartitionCuts(const ServeContext& context, JournalWriter& log,
                             std::unique_ptr<CutWriter> writer, ServeLater serve_later)
    : context_(context),
      log_(log),
      writer_(std::move(writer)),
      serve_later_(std::move(serve_later)) {}

absl::Status PartitionCuts::CheckCanBeTaken(const v1::ExchangeRequest& request) const {
  const uint64_t clock = request.clock();
  const uint64_t completed = context_.clocks.completed();
  if (clock >= completed && !context_.ledger.HasContributionsFrom(clock)) {
    return absl::OkStatus();
  }
  return context_.answers.Gone(
      request, absl::StrCat("slots have gone on (", completed,
                            " clocks are complete); every slot must ask for the cut before it "
                            "pushes"));
}

void PartitionCuts::Refuse(AdmittedCall& call, const absl::Status& status) const {
  context_.answers.Refuse(
      call, absl::Status(status.code(),
                         absl::StrCat("cut of partition ", context_.tables.partition, " of job ",
                                      context_.job().job_id(), " at clock ",
                                      call.call.request->clock(), " failed: ", status.message())));
}

void PartitionCuts::AnswerWith(AdmittedCall& call, const CutHistory::Cut& cut) const {
  v1::ExchangeReply reply;
  reply.set_checkpoint_path(cut.path);
  reply.set_checkpoint_bytes(cut.bytes);
  reply.set_checkpoint_checksum(cut.checksum);
  context_.answers.Answer(call, std::move(reply), Payload());
}

void PartitionCuts::AnswerGone(AdmittedCall& call) const {
  v1::ExchangeReply reply;
  reply.set_message(call.call.request->clock() == failed_clock_
                        ? failure_
                        : "it was taken by an earlier life of the server");
  context_.answers.Answer(call, std::move(reply), Payload());
}

void PartitionCuts::Serve(AdmittedCall& call) {
  const CutOrder order = call.cut;
  const uint64_t clock = call.call.request->clock();
  if (const CutHistory::Cut* known = history_.Find(clock)) return AnswerWith(call, *known);
  if (writer_->clock() != clock && !TakeView(call)) return;
  AddSlotState(call);
  const bool complete = writer_->writing() || !LacksSlotState();
  // The writer's take has been answered: an earlier life of the server had the state of all.
  if (order.step == CutOrder::Step::kWrite && !complete && writes_.empty()) {
    DropIncomplete();
    return AnswerGone(call);
  }
  (order.step == CutOrder::Step::kTake ? takes_ : writes_).push_back(std::move(call));
  if (!complete) return;
  for (AdmittedCall& take : takes_) context_.answers.AnswerOk(take);
  takes_.clear();
  if (!writes_.empty() && !writer_->writing()) StartWriting(order.base);
}

bool PartitionCuts::TakeView(AdmittedCall& call) {
  const v1::ExchangeRequest& request = *call.call.request;
  // The slots sent their residuals with their takes, and do not send them again.
  if (call.cut.step == CutOrder::Step::kWrite) {
    AnswerGone(call);
    return false;
  }
  // A slot that has taken the cut everywhere goes on; that its view was lost since shows at the
  // write.
  if (const absl::Status possible = CheckCanBeTaken(request); !possible.ok()) {
    if (call.cut.step == CutOrder::Step::kWhole) {
      Refuse(call, possible);
    } else {
      AnswerGone(call);
    }
    return false;
  }
  // One cut at a time: training waits here for files that take longer than the clocks between.
  if (writer_->writing()) {
    deferred_.push_back(std::move(call));
    return false;
  }
  if (absl::Status taken = writer_->Take(request.clock()); !taken.ok()) {
    Refuse(call, taken);
    return false;
  }
  AddGroupLossScale();
  return !context_.health.Pass("cut_taken");
}

void PartitionCuts::AddGroupLossScale() {
  const auto& shared = context_.loss_scale.current();
  // One file of a checkpoint holds the loss scales.
  if (!shared.has_value() || context_.tables.partition != 0) return;
  const LossScale value{.scale = shared->value().scale(), .steps = shared->value().steps()};
  for (uint32_t slot = 0; slot < context_.job().slots(); ++slot) {
    writer_->AddLossScale({slot, value});
  }
}

void PartitionCuts::AddSlotState(AdmittedCall& call) {
  const uint32_t slot = call.call.request->slot();
  const CutOrder& order = call.cut;
  if (order.loss_scale.has_value() && !writer_->writing()) {
    writer_->AddLossScale({slot, *order.loss_scale});
  }
  const size_t bytes = call.call.payload.size();
  if (bytes <= order.bytes()) return;
  // The transport may want its memory back, and its peer may write to it.
  const Payload residual = call.call.payload.Slice(order.bytes(), bytes - order.bytes());
  call.call.payload = call.call.payload.Slice(0, 0);
  if (writer_->writing()) return;
  const std::shared_ptr<float> values = context_.pool.Take(residual.size() / sizeof(float));
  residual.CopyTo(values.get());
  writer_->AddResidual(slot, values);
}

bool PartitionCuts::LacksSlotState() const {
  const uint32_t slots = context_.job().slots();
  const size_t scales = writer_->loss_scales();
  if (scales > 0 && scales < slots) return true;
  const absl::StatusOr<DType> wire = WireDType(context_.job().request().update().wire());
  return wire.ok() && *wire != DType::kF32 && context_.tables.dense.size() > 0 &&
         writer_->residuals() < slots;
}

void PartitionCuts::GiveUpIncomplete() {
  if (takes_.empty() || !writes_.empty()) return;
  const absl::optional<uint64_t> clock = writer_->clock();
  // While no slot has gone on, the missing takes may still come.
  if (clock.has_value() && !context_.ledger.HasContributionsFrom(*clock)) return;
  DropIncomplete();
}

void PartitionCuts::DropIncomplete() {
  if (const absl::optional<uint64_t> clock = writer_->clock(); clock.has_value()) {
    failed_clock_ = *clock;
    failure_ = "some slots had been answered by an earlier life of the server and went on";
    writer_->Drop();
  }
  for (AdmittedCall& take : takes_) AnswerGone(take);
  takes_.clear();
}

void PartitionCuts::StartWriting(absl::optional<uint64_t> base) {
  const uint64_t clock = *writer_->clock();
  writer_->Write(
      base, [this, clock](const absl::StatusOr<PartitionFileInfo>& file) { Written(clock, file); });
}

void PartitionCuts::Written(uint64_t clock, const absl::StatusOr<PartitionFileInfo>& file) {
  if (context_.health.Pass("cut_written")) return;
  absl::Status status = file.status();
  // Nothing more may be written to the log of a failed partition.
  if (status.ok()) status = context_.health.status();
  if (status.ok()) {
    status = history_.Add(
        {.clock = clock, .path = file->path, .bytes = file->bytes, .checksum = file->checksum},
        log_);
  }
  if (!status.ok()) {
    failed_clock_ = clock;
    failure_ = ToUtf8(status.message());
  }
  for (AdmittedCall& call : writes_) {
    if (!context_.health.ok()) {
      context_.answers.Refuse(call, context_.health.status());
    } else if (status.ok()) {
      AnswerWith(call, *history_.Find(clock));
    } else if (MayBeWrittenLater(status) &&
               (!file.ok() || call.cut.step == CutOrder::Step::kWrite)) {
      // The caller decides whether to wait for the cut. A whole cut that the log lacks is tried
      // again as any other call.
      AnswerGone(call);
    } else {
      Refuse(call, status);
    }
  }
  writes_.clear();
  for (AdmittedCall& call : std::exchange(deferred_, {})) serve_later_(std::move(call));
}

void PartitionCuts::RefuseAll() {
  for (std::vector<AdmittedCall>* calls : {&takes_, &writes_, &deferred_}) {
    for (AdmittedCall& call : std::exchange(*calls, {})) {
      context_.answers.Refuse(call, context_.health.status());
    }
  }
}

}  // namespace muster
