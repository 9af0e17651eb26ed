#ifndef MUSTER_SERVER_SHARD_PARTITION_ANSWERS_CALL_ANSWERS_H_
#define MUSTER_SERVER_SHARD_PARTITION_ANSWERS_CALL_ANSWERS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/base/payload.h"
#include "server/shard/calls/admitted_call.h"
#include "server/shard/partition/apply/clocks.h"

namespace muster {

namespace v1 {
class ExchangeReply;
class ExchangeRequest;
}  // namespace v1

// Sends the answers of a partition, each with the partition's clocks. A call that is answered
// already, or that has been moved elsewhere to wait, is left alone. Not thread-safe.
class CallAnswers {
 public:
  // The clocks must outlive it.
  explicit CallAnswers(const Clocks& clocks) : clocks_(clocks) {}

  // Answers the call, with its request id and the clocks filled in.
  void Answer(AdmittedCall& call, v1::ExchangeReply reply, Payload payload) const;
  void AnswerOk(AdmittedCall& call, Payload payload = {}) const;
  // Answers with an error. `retry_after_ms` 0: trying again later does not help by itself. Needs no
  // memory.
  void Refuse(AdmittedCall& call, const absl::Status& status, uint32_t retry_after_ms = 0) const;

  // Returns the error for a request of something that is not kept any more: ABORTED for a task from
  // before the slot's present one, otherwise FAILED_PRECONDITION.
  absl::Status Gone(const v1::ExchangeRequest& request, absl::string_view message) const;

 private:
  const Clocks& clocks_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_ANSWERS_CALL_ANSWERS_H_
