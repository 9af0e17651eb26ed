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

// What two processes of one machine share for a data channel.
struct SharedLink {
  std::shared_ptr<SharedSegment> segment;
  // That this process sends by.
  SharedSegment::Direction direction = SharedSegment::Direction::kToServer;
  // A unix socket on which nothing is sent: it closes with the process at its other end.
  Descriptor socket;
  // Eventfds: the other end rings the first to wake this one, and sleeps on the second.
  Descriptor own_bell;
  Descriptor peer_bell;
  // Of a client: what it has registered with the server; of a server: the client's. Null: nothing.
  std::shared_ptr<const RegisteredMemory> registered;
  std::shared_ptr<const PeerMemory> peer_memory;
};

// Makes sure of a bell that another process has handed over: ringing it neither blocks nor raises a
// signal. InvalidArgument: it is no eventfd.
absl::Status CheckBell(int bell);

// A data channel through shared memory.
//
// Sending copies a payload to the arena once, unless it was made there (TakeSendMemory); short ones
// go through the ring. Where the receiver has a place for it, it is copied there as it comes;
// otherwise the receiver gets it where it lies, and the room comes back when the payload's last
// copy is gone. Not all of the arena is handed out so (NotLentBytes are kept back): what comes on
// top, and payloads larger than that, are copied to buffers of the pool at once. Nor does what is
// taken to make payloads in ever fill what is kept back (MaxTakenBytes). So the sender gets room
// again whatever anybody keeps, and payloads of any length pass through an arena of any size.
//
// The payload's bytes lie in memory that the other process can still write to: what has to stay as
// it was checked is to be copied first.
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
  // The payload of a message that came, where the sender put it.
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
    // Otherwise.
    Payload payload;
    // Of header and payload, and what of these is yet to be copied.
    size_t bytes = 0;
    size_t copied_bytes = 0;
  };
  enum class Writer { kCaller, kLoop };

  SharedChannel(SharedLink link, IoLoop& loop, std::shared_ptr<BufferPool> pool);
  // Whether the payload was made in memory from TakeSendMemory, and is the first of it to be sent.
  bool IsRoom(const Payload& payload) const;

  void OnEvents(uint32_t events) override;
  bool Poll() override;
  bool BeforeSleep() override;
  void AfterSleep() override;

  // Writes what is queued, as far as there is room and, on the loop, the turn goes; the loop takes
  // over where a caller finds no room. REQUIRES: writing_ was set by the caller.
  void WriteQueue(Writer writer) ABSL_LOCKS_EXCLUDED(mutex_);
  void LeaveToLoopLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Goes on with the first message. False: there is no room.
  absl::StatusOr<bool> WriteMessage(const Outgoing& outgoing);
  void WakeReader();
  // What a writer left undone; whether it got further.
  bool WriteUnfinished();

  // The loop's thread only.
  bool ReadMessages();
  absl::StatusOr<bool> ReadMessage();
  // Fills `out` from the ring as it comes; whether it is full. `have` counts.
  absl::StatusOr<bool> Take(std::byte* out, size_t bytes, size_t* have);
  void BeginPayload();
  // Takes what the payload is received in, unless that has been done.
  void TakePlace();
  absl::StatusOr<bool> ReadFragments();
  void Deliver();
  void End(absl::Status reason);
  // Return when the server writes nothing to registered memory any more: a client, and the server.
  void AwaitPeersWrites();
  void EndOwnWrites();
  // Whether the process at the other end, or its side of the channel, is gone.
  bool PeerIsGone() const;

  SharedLink link_;
  IoLoop& loop_;
  const std::shared_ptr<BufferPool> pool_;
  const std::shared_ptr<ArenaSender> arena_sender_;
  // Payloads and send memory ring them, also when the channel is gone.
  const std::shared_ptr<Descriptor> own_bell_;
  const std::shared_ptr<Descriptor> peer_bell_;
  PeerWatch peer_watch_;

  absl::Mutex mutex_;
  std::deque<Outgoing> queue_ ABSL_GUARDED_BY(mutex_);
  // Some thread writes, or the loop is about to.
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;

  // Of the thread that writes.
  RingWriter ring_writer_;
  size_t head_written_ = 0;
  size_t payload_written_ = 0;
  Payload::Position payload_position_;
  // Where the fragment that was filled last lies, and how much of that the ring has.
  std::array<uint64_t, 2> fragment_ = {};
  size_t fragment_written_ = sizeof(fragment_);

  std::atomic<bool> reading_{true};
  // Whether the other end is to wake this one for what it sends.
  std::atomic<bool> waiting_{true};
  // A server's threads that write to registered memory. What the gate counts the client can change.
  const std::shared_ptr<std::atomic<int>> own_writers_;
  // Bytes of the arena that payloads which were handed out take.
  const std::shared_ptr<std::atomic<int64_t>> lent_;

  // The loop's thread only; the handler also by threads that send, until ended_ is set.
  std::shared_ptr<Handler> handler_;
  // While it is registered with the loop.
  std::shared_ptr<SharedChannel> self_;
  // The writer found no room, or its turn was over, and the loop goes on.
  bool unfinished_ = false;
  // Goes up with every step of the loop's writing.
  uint64_t written_ = 0;
  RingReader ring_reader_;
  ArenaReceiver arena_receiver_;
  // What is there of the next message.
  enum class Stage { kFrame, kHeader, kPayload, kFragments };
  Stage stage_ = Stage::kFrame;
  std::array<std::byte, kFrameBytes> frame_bytes_;
  size_t have_ = 0;
  Frame frame_;
  std::string header_;
  // Where the payload is copied to, and who owns that (null: the handler); or the loan.
  std::byte* place_ = nullptr;
  std::shared_ptr<float> buffer_;
  std::shared_ptr<Loan> loan_;
  size_t filled_ = 0;
  std::array<uint64_t, 2> incoming_ = {};
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_SHARED_CHANNEL_H_
