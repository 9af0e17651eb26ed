#include "common/transport/data_channel/shared_channel.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/sanitizers/happens_before.h"
#include "common/transport/deadline.h"
#include "common/transport/system_error.h"

namespace muster {
namespace {

// Longest payload for the ring: below, a fragment would cost more than copying it twice.
constexpr size_t kThroughRingBytes = 4 << 10;
// Shorter messages are copied by the thread that brings them.
constexpr size_t kCopyHereBytes = 64 << 10;
// After so many messages read, or bytes written, the loop's other connections have their turn.
constexpr int kReadTurnMessages = 16;
constexpr size_t kWriteTurnBytes = 1 << 20;
// Enough turns to read all messages that a full ring can hold.
constexpr int kRingTurns = kSegmentRingBytes / kFrameBytes / kReadTurnMessages;
// An end's one way to sleep: until its bell rings.
constexpr uint32_t kByBell = 1;
// Longest time that a client waits for a server that stands still within a write to registered
// memory.
constexpr absl::Duration kGatePatience = absl::Seconds(10);

SharedSegment::Direction Opposite(SharedSegment::Direction direction) {
  return direction == SharedSegment::Direction::kToServer ? SharedSegment::Direction::kToClient
                                                          : SharedSegment::Direction::kToServer;
}

int64_t ArenaBytes(uint64_t bytes) {
  return static_cast<int64_t>((bytes + kGranuleBytes - 1) / kGranuleBytes * kGranuleBytes);
}

}  // namespace

absl::Status CheckBell(int bell) {
  char target[64] = {};
  const ssize_t length =
      readlink(absl::StrCat("/proc/self/fd/", bell).c_str(), target, sizeof(target) - 1);
  if (length < 0) return SystemError("readlink");
  const absl::string_view kind(target, static_cast<size_t>(length));
  if (kind != "anon_inode:[eventfd]") {
    return absl::InvalidArgumentError(
        absl::StrCat("the bell that was handed over is ", kind, ", expected an eventfd"));
  }
  const int flags = fcntl(bell, F_GETFL);
  if (flags < 0 || fcntl(bell, F_SETFL, flags | O_NONBLOCK) != 0) return SystemError("fcntl");
  return absl::OkStatus();
}

class SharedChannel::Loan {
 public:
  Loan(const SharedChannel& channel)
      : segment_(channel.link_.segment),
        receiver_(channel.arena_receiver_),
        bell_(channel.peer_bell_),
        lent_(channel.lent_) {}

  ~Loan() {
    bool wake = false;
    for (const Fragment& fragment : fragments_) {
      lent_->fetch_sub(ArenaBytes(fragment.bytes.size()), std::memory_order_relaxed);
      wake |= receiver_.Release(fragment.offset);
    }
    if (wake) eventfd_write(bell_->get(), 1);
  }

  void Add(uint64_t offset, absl::Span<const std::byte> bytes) {
    lent_->fetch_add(ArenaBytes(bytes.size()), std::memory_order_relaxed);
    fragments_.push_back({offset, bytes});
  }

  std::vector<Payload::Span> Spans() const {
    std::vector<Payload::Span> spans;
    spans.reserve(fragments_.size());
    for (const Fragment& fragment : fragments_) {
      // Fragments that lie side by side are one span.
      if (!spans.empty() && spans.back().data() + spans.back().size() == fragment.bytes.data()) {
        spans.back() =
            absl::MakeConstSpan(spans.back().data(), spans.back().size() + fragment.bytes.size());
      } else {
        spans.push_back(fragment.bytes);
      }
    }
    return spans;
  }

 private:
  struct Fragment {
    uint64_t offset;
    absl::Span<const std::byte> bytes;
  };

  const std::shared_ptr<SharedSegment> segment_;
  ArenaReceiver receiver_;
  const std::shared_ptr<Descriptor> bell_;
  const std::shared_ptr<std::atomic<int64_t>> lent_;
  std::vector<Fragment> fragments_;
};

std::shared_ptr<SharedChannel> SharedChannel::Create(SharedLink link, IoLoop& loop,
                                                     std::shared_ptr<BufferPool> pool) {
  return std::shared_ptr<SharedChannel>(new SharedChannel(std::move(link), loop, std::move(pool)));
}

SharedChannel::SharedChannel(SharedLink link, IoLoop& loop, std::shared_ptr<BufferPool> pool)
    : link_(std::move(link)),
      loop_(loop),
      pool_(std::move(pool)),
      arena_sender_(std::make_shared<ArenaSender>(link_.segment, link_.direction)),
      own_bell_(std::make_shared<Descriptor>(std::move(link_.own_bell))),
      peer_bell_(std::make_shared<Descriptor>(std::move(link_.peer_bell))),
      peer_watch_(*this),
      ring_writer_(link_.segment->ring(link_.direction), kSegmentRingBytes),
      own_writers_(std::make_shared<std::atomic<int>>(0)),
      lent_(std::make_shared<std::atomic<int64_t>>(0)),
      ring_reader_(link_.segment->ring(Opposite(link_.direction)), kSegmentRingBytes),
      arena_receiver_(link_.segment, Opposite(link_.direction)) {}

void SharedChannel::Start(std::shared_ptr<Handler> handler) {
  handler_ = std::move(handler);
  loop_.Post([self = shared_from_this()] {
    self->self_ = self;
    self->loop_.AddPolled(self.get());
    absl::Status status = self->loop_.Watch(self->own_bell_->get(), EPOLLIN, self.get());
    if (status.ok()) {
      status =
          self->loop_.Watch(self->link_.socket.get(), EPOLLIN | EPOLLRDHUP, &self->peer_watch_);
    }
    if (!status.ok()) self->End(status);
  });
}

void SharedChannel::Send(std::string header, Payload payload) {
  const bool through_ring = payload.size() <= kThroughRingBytes;
  Outgoing outgoing;
  outgoing.bytes = header.size() + payload.size();
  outgoing.copied_bytes = IsRoom(payload) ? header.size() : outgoing.bytes;
  outgoing.head.resize(kFrameBytes);
  EncodeFrame({.kind = FrameKind::kMessage,
               .place = through_ring ? PayloadPlace::kFollows : PayloadPlace::kArena,
               .header_bytes = static_cast<uint32_t>(header.size()),
               .payload_bytes = static_cast<uint32_t>(payload.size())},
              reinterpret_cast<std::byte*>(outgoing.head.data()));
  outgoing.head += header;
  if (through_ring) {
    const size_t at = outgoing.head.size();
    outgoing.head.resize(at + payload.size());
    payload.CopyTo(outgoing.head.data() + at);
  } else {
    outgoing.payload = std::move(payload);
  }
  const bool here = outgoing.copied_bytes <= kCopyHereBytes;
  {
    absl::MutexLock lock(&mutex_);
    if (ended_) return;
    queue_.push_back(std::move(outgoing));
    if (writing_) return;
    writing_ = true;
    if (!here) {
      LeaveToLoopLocked();
      return;
    }
  }
  WriteQueue(Writer::kCaller);
}

std::shared_ptr<std::byte> SharedChannel::TakeSendMemory(size_t bytes) {
  if (bytes <= kThroughRingBytes) return nullptr;
  const ArenaSender::Allocation room = arena_sender_->Take(bytes);
  if (room.place == nullptr) return nullptr;
  return {room.place, [sender = arena_sender_, bell = own_bell_, room](std::byte*) {
            if (sender->GiveUp(room)) eventfd_write(bell->get(), 1);
          }};
}

std::optional<uint64_t> SharedChannel::RegisteredOffset(absl::Span<const std::byte> bytes) const {
  if (link_.registered == nullptr) return std::nullopt;
  return link_.registered->OffsetOf(bytes);
}

absl::StatusOr<Payload> SharedChannel::ReadRegistered(uint64_t offset, uint64_t bytes) {
  if (link_.peer_memory == nullptr) return FrameChannel::ReadRegistered(offset, bytes);
  MUSTER_ASSIGN_OR_RETURN(const absl::Span<std::byte> place, link_.peer_memory->At(offset, bytes));
  return Payload({place}, link_.peer_memory);
}

absl::StatusOr<std::shared_ptr<std::byte>> SharedChannel::WriteRegistered(uint64_t offset,
                                                                          uint64_t bytes) {
  if (link_.peer_memory == nullptr) return FrameChannel::WriteRegistered(offset, bytes);
  MUSTER_ASSIGN_OR_RETURN(const absl::Span<std::byte> place, link_.peer_memory->At(offset, bytes));
  own_writers_->fetch_add(1, std::memory_order_seq_cst);
  const std::shared_ptr<std::byte> room(
      place.data(),
      [segment = link_.segment, memory = link_.peer_memory, writers = own_writers_](std::byte*) {
        segment->write_gate().Leave();
        writers->fetch_sub(1, std::memory_order_release);
      });
  return link_.segment->write_gate().Enter() ? room : nullptr;
}

bool SharedChannel::IsRoom(const Payload& payload) const {
  return payload.spans().size() == 1 && arena_sender_->IsTaken(payload.spans()[0].data());
}

void SharedChannel::LeaveToLoopLocked() {
  // Posted under the lock, since the loop may be gone once the channel has ended.
  loop_.Post([self = shared_from_this()] { self->WriteQueue(Writer::kLoop); });
}

void SharedChannel::WakeReader() {
  if (ring_writer_.ReaderToWake() != 0) eventfd_write(peer_bell_->get(), 1);
}

absl::StatusOr<bool> SharedChannel::WriteMessage(const Outgoing& outgoing) {
  while (head_written_ < outgoing.head.size()) {
    const auto* bytes = reinterpret_cast<const std::byte*>(outgoing.head.data());
    MUSTER_ASSIGN_OR_RETURN(
        const size_t length,
        ring_writer_.Write({bytes + head_written_, outgoing.head.size() - head_written_}));
    if (length == 0) return false;
    head_written_ += length;
  }
  while (true) {
    while (fragment_written_ < sizeof(fragment_)) {
      const auto* bytes = reinterpret_cast<const std::byte*>(fragment_.data());
      MUSTER_ASSIGN_OR_RETURN(
          const size_t length,
          ring_writer_.Write({bytes + fragment_written_, sizeof(fragment_) - fragment_written_}));
      if (length == 0) return false;
      fragment_written_ += length;
    }
    const size_t rest = outgoing.payload.size() - payload_written_;
    if (rest == 0) return true;
    if (payload_written_ == 0 && IsRoom(outgoing.payload)) {
      fragment_ = {arena_sender_->SendTaken(outgoing.payload.spans()[0].data()), rest};
      fragment_written_ = 0;
      payload_written_ = rest;
      continue;
    }
    absl::Span<std::byte> room;
    if (!arena_sender_->Allocate(rest, &fragment_[0], &room)) return false;
    outgoing.payload.Read(payload_position_, room.size(), room.data());
    NoteBefore(room.data());
    payload_written_ += room.size();
    fragment_[1] = room.size();
    fragment_written_ = 0;
  }
}

void SharedChannel::WriteQueue(Writer writer) {
  // Destroyed without the lock.
  std::deque<Outgoing> dropped;
  size_t turn_bytes = 0;
  while (true) {
    const Outgoing* first;
    {
      absl::MutexLock lock(&mutex_);
      if (ended_) dropped.swap(queue_);
      if (ended_ || queue_.empty()) {
        writing_ = false;
        return;
      }
      if (writer == Writer::kLoop && turn_bytes >= kWriteTurnBytes) {
        unfinished_ = true;
        return;
      }
      // Stays valid, since nobody else takes from the queue.
      first = &queue_.front();
    }
    const size_t bytes = first->bytes;
    absl::StatusOr<bool> written = false;
    if (writer == Writer::kLoop || first->copied_bytes <= kCopyHereBytes) {
      written = WriteMessage(*first);
    }
    WakeReader();
    if (!written.ok() || !*written) {
      absl::MutexLock lock(&mutex_);
      if (ended_) {
        dropped.swap(queue_);
        writing_ = false;
      } else if (!written.ok()) {
        // After an impossible index nothing can be sent any more.
        Close(written.status());
      } else if (writer == Writer::kCaller) {
        LeaveToLoopLocked();
      } else {
        unfinished_ = true;
      }
      return;
    }
    head_written_ = 0;
    payload_written_ = 0;
    payload_position_ = {};
    if (writer == Writer::kLoop) ++written_;
    turn_bytes += bytes;
    std::shared_ptr<Handler> handler;
    Outgoing done;
    {
      absl::MutexLock lock(&mutex_);
      if (!ended_) handler = handler_;
      done = std::move(queue_.front());
      queue_.pop_front();
    }
    done.payload = {};
    if (handler != nullptr) handler->OnSent(bytes);
  }
}

bool SharedChannel::WriteUnfinished() {
  if (!unfinished_) return false;
  unfinished_ = false;
  const uint64_t written = written_;
  const size_t head = head_written_;
  const size_t payload = payload_written_;
  const size_t fragment = fragment_written_;
  WriteQueue(Writer::kLoop);
  return !unfinished_ || written != written_ || head != head_written_ ||
         payload != payload_written_ || fragment != fragment_written_;
}

void SharedChannel::SetReading(bool on) {
  reading_.store(on, std::memory_order_relaxed);
  // Wakes the loop, which then looks.
  if (on) loop_.Post([] {});
}

void SharedChannel::SetWaiting(bool on) {
  if (waiting_.exchange(on, std::memory_order_seq_cst) == on) return;
  // Wakes the loop, which then reads what is there and asks to be woken for what follows.
  if (on) loop_.Post([] {});
}

void SharedChannel::Close(absl::Status reason) {
  loop_.Post([self = shared_from_this(), reason = std::move(reason)] {
    if (self->self_ != nullptr) self->End(reason);
  });
}

void SharedChannel::OnEvents(uint32_t) {
  // The bell only wakes the loop, which polls next.
}

void SharedChannel::PeerWatch::OnEvents(uint32_t) {
  const std::shared_ptr<SharedChannel> channel = channel_.self_;
  if (!channel->PeerIsGone()) return;
  // The channel first reads what the other process sent before it went. All of that fits in the
  // ring: a process that goes on writing is not gone.
  for (int turn = 0; turn < kRingTurns; ++turn) {
    if (channel->self_ == nullptr || !channel->ReadMessages()) break;
  }
  if (channel->self_ == nullptr) return;
  channel->End(absl::UnavailableError("the process at the other end has gone"));
}

bool SharedChannel::Poll() {
  const std::shared_ptr<SharedChannel> self = self_;
  bool worked = WriteUnfinished();
  if (self_ != nullptr) worked |= ReadMessages();
  return worked;
}

bool SharedChannel::BeforeSleep() {
  if (ring_reader_.WriterToWake(RingReader::Reason::kAboutToSleep) != 0) {
    eventfd_write(peer_bell_->get(), 1);
  }
  if (reading_.load(std::memory_order_relaxed)) {
    if (waiting_.load(std::memory_order_seq_cst)) ring_reader_.SetWaits(kByBell);
    if (ring_reader_.Moved()) return false;
  }
  if (unfinished_) {
    ring_writer_.SetWaits(kByBell);
    arena_sender_->SetWaits();
    // Room that came back before that has rung no bell.
    if (WriteUnfinished()) return false;
  }
  return true;
}

void SharedChannel::AfterSleep() {
  ring_reader_.SetWaits(0);
  ring_writer_.SetWaits(0);
}

bool SharedChannel::ReadMessages() {
  bool any = false;
  for (int i = 0; i < kReadTurnMessages; ++i) {
    if (self_ == nullptr || !reading_.load(std::memory_order_relaxed)) break;
    const absl::StatusOr<bool> read = ReadMessage();
    if (!read.ok()) {
      End(read.status());
      return true;
    }
    if (!*read) break;
    any = true;
  }
  if (any && ring_reader_.WriterToWake(RingReader::Reason::kConsumed) != 0) {
    eventfd_write(peer_bell_->get(), 1);
  }
  return any;
}

absl::StatusOr<bool> SharedChannel::Take(std::byte* out, size_t bytes, size_t* have) {
  while (*have < bytes) {
    MUSTER_ASSIGN_OR_RETURN(const absl::Span<const std::byte> come,
                            ring_reader_.Peek(bytes - *have));
    if (come.empty()) return false;
    std::memcpy(out + *have, come.data(), come.size());
    *have += come.size();
    ring_reader_.Consume(come.size());
  }
  return true;
}

absl::StatusOr<bool> SharedChannel::ReadMessage() {
  if (stage_ == Stage::kFrame) {
    MUSTER_ASSIGN_OR_RETURN(const bool whole, Take(frame_bytes_.data(), kFrameBytes, &have_));
    if (!whole) return false;
    MUSTER_ASSIGN_OR_RETURN(frame_, DecodeFrame(frame_bytes_.data()));
    header_.resize(frame_.header_bytes);
    have_ = 0;
    stage_ = Stage::kHeader;
  }
  if (stage_ == Stage::kHeader) {
    MUSTER_ASSIGN_OR_RETURN(const bool whole, Take(reinterpret_cast<std::byte*>(header_.data()),
                                                   header_.size(), &have_));
    if (!whole) return false;
    if (frame_.kind == FrameKind::kGoodbye) return DecodeGoodbye(header_);
    BeginPayload();
    // If the handler has turned reading off, the payload stays where it is and takes no memory
    // here.
    if (!reading_.load(std::memory_order_relaxed)) return false;
  }
  TakePlace();
  if (stage_ == Stage::kPayload) {
    MUSTER_ASSIGN_OR_RETURN(const bool whole, Take(place_, frame_.payload_bytes, &filled_));
    if (!whole) return false;
  } else if (stage_ == Stage::kFragments) {
    MUSTER_ASSIGN_OR_RETURN(const bool whole, ReadFragments());
    if (!whole) return false;
  }
  Deliver();
  return true;
}

void SharedChannel::BeginPayload() {
  filled_ = 0;
  have_ = 0;
  stage_ = frame_.place == PayloadPlace::kArena ? Stage::kFragments : Stage::kPayload;
  if (frame_.payload_bytes > 0) place_ = handler_->PlaceFor(header_, frame_.payload_bytes);
}

void SharedChannel::TakePlace() {
  if (frame_.payload_bytes == 0 || place_ != nullptr || loan_ != nullptr) return;
  const bool in_arena = stage_ == Stage::kFragments;
  const int64_t lent = lent_->load(std::memory_order_relaxed) + ArenaBytes(frame_.payload_bytes);
  const size_t arena = link_.segment->arena_bytes();
  if (in_arena && lent <= static_cast<int64_t>(arena - NotLentBytes(arena))) {
    loan_ = std::make_shared<Loan>(*this);
    return;
  }
  buffer_ = pool_->Take((frame_.payload_bytes + sizeof(float) - 1) / sizeof(float));
  place_ = reinterpret_cast<std::byte*>(buffer_.get());
}

absl::StatusOr<bool> SharedChannel::ReadFragments() {
  while (filled_ < frame_.payload_bytes) {
    MUSTER_ASSIGN_OR_RETURN(const bool whole, Take(reinterpret_cast<std::byte*>(incoming_.data()),
                                                   sizeof(incoming_), &have_));
    if (!whole) return false;
    have_ = 0;
    const uint64_t offset = incoming_[0];
    const uint64_t length = incoming_[1];
    MUSTER_ASSIGN_OR_RETURN(const absl::Span<const std::byte> bytes,
                            arena_receiver_.Find(offset, length));
    const uint64_t missing = frame_.payload_bytes - filled_;
    // Only the last fragment may be short, so that a message has few.
    if (length > missing || (length % kGranuleBytes != 0 && length != missing)) {
      return absl::DataLossError(absl::StrCat(
          "malformed frame on the data channel: a fragment of ", length, " bytes where ", missing,
          " are missing, expected these or a multiple of ", kGranuleBytes));
    }
    if (loan_ != nullptr) {
      loan_->Add(offset, bytes);
    } else {
      std::memcpy(place_ + filled_, bytes.data(), length);
      if (arena_receiver_.Release(offset)) eventfd_write(peer_bell_->get(), 1);
    }
    filled_ += length;
  }
  return true;
}

void SharedChannel::Deliver() {
  Payload payload;
  if (loan_ != nullptr) {
    std::vector<Payload::Span> spans = loan_->Spans();
    payload = Payload(std::move(spans), std::move(loan_));
  } else if (place_ != nullptr) {
    payload = Payload({absl::MakeConstSpan(place_, frame_.payload_bytes)}, std::move(buffer_));
  }
  loan_ = nullptr;
  place_ = nullptr;
  buffer_ = nullptr;
  stage_ = Stage::kFrame;
  have_ = 0;
  handler_->OnMessage(header_, std::move(payload));
}

bool SharedChannel::PeerIsGone() const {
  char byte;
  const ssize_t got = recv(link_.socket.get(), &byte, 1, MSG_DONTWAIT);
  return got >= 0 || (errno != EAGAIN && errno != EINTR);
}

void SharedChannel::AwaitPeersWrites() {
  WriteGate& gate = link_.segment->write_gate();
  gate.Close();
  const Deadline latest = Deadline::After(kGatePatience);
  // A write takes less than a millisecond while its thread runs. A server that ends a channel waits
  // for its own writes; a killed one has none.
  while (!gate.Empty() && !PeerIsGone()) {
    if (latest.passed()) {
      // The server may go on any time, and would overwrite what others have answered since.
      std::fprintf(stderr,
                   "muster: a server process has stood still for %d s while it wrote to this one's "
                   "memory, which is of no use any more: this process ends\n",
                   static_cast<int>(absl::ToInt64Seconds(kGatePatience)));
      std::abort();
    }
    absl::SleepFor(absl::Microseconds(50));
  }
}

void SharedChannel::EndOwnWrites() {
  link_.segment->write_gate().Close();
  while (own_writers_->load(std::memory_order_acquire) > 0) {
    absl::SleepFor(absl::Microseconds(50));
  }
}

void SharedChannel::End(absl::Status reason) {
  const std::shared_ptr<SharedChannel> self = std::move(self_);
  self_ = nullptr;
  loop_.Unwatch(own_bell_->get(), this);
  loop_.Unwatch(link_.socket.get(), &peer_watch_);
  loop_.RemovePolled(this);
  if (link_.registered != nullptr) AwaitPeersWrites();
  if (link_.peer_memory != nullptr) EndOwnWrites();
  bool say_goodbye = false;
  std::deque<Outgoing> dropped;
  {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
    // A writing thread still uses its message, and clears the queue itself; the loop's own writing
    // ends here.
    if (unfinished_) writing_ = false;
    say_goodbye = !writing_ && head_written_ == 0;
    if (!writing_) dropped.swap(queue_);
  }
  if (say_goodbye) {
    const std::string text = EncodeGoodbye(reason);
    std::string bytes(kFrameBytes, '\0');
    EncodeFrame({.kind = FrameKind::kGoodbye, .header_bytes = static_cast<uint32_t>(text.size())},
                reinterpret_cast<std::byte*>(bytes.data()));
    bytes += text;
    ring_writer_
        .Write(absl::MakeConstSpan(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()))
        .IgnoreError();
  }
  loan_ = nullptr;
  buffer_ = nullptr;
  // The other end notices, and looks into the ring first.
  shutdown(link_.socket.get(), SHUT_RDWR);
  const std::shared_ptr<Handler> handler = std::move(handler_);
  handler->OnClosed(reason);
}

}  // namespace muster
