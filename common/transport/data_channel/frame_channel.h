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

// One end of a data channel: messages in order, both ways, none lost until the channel ends. Knows
// nothing of what they say. Thread-safe.
class FrameChannel {
 public:
  class Handler {
   public:
    virtual ~Handler() = default;
    // A message with this header and a payload of `bytes` is coming. Where its payload is to be
    // received: room for that many bytes, which stays, and is nobody else's, until OnMessage is
    // called for it, or OnClosed; the payload's one piece then lies there, without an owner. Null:
    // in memory of the channel's. SetReading(false) within this call leaves the payload where it
    // is, and that memory is taken when reading is on again. On the loop's thread.
    virtual std::byte* PlaceFor(absl::string_view header, size_t bytes) = 0;
    // On the loop's thread, in order. `header` is valid during the call only. Must not block.
    virtual void OnMessage(absl::string_view header, Payload payload) = 0;
    // A message of so many bytes, header and payload, is on its way, and its payload released. On
    // the thread that sent it, which may be within Send; with no lock of the channel held.
    virtual void OnSent(size_t bytes) = 0;
    // The channel has ended; the last call, on the loop's thread. The reason that was given to
    // Close, or the other end's goodbye, or InvalidArgument or DataLoss: what came makes no sense;
    // or Unauthenticated: it was tampered with; or Unavailable: the connection broke.
    virtual void OnClosed(const absl::Status& reason) = 0;
  };

  virtual ~FrameChannel() = default;

  // Begins to read. To be called once, before all else but SetReading. The channel keeps itself and
  // the handler alive until OnClosed has returned.
  virtual void Start(std::shared_ptr<Handler> handler) = 0;

  // Queues a message; never blocks. A short one is sent within the call when nothing else waits,
  // the rest by the loop. REQUIRES: header and payload are within the limits of a frame. Once the
  // channel ends, messages that were not sent are dropped.
  virtual void Send(std::string header, Payload payload) = 0;

  // Memory for a payload that is to be sent, aligned to 64 bytes and of undefined contents: what is
  // made there need not be copied on its way. It may outlive the channel, and is not to be written
  // any more once it was sent. Null: the channel has none, now or ever; memory of any other kind
  // does as well.
  virtual std::shared_ptr<std::byte> TakeSendMemory(size_t) { return nullptr; }

  // Of a client: where the bytes lie in the memory that it has registered with the server; nullopt:
  // the server does not reach them.
  virtual std::optional<uint64_t> RegisteredOffset(absl::Span<const std::byte>) const {
    return std::nullopt;
  }
  // Of a server, at places that the client has named: bytes of the client's memory to read, which
  // stay mapped as long as the payload, and room to write. InvalidArgument: there is no such place.
  // Room is null once the channel ends; its end, on either side, waits until room is given back.
  virtual absl::StatusOr<Payload> ReadRegistered(uint64_t offset, uint64_t bytes);
  virtual absl::StatusOr<std::shared_ptr<std::byte>> WriteRegistered(uint64_t offset,
                                                                     uint64_t bytes);

  // While off, messages are left where they are, and the other end feels it sooner or later. One
  // that has been begun may still come. On at first.
  virtual void SetReading(bool on) = 0;

  // Whether somebody waits for what comes; somebody does at first. While nobody does, the other end
  // may find this one asleep and leave it so: what it sends is read when this one wakes for any
  // other reason, or somebody waits again.
  virtual void SetWaiting(bool) {}

  // Sends the reason as a goodbye, as far as that needs no waiting, and ends the channel soon. The
  // first reason counts.
  virtual void Close(absl::Status reason) = 0;

  // As ChannelStats calls it.
  virtual const char* kind() const = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_FRAME_CHANNEL_H_
