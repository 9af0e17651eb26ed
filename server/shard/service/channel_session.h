#ifndef MUSTER_SERVER_SHARD_SERVICE_CHANNEL_SESSION_H_
#define MUSTER_SERVER_SHARD_SERVICE_CHANNEL_SESSION_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/base/payload.h"
#include "common/transport/data_channel/frame_channel.h"
#include "server/shard/calls/partition_host.h"
#include "server/shard/service/exchange_limits.h"
#include "server/shard/service/exchange_session.h"
#include "server/shard/service/message_budget.h"

namespace muster {

// One client's data channel, as an ExchangeStream is one client's gRPC stream. Lives until the
// channel has ended and the host is through with all calls. Thread-safe.
class ChannelSession final : public FrameChannel::Handler, public ExchangeSession {
 public:
  struct Options {
    ExchangeLimits limits;
    // Budgets of all connections of the process. Required.
    std::shared_ptr<MessageBudgets> budgets;
    // Called once the channel has ended, on its loop's thread.
    std::function<void()> ended;
  };

  // `host` outlives the session's last call.
  static std::shared_ptr<ChannelSession> Start(std::shared_ptr<FrameChannel> channel,
                                               PartitionHost& host,
                                               std::shared_ptr<ExchangeCounters> counters,
                                               Options options);

  void Close(absl::Status status) override ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends the channel if at `now` a long message has been coming for more than a minute: it must not
  // hold memory for which others wait.
  void CloseIfStalled(std::chrono::steady_clock::time_point now) ABSL_LOCKS_EXCLUDED(mutex_);

  // Finds room for the message. Until there is some, the message stays unread.
  std::byte* PlaceFor(absl::string_view header, size_t bytes) override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnMessage(absl::string_view header, Payload payload) override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnSent(size_t bytes) override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnClosed(const absl::Status& reason) override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  ChannelSession(std::shared_ptr<FrameChannel> channel, PartitionHost& host,
                 std::shared_ptr<ExchangeCounters> counters, Options options);

  // A request, with where its answer goes.
  struct Addressed : Pending {
    // Range of registered memory for the answer; no bytes: the answer comes behind the reply.
    uint64_t answer_offset = 0;
    uint64_t answer_bytes = 0;
    // True if the answer may be made in that range; the channel's end waits meanwhile.
    bool in_place = false;
    // Address in that range if the answer is made there; otherwise null.
    const std::byte* room = nullptr;
  };

  int64_t EncodedBytes(const v1::ExchangeReply& reply, const Payload& payload) const override;
  void Send(v1::ExchangeReply reply, Payload payload) override;
  // Brings the answer to the range that the request has named. Returns whether the answer is there.
  bool Land(const Pending& pending, const Payload& payload) override;
  // Lets the channel read or not, as the bounds have it.
  void ChangedLocked() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Returns memory from which an answer of so many bytes is sent without a copy; may be null.
  std::shared_ptr<std::byte> AnswerMemory(Addressed& request, size_t bytes);
  // Takes room for the message that is coming, or has this called again when there may be some.
  void TakeRoom() ABSL_LOCKS_EXCLUDED(mutex_);
  const std::shared_ptr<FrameChannel> channel_;
  const ExchangeCall::PayloadMemory payload_memory_;
  // Keeps what the session counts in.
  const std::shared_ptr<ExchangeCounters> kept_counters_;
  const std::function<void()> ended_;

  bool reading_ ABSL_GUARDED_BY(mutex_) = true;
  // Bytes of the long message that is coming; 0: none. It waits for room, or has had room since
  // `incoming_since_`.
  int64_t incoming_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool waits_for_room_ ABSL_GUARDED_BY(mutex_) = false;
  std::chrono::steady_clock::time_point incoming_since_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_SERVICE_CHANNEL_SESSION_H_
