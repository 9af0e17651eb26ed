#include "server/shard/service/exchange_session.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "common/base/catch_out_of_memory.h"
#include "proto/parameter_service.pb.h"

namespace muster {

bool ExchangeSession::MayReadLocked() const {
  const int64_t held = PassingLocked();
  return push_bytes_ < limits_.push_bytes && reply_bytes_ < limits_.reply_bytes &&
         (held <= MessageBudget::kShortBytes || held <= budgets_->passing.left());
}

void ExchangeSession::Dispatch(std::shared_ptr<Pending> pending, ExchangeCall call,
                               const Taking& taking, MessageShare& arrived) {
  pending->request_id = call.request->request_id();
  const bool is_push = call.request->has_dense_push() || call.request->has_sparse_push();
  (is_push ? pending->push_bytes : pending->parked_bytes) = taking.bytes;
  const std::shared_ptr<MessageBudget> budget(budgets_,
                                              is_push ? &budgets_->passing : &budgets_->parked);
  counters_.Count(taking.bytes);
  absl::Status refused;
  {
    absl::MutexLock lock(&mutex_);
    if (is_push && taking.has_room) {
      budget->Take(taking.budget_bytes);
    } else {
      if (!is_push) refused = CheckParked(parked_bytes_, taking.bytes, limits_);
      const int64_t held = is_push ? PassingLocked() : parked_bytes_;
      if (refused.ok() && !budget->TryTake(taking.budget_bytes, held)) {
        refused = is_push ? NoRoomToCopy(taking.budget_bytes, *budget)
                          : NoRoomToWait(taking.bytes, *budget);
      }
      // It is counted until it is answered all the same.
      if (!refused.ok()) budget->Take(taking.budget_bytes);
    }
    pending->share.Keep(budget, taking.budget_bytes);
    push_bytes_ += pending->push_bytes;
    parked_bytes_ += pending->parked_bytes;
    ChangedLocked();
  }
  arrived.GiveBack();
  if (!refused.ok()) {
    v1::ExchangeReply reply = ErrorReply(refused);
    reply.set_retry_after_ms(kParkedRetryAfterMs);
    Answer(*pending, std::move(reply), {});
    return;
  }
  call.cancelled = cancelled_;
  call.done = [session = shared_from_this(), pending](v1::ExchangeReply reply, Payload payload) {
    const absl::Status sent = CatchOutOfMemory("an answer", [&] {
      session->Answer(*pending, std::move(reply), std::move(payload));
      return absl::OkStatus();
    });
    // Its caller would wait for it.
    if (!sent.ok()) session->Close(sent);
  };
  host_.Execute(std::move(call));
}

void ExchangeSession::Answer(Pending& request, v1::ExchangeReply reply, Payload payload) {
  auto give_back = absl::MakeCleanup([&] {
    absl::MutexLock lock(&mutex_);
    push_bytes_ -= request.push_bytes;
    parked_bytes_ -= request.parked_bytes;
  });
  const auto replace = [&](v1::ExchangeReply other) {
    reply = std::move(other);
    reply.set_request_id(request.request_id);
    payload = {};
  };
  reply.set_request_id(request.request_id);
  const absl::Status fits = CheckAnswerBytes(EncodedBytes(reply, payload));
  if (!fits.ok()) replace(ErrorReply(fits));
  if (Land(request, payload)) {
    reply.set_landed(true);
    counters_.bytes_sent.fetch_add(payload.size(), std::memory_order_relaxed);
    payload = {};
  }
  int64_t bytes = EncodedBytes(reply, payload);
  bool closed = false;
  {
    absl::MutexLock lock(&mutex_);
    std::move(give_back).Cancel();
    push_bytes_ -= request.push_bytes;
    parked_bytes_ -= request.parked_bytes;
    closed = closed_;
    if (!closed && !budgets_->passing.TryTake(bytes, PassingLocked())) {
      replace(NoRoomReply(bytes, budgets_->passing));
      bytes = EncodedBytes(reply, payload);
      budgets_->passing.Take(bytes);
    }
    if (!closed) reply_bytes_ += bytes;
    ChangedLocked();
  }
  request.share.GiveBack();
  if (!closed) Send(std::move(reply), std::move(payload));
}

}  // namespace muster
