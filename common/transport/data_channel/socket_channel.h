#ifndef MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_SOCKET_CHANNEL_H_
#define MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_SOCKET_CHANNEL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/buffer_pool.h"
#include "common/transport/data_channel/channel_stream.h"
#include "common/transport/data_channel/frame.h"
#include "common/transport/data_channel/frame_channel.h"
#include "common/transport/data_channel/io_loop.h"

namespace muster {

// A data channel over a TCP connection, plain or under TLS.
//
// A payload is sent from where it lies, except that short spans are gathered first. It is received
// where the handler has a place for it, otherwise in one buffer of the pool, aligned to 64 bytes.
// So the kernel's two copies are the only ones, except for payload bytes that come with the header
// in one system call (16 KiB at most).
class SocketChannel final : public FrameChannel,
                            private IoLoop::Source,
                            public std::enable_shared_from_this<SocketChannel> {
 public:
  // `loop` outlives the channel.
  static std::shared_ptr<SocketChannel> Create(std::unique_ptr<ChannelStream> stream, IoLoop& loop,
                                               std::shared_ptr<BufferPool> pool);

  void Start(std::shared_ptr<Handler> handler) override;
  void Send(std::string header, Payload payload) override ABSL_LOCKS_EXCLUDED(mutex_);
  void SetReading(bool on) override;
  void Close(absl::Status reason) override;
  const char* kind() const override { return stream_->kind(); }

 private:
  struct Outgoing {
    // The frame and the header behind it.
    std::string head;
    Payload payload;
    size_t size() const { return head.size() + payload.size(); }
  };
  // The thread that writes: a caller of Send goes on with short messages only; the loop takes the
  // rest.
  enum class Writer { kCaller, kLoop };

  SocketChannel(std::unique_ptr<ChannelStream> stream, IoLoop& loop,
                std::shared_ptr<BufferPool> pool);

  void OnEvents(uint32_t events) override;
  bool Poll() override { return false; }
  bool BeforeSleep() override { return true; }
  void AfterSleep() override {}

  // Sends queued messages as far as there is room, and calls OnSent. REQUIRES: the caller has set
  // writing_.
  void WriteQueue(Writer writer) ABSL_LOCKS_EXCLUDED(mutex_);
  void LeaveToLoopLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes `sent` bytes off the queue and returns the messages sent in full.
  std::vector<Outgoing> TakeSentLocked(size_t sent) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The loop's thread only.
  void ReadMore();
  // Ends the channel of a connection that is broken both ways: reads what has arrived, as long as
  // reading is on, then ends for this reason unless reading tells another.
  void ReadRest(const absl::Status& reason);
  absl::Status Receive(size_t* received);
  absl::Status ParseReceived();
  void BeginPayload();
  void Deliver();
  void End(absl::Status reason);

  const std::unique_ptr<ChannelStream> stream_;
  IoLoop& loop_;
  const std::shared_ptr<BufferPool> pool_;

  absl::Mutex mutex_;
  std::deque<Outgoing> queue_ ABSL_GUARDED_BY(mutex_);
  // Bytes already sent of the first message in the queue.
  size_t sent_of_first_ ABSL_GUARDED_BY(mutex_) = 0;
  // True while a thread is in WriteQueue, or the loop is about to be.
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  // True if the socket was full and has not said since that it has room.
  bool full_ ABSL_GUARDED_BY(mutex_) = false;
  // True if the socket said that it has room while a thread was writing.
  bool has_room_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;

  std::atomic<bool> reading_{true};

  // The loop's thread only; threads that send read it, too, until ended_ is set.
  std::shared_ptr<Handler> handler_;
  // Set while registered with the loop.
  std::shared_ptr<SocketChannel> self_;
  bool readable_ = false;
  // True if the other end sends no more than what has arrived.
  bool ending_ = false;
  // Not OK: the connection is broken both ways. After an orderly close alone the other end may
  // still receive, and what has arrived waits to be read.
  absl::Status broken_;
  // Headers, and payload bytes that come with them; [begin_, end_) is not parsed yet.
  std::vector<std::byte> staging_;
  size_t begin_ = 0;
  size_t end_ = 0;
  // True if frame_'s header is in and its payload is coming.
  bool in_payload_ = false;
  Frame frame_;
  std::string header_;
  // The place that receives the payload, and that memory's owner; null: the handler.
  std::byte* place_ = nullptr;
  std::shared_ptr<float> buffer_;
  size_t filled_ = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_SOCKET_CHANNEL_H_
