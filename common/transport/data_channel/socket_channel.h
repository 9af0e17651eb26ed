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
// A payload is sent from where it lies, unless that is in short pieces, which are gathered first,
// and received where the handler has a place for it, otherwise into one buffer of the pool, aligned
// to 64 bytes: the kernel's two copies are the only ones, but for what comes with the header in one
// system call (16 KiB at most).
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
  // Who may go on writing when a short write is done: a thread that has come to send its own
  // message leaves long ones to the loop.
  enum class Writer { kCaller, kLoop };

  SocketChannel(std::unique_ptr<ChannelStream> stream, IoLoop& loop,
                std::shared_ptr<BufferPool> pool);

  void OnEvents(uint32_t events) override;
  bool Poll() override { return false; }
  bool BeforeSleep() override { return true; }
  void AfterSleep() override {}

  // Sends what is queued, as far as there is room, and calls OnSent. REQUIRES: writing_ was set by
  // the caller.
  void WriteQueue(Writer writer) ABSL_LOCKS_EXCLUDED(mutex_);
  void LeaveToLoopLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes `sent` bytes off the queue; the messages that are gone whole.
  std::vector<Outgoing> TakeSentLocked(size_t sent) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The loop's thread only.
  void ReadMore();
  // The connection is no more, in either direction: what has arrived is read, as long as reading is
  // on, and then the channel ends, for this reason if reading tells no other.
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
  // Of the first in the queue.
  size_t sent_of_first_ ABSL_GUARDED_BY(mutex_) = 0;
  // Some thread is in WriteQueue, or the loop is about to be.
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  // The socket was full, and has not said that it has room again.
  bool full_ ABSL_GUARDED_BY(mutex_) = false;
  // It has said so while a thread was writing.
  bool has_room_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;

  std::atomic<bool> reading_{true};

  // The loop's thread only; the handler also by threads that send, until ended_ is set.
  std::shared_ptr<Handler> handler_;
  // While it is registered with the loop.
  std::shared_ptr<SocketChannel> self_;
  bool readable_ = false;
  // The other end sends no more than what has arrived.
  bool ending_ = false;
  // Not OK: nor receives any. After an orderly close alone it may, and what has arrived waits to be
  // read.
  absl::Status broken_;
  // Headers, and what comes with them: [begin_, end_) is not parsed yet.
  std::vector<std::byte> staging_;
  size_t begin_ = 0;
  size_t end_ = 0;
  // A frame whose header is in; its payload is coming.
  bool in_payload_ = false;
  Frame frame_;
  std::string header_;
  // What the payload is received into, and who owns that; null: the handler.
  std::byte* place_ = nullptr;
  std::shared_ptr<float> buffer_;
  size_t filled_ = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_SOCKET_CHANNEL_H_
