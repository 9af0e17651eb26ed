#ifndef MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_FRAME_CHANNEL_H_
#define MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_FRAME_CHANNEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/payload.h"

namespace muster {

// One end of a data channel. It carries messages in order, both ways, loses none until the channel
// ends, and does not look into them. Thread-safe.
class FrameChannel {
 public:
  class Handler {
   public:
    virtual ~Handler() = default;
    // Announces a message with this header and a payload of `bytes` bytes, and returns where to
    // receive the payload. That room stays valid and exclusive until OnMessage for this message, or
    // OnClosed; the payload is then one span there, without an owner. Null: the channel receives it
    // in memory of its own. SetReading(false) within this call leaves the payload where it is; the
    // channel takes its memory when reading is on again. Called on the loop's thread.
    virtual std::byte* PlaceFor(absl::string_view header, size_t bytes) = 0;
    // Handles a message; in order, on the loop's thread. `header` is valid only during the call,
    // which must not block.
    virtual void OnMessage(absl::string_view header, Payload payload) = 0;
    // Reports that a message of `bytes` bytes, header and payload, is on its way and its payload
    // released. On the thread that sent it, perhaps within Send, with no lock of the channel held.
    virtual void OnSent(size_t bytes) = 0;
    // Reports the channel's end; the last call, on the loop's thread. `reason` is what Close was
    // given, the other end's goodbye, InvalidArgument or DataLoss (received bytes make no sense),
    // Unauthenticated (they were tampered with), or Unavailable (the connection broke).
    virtual void OnClosed(const absl::Status& reason) = 0;
  };

  virtual ~FrameChannel() = default;

  // Begins to read. Called once, before all else except SetReading. The channel keeps itself and
  // the handler alive until OnClosed has returned.
  virtual void Start(std::shared_ptr<Handler> handler) = 0;

  // Queues a message; never blocks. A short message is sent within the call when nothing else
  // waits, all others by the loop. Messages not sent when the channel ends are dropped. REQUIRES:
  // header and payload are within a frame's limits.
  virtual void Send(std::string header, Payload payload) = 0;

  // Returns memory to make a payload in, aligned to 64 bytes and of undefined contents; such a
  // payload need not be copied on its way. The memory may outlive the channel, and must not be
  // written once it is sent. Null: the channel has none, now or ever; any other memory serves as
  // well.
  virtual std::shared_ptr<std::byte> TakeSendMemory(size_t) { return nullptr; }

  // Returns the offset of `bytes` in the memory that this client has registered with the server;
  // nullopt: the server does not reach them.
  virtual std::optional<uint64_t> RegisteredOffset(absl::Span<const std::byte>) const {
    return std::nullopt;
  }
  // Return the client's memory to read, mapped as long as the payload, and room in it to write; for
  // servers, at places that the client has named. InvalidArgument: there is no such place. The room
  // is null once the channel ends; the end, on either side, waits until room is given back.
  virtual absl::StatusOr<Payload> ReadRegistered(uint64_t offset, uint64_t bytes);
  virtual absl::StatusOr<std::shared_ptr<std::byte>> WriteRegistered(uint64_t offset,
                                                                     uint64_t bytes);

  // Turns reading on or off; on at first. While reading is off, messages stay where they are, and
  // the other end feels it sooner or later. A message that has been begun may still come.
  virtual void SetReading(bool on) = 0;

  // Tells whether somebody waits for messages; somebody does at first. While nobody does, the other
  // end may find this end asleep and not wake it: messages are read when this end wakes for another
  // reason, or somebody waits again.
  virtual void SetWaiting(bool) {}

  // Sends the reason as a goodbye if that needs no waiting, and ends the channel soon. The first
  // reason counts.
  virtual void Close(absl::Status reason) = 0;

  // Returns the kind's name in ChannelStats.
  virtual const char* kind() const = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_FRAME_CHANNEL_H_
