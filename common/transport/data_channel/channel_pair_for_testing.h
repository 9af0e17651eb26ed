#ifndef MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_CHANNEL_PAIR_FOR_TESTING_H_
#define MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_CHANNEL_PAIR_FOR_TESTING_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/payload.h"
#include "common/transport/data_channel/channel_io.h"
#include "common/transport/data_channel/channel_listener.h"
#include "common/transport/data_channel/frame_channel.h"

namespace muster {

// A handler that records messages. Thread-safe.
class RecordingHandler final : public FrameChannel::Handler {
 public:
  struct Message {
    std::string header;
    Payload payload;
  };

  std::byte* PlaceFor(absl::string_view header, size_t bytes) override;
  void OnMessage(absl::string_view header, Payload payload) override;
  void OnSent(size_t bytes) override;
  void OnClosed(const absl::Status& reason) override;

  // These block.
  std::vector<Message> AwaitMessages(size_t count);
  void AwaitSent(size_t bytes);
  absl::Status AwaitClosed();

  size_t received() const;
  bool closed() const;
  // Forgets the messages, and so releases their payloads.
  void Forget();
  // From now on receives payloads of exactly room.size() bytes in `room`.
  void ReceiveAt(absl::Span<std::byte> room);
  // From now on keeps headers only.
  void DropPayloads();

 private:
  mutable absl::Mutex mutex_;
  std::vector<Message> messages_ ABSL_GUARDED_BY(mutex_);
  absl::Span<std::byte> room_ ABSL_GUARDED_BY(mutex_);
  bool drop_payloads_ ABSL_GUARDED_BY(mutex_) = false;
  size_t sent_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status reason_ ABSL_GUARDED_BY(mutex_);
};

// A listener whose channels wait to be taken.
class ListenerForTesting {
 public:
  explicit ListenerForTesting(ChannelListenerOptions options = {});
  ~ListenerForTesting();

  const ChannelAddress& address() const { return address_; }
  ChannelIo& io() { return *io_; }
  const std::shared_ptr<ChannelIo>& shared_io() { return io_; }

  // Blocks until a client has come.
  std::shared_ptr<FrameChannel> AwaitChannel();

 private:
  void Add(std::shared_ptr<FrameChannel> channel);

  const std::shared_ptr<ChannelIo> io_;
  absl::Mutex mutex_;
  std::vector<std::shared_ptr<FrameChannel>> channels_ ABSL_GUARDED_BY(mutex_);
  ChannelAddress address_;
  std::unique_ptr<ChannelListener> listener_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_CHANNEL_PAIR_FOR_TESTING_H_
