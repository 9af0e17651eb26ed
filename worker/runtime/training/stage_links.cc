#include "worker/runtime/training/stage_links.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/round_up.h"
#include "common/base/status_macros.h"
#include "common/plan/ranks/planned_stages.h"

namespace muster {
namespace {

absl::Status WaitFor(std::shared_ptr<Work>& work) {
  if (work == nullptr) return absl::OkStatus();
  const absl::Status status = work->Wait(absl::InfiniteDuration());
  work = nullptr;
  return status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StageLinks>> StageLinks::Create(Communicator& stages,
                                                               const StageLinksOptions& options) {
  const size_t places = options.received + options.sent;
  MUSTER_ASSIGN_OR_RETURN(
      std::unique_ptr<CollectiveBuffer> memory,
      stages.Allocate(places * RoundUp<size_t>(options.message_bytes, kStageMessageAlignment)));
  return std::unique_ptr<StageLinks>(new StageLinks(stages, options, std::move(memory)));
}

StageLinks::StageLinks(Communicator& stages, const StageLinksOptions& options,
                       std::unique_ptr<CollectiveBuffer> memory)
    : stages_(stages),
      options_(options),
      memory_(std::move(memory)),
      received_(options.received),
      sent_(options.sent) {
  absl::Span<std::byte> rest = memory_->bytes();
  for (std::vector<Place>* places : {&received_, &sent_}) {
    for (Place& place : *places) {
      place.memory = rest.first(options.message_bytes);
      rest.remove_prefix(RoundUp<size_t>(options.message_bytes, kStageMessageAlignment));
    }
  }
}

StageLinks::~StageLinks() {
  bool under_way = false;
  for (std::vector<Place>* places : {&received_, &sent_}) {
    for (const Place& place : *places) under_way |= place.work != nullptr;
  }
  if (!under_way) return;
  stages_.Abort("a step was given up with messages between stages under way");
  Finish().IgnoreError();
}

StageLinks::Place* StageLinks::Find(const StageMessage& message) {
  const auto found = std::find_if(received_.begin(), received_.end(), [&](const Place& place) {
    return place.taken && place.message == message;
  });
  return found == received_.end() ? nullptr : &*found;
}

absl::Status StageLinks::CheckSize(size_t bytes) const {
  if (bytes <= options_.message_bytes) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("a message between stages has ", bytes,
                                                    " bytes, and memory is for at most ",
                                                    options_.message_bytes));
}

void StageLinks::Add(CollectiveCall call, int peer, size_t bytes, Place& place) {
  call.dtype = DType::kUint8;
  call.count = bytes;
  call.root = peer;
  call.timeout = options_.timeout;
  place.bytes = bytes;
  added_.push_back(call);
  places_.push_back(&place);
}

absl::StatusOr<absl::Span<std::byte>> StageLinks::AddSend(const StageMessage& message, int peer,
                                                          size_t bytes) {
  MUSTER_RETURN_IF_ERROR(CheckSize(bytes));
  Place& place = sent_[next_sent_];
  next_sent_ = (next_sent_ + 1) % sent_.size();
  MUSTER_RETURN_IF_ERROR(WaitFor(place.work));
  CollectiveCall call;
  call.kind = Collective::kSend;
  call.in = place.memory.data();
  call.label = message.gradient ? "gradients to a stage" : "outputs to a stage";
  Add(call, peer, bytes, place);
  return place.memory.first(bytes);
}

absl::Status StageLinks::AddReceive(const StageMessage& message, int peer, size_t bytes) {
  MUSTER_RETURN_IF_ERROR(CheckSize(bytes));
  const auto place = std::find_if(received_.begin(), received_.end(),
                                  [](const Place& place) { return !place.taken; });
  if (place == received_.end()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a stage receives more than the ", received_.size(), " messages that it has memory for"));
  }
  place->taken = true;
  place->message = message;
  CollectiveCall call;
  call.kind = Collective::kReceive;
  call.out = place->memory.data();
  call.label = message.gradient ? "gradients from a stage" : "outputs from a stage";
  Add(call, peer, bytes, *place);
  return absl::OkStatus();
}

absl::Status StageLinks::Start() {
  if (options_.order != nullptr) {
    // What is received may lie where the computation still reads an earlier message.
    MUSTER_RETURN_IF_ERROR(options_.order->FollowComputation());
    for (CollectiveCall& call : added_) call.stream = options_.order->stream();
  }
  const std::vector<std::shared_ptr<Work>> works = stages_.StartMessages(added_);
  for (size_t i = 0; i < works.size(); ++i) places_[i]->work = works[i];
  added_.clear();
  places_.clear();
  return absl::OkStatus();
}

absl::StatusOr<absl::Span<const std::byte>> StageLinks::Await(const StageMessage& message) {
  Place* const place = Find(message);
  if (place == nullptr) {
    return absl::InternalError(absl::StrCat("nobody receives what unit ", message.unit,
                                            " hands on of micro-batch ", message.micro_batch));
  }
  MUSTER_RETURN_IF_ERROR(WaitFor(place->work));
  return place->memory.first(place->bytes);
}

void StageLinks::Release(const StageMessage& message) {
  if (Place* const place = Find(message); place != nullptr) place->taken = false;
}

absl::Status StageLinks::Finish() {
  absl::Status result;
  for (std::vector<Place>* places : {&received_, &sent_}) {
    for (Place& place : *places) result.Update(WaitFor(place.work));
  }
  return result;
}

}  // namespace muster
