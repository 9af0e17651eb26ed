#ifndef MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_SHARED_CHANNEL_H_
#define MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_SHARED_CHANNEL_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/buffer_pool.h"
#include "common/transport/data_channel/frame.h"
#include "common/transport/data_channel/frame_channel.h"
#include "common/transport/data_channel/io_loop.h"
#include "common/transport/descriptor.h"
#include "common/transport/shared_memory/byte_ring.h"
#include "common/transport/shared_memory/registered_memory.h"
#include "common/transport/shared_memory/shared_segment.h"

namespace muster {

// The resources that two processes of one machine share for a data channel.
struct SharedLink {
  std::shared_ptr<SharedSegment> segment;
  // The direction in which this process sends.
  SharedSegment::Direction direction = SharedSegment::Direction::kToServer;
  // A unix socket that carries nothing; it closes with the process at its other end.
  Descriptor socket;
  // Eventfds. The other end rings own_bell to wake this one, and sleeps on peer_bell.
  Descriptor own_bell;
  Descriptor peer_bell;
  // A client's memory, registered with the server, and a server's side of it. Null: none.
  std::shared_ptr<const RegisteredMemory> registered;
  std::shared_ptr<const PeerMemory> peer_memory;
};

// Checks a bell that another process has handed over, and sees to it that ringing it neither blocks
// nor raises a signal. InvalidArgument: the bell is no eventfd.
absl::Status CheckBell(int bell);

// A data channel through shared memory.
//
// Sending copies a payload to the arena once, unless it was made there (TakeSendMemory); short
// payloads go through the ring. If the receiver has a place for a payload, the payload is copied
// there as it comes. Otherwise it is lent: the receiver gets it where it lies, and its room comes
// back when the payload's last copy is gone. NotLentBytes of the arena are never lent: payloads
// beyond the rest are copied to buffers of the pool at once. Room taken to make payloads in
// (MaxTakenBytes) does not fill that part either. So the sender gets room again whatever anybody
// keeps, and payloads of any length pass through an arena of any size.
//
// The other process can still write to a payload's bytes: copy first what has to stay as it was
// checked.
class SharedChannel final : public FrameChannel,
                            private IoLoop::Source,
                            public std::enable_shared_from_this<SharedChannel> {
 public:
  // `loop` outlives the channel.
  static std::shared_ptr<SharedChannel> Create(SharedLink link, IoLoop& loop,
                                               std::shared_ptr<BufferPool> pool);

  void Start(std::shared_ptr<Handler> handler) override;
  void Send(std::string header, Payload payload) override ABSL_LOCKS_EXCLUDED(mutex_);
  std::shared_ptr<std::byte> TakeSendMemory(size_t bytes) override;
  std::optional<uint64_t> RegisteredOffset(absl::Span<const std::byte> bytes) const override;
  absl::StatusOr<Payload> ReadRegistered(uint64_t offset, uint64_t bytes) override;
  absl::StatusOr<std::shared_ptr<std::byte>> WriteRegistered(uint64_t offset,
                                                             uint64_t bytes) override;
  void SetReading(bool on) override;
  void SetWaiting(bool on) override;
  void Close(absl::Status reason) override;
  const char* kind() const override { return "shared_memory"; }

 private:
  // A received payload where the sender put it.
  class Loan;
  // Notices the other process's end.
  class PeerWatch final : public IoLoop::Source {
   public:
    explicit PeerWatch(SharedChannel& channel) : channel_(channel) {}
    void OnEvents(uint32_t events) override;
    bool Poll() override { return false; }
    bool BeforeSleep() override { return true; }
    void AfterSleep() override {}

   private:
    SharedChannel& channel_;
  };

  struct Outgoing {
    // The frame, the header, and a short payload.
    std::string head;
    // A longer payload.
    Payload payload;
    // Bytes of header and payload, and how many of them have to be copied to be sent.
    size_t bytes = 0;
    size_t copied_bytes = 0;
  };
  enum class Writer { kCaller, kLoop };

  SharedChannel(SharedLink link, IoLoop& loop, std::shared_ptr<BufferPool> pool);
  // Returns whether the payload was made in memory from TakeSendMemory that was not sent before.
  bool IsRoom(const Payload& payload) const;

  void OnEvents(uint32_t events) override;
  bool Poll() override;
  bool BeforeSleep() override;
  void AfterSleep() override;

  // Writes queued messages as far as there is room and, on the loop, until its turn is over; the
  // loop takes over where a caller finds no room. REQUIRES: the caller has set writing_.
  void WriteQueue(Writer writer) ABSL_LOCKS_EXCLUDED(mutex_);
  void LeaveToLoopLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Goes on with the first message. Returns false if there is no room.
  absl::StatusOr<bool> WriteMessage(const Outgoing& outgoing);
  void WakeReader();
  // Goes on where a writer left off; returns whether it got further.
  bool WriteUnfinished();

  // The loop's thread only.
  bool ReadMessages();
  absl::StatusOr<bool> ReadMessage();
  // Fills `out` from the ring as bytes come, counting in `have`; returns whether `out` is full.
  absl::StatusOr<bool> Take(std::byte* out, size_t bytes, size_t* have);
  void BeginPayload();
  // Takes memory to receive the payload in, unless that has been done.
  void TakePlace();
  absl::StatusOr<bool> ReadFragments();
  void Deliver();
  void End(absl::Status reason);
  // Block until the server no longer writes to registered memory: for clients, and for servers.
  void AwaitPeersWrites();
  void EndOwnWrites();
  // Returns whether the process at the other end, or its side of the channel, is gone.
  bool PeerIsGone() const;

  SharedLink link_;
  IoLoop& loop_;
  const std::shared_ptr<BufferPool> pool_;
  const std::shared_ptr<ArenaSender> arena_sender_;
  // Shared with payloads and send memory, which ring them even when the channel is gone.
  const std::shared_ptr<Descriptor> own_bell_;
  const std::shared_ptr<Descriptor> peer_bell_;
  PeerWatch peer_watch_;

  absl::Mutex mutex_;
  std::deque<Outgoing> queue_ ABSL_GUARDED_BY(mutex_);
  // True while a thread writes, or the loop is about to.
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;

  // The writing thread only.
  RingWriter ring_writer_;
  size_t head_written_ = 0;
  size_t payload_written_ = 0;
  Payload::Position payload_position_;
  // Offset and length of the fragment filled last, and how many bytes of the two the ring has.
  std::array<uint64_t, 2> fragment_ = {};
  size_t fragment_written_ = sizeof(fragment_);

  std::atomic<bool> reading_{true};
  // True if the other end is to wake this one for what it sends.
  std::atomic<bool> waiting_{true};
  // This server's writes to registered memory under way; the client can change the gate's count.
  const std::shared_ptr<std::atomic<int>> own_writers_;
  // Bytes of the arena that lent payloads take.
  const std::shared_ptr<std::atomic<int64_t>> lent_;

  // The loop's thread only; threads that send read it, too, until ended_ is set.
  std::shared_ptr<Handler> handler_;
  // Set while registered with the loop.
  std::shared_ptr<SharedChannel> self_;
  // True if the loop has to go on: the writer found no room, or its turn was over.
  bool unfinished_ = false;
  // Messages that the loop has written.
  uint64_t written_ = 0;
  RingReader ring_reader_;
  ArenaReceiver arena_receiver_;
  // The part of the next message that is awaited.
  enum class Stage { kFrame, kHeader, kPayload, kFragments };
  Stage stage_ = Stage::kFrame;
  std::array<std::byte, kFrameBytes> frame_bytes_;
  size_t have_ = 0;
  Frame frame_;
  std::string header_;
  // The place that the payload is copied to, and its owner (null: the handler); or the loan.
  std::byte* place_ = nullptr;
  std::shared_ptr<float> buffer_;
  std::shared_ptr<Loan> loan_;
  size_t filled_ = 0;
  std::array<uint64_t, 2> incoming_ = {};
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_SHARED_CHANNEL_H_
