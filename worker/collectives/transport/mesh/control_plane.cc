#include "worker/collectives/transport/mesh/control_plane.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/transport/system_error.h"
#include "common/transport/wire.h"
#include "worker/collectives/transport/mesh/call_text.h"

namespace muster {
namespace {

constexpr absl::Duration kFarewell = absl::Milliseconds(200);

}  // namespace

absl::StatusOr<std::unique_ptr<ControlPlane>> ControlPlane::Create(int rank,
                                                                   std::vector<ControlPeer> peers,
                                                                   const Doorbell& bell,
                                                                   GroupHealth& health) {
  Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll.valid() || !wake.valid()) return SystemError("epoll");
  for (size_t i = 0; i < peers.size(); ++i) {
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.u32 = static_cast<uint32_t>(i);
    const int descriptor = static_cast<int>(i) == rank ? wake.get() : peers[i].stream->descriptor();
    if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) {
      return SystemError("epoll_ctl");
    }
  }
  return std::unique_ptr<ControlPlane>(
      new ControlPlane(rank, std::move(peers), bell, health, std::move(epoll), std::move(wake)));
}

ControlPlane::ControlPlane(int rank, std::vector<ControlPeer> peers, const Doorbell& bell,
                           GroupHealth& health, Descriptor epoll, Descriptor wake)
    : rank_(rank),
      peers_(std::move(peers)),
      bell_(bell),
      health_(health),
      epoll_(std::move(epoll)),
      wake_(std::move(wake)),
      states_(peers_.size()),
      thread_([this] { Serve(); }) {}

ControlPlane::~ControlPlane() {
  {
    absl::MutexLock lock(&mutex_);
    for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer) {
      Queue(peer, ControlKind::kGoodbye, "");
    }
    closing_ = Deadline::After(kFarewell);
  }
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

void ControlPlane::Abort(const absl::Status& reason) {
  WireWriter body;
  body.Number(static_cast<uint32_t>(reason.code()));
  // A message that is too long would end the connection.
  body.Text(absl::string_view(reason.message().data(),
                              std::min<size_t>(reason.message().size(), 32 << 10)));
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(aborted_, true)) return;
    for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer) {
      Queue(peer, ControlKind::kAbort, body.bytes());
    }
  }
  eventfd_write(wake_.get(), 1);
}

std::vector<RankState> ControlPlane::Survey(absl::Duration grace) {
  uint64_t survey;
  {
    absl::MutexLock lock(&mutex_);
    survey = ++surveys_;
    WireWriter body;
    body.Number(survey);
    for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer) {
      Queue(peer, ControlKind::kSurvey, body.bytes());
    }
  }
  eventfd_write(wake_.get(), 1);

  absl::MutexLock lock(&mutex_);
  const auto complete = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer) {
      const PeerState& state = states_[peer];
      if (peer != rank_ && !state.gone && !state.left && state.answered < survey) return false;
    }
    return true;
  };
  mutex_.AwaitWithTimeout(absl::Condition(&complete), grace);
  std::vector<RankState> result(peers_.size());
  for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer) {
    const PeerState& state = states_[peer];
    result[peer].call = LastCallLocked(peer);
    if (peer == rank_) {
      result[peer].life = RankState::Life::kAnswers;
    } else if (state.left) {
      result[peer].life = RankState::Life::kLeft;
    } else if (state.gone) {
      result[peer].life = RankState::Life::kDied;
    } else if (state.answered >= survey) {
      result[peer].life = RankState::Life::kAnswers;
      // The answer of that survey; the peer's page may have moved on.
      result[peer].call = state.call;
    }
  }
  return result;
}

void ControlPlane::SendMemory(int peer, uint64_t id, size_t bytes, Descriptor descriptor) {
  WireWriter body;
  body.Number(id);
  body.Number(static_cast<uint64_t>(bytes));
  {
    absl::MutexLock lock(&mutex_);
    Queue(peer, ControlKind::kMemory, body.bytes(), std::move(descriptor));
  }
  eventfd_write(wake_.get(), 1);
}

absl::StatusOr<ControlPlane::Memory> ControlPlane::TakeMemory(int peer, uint64_t id,
                                                              Deadline deadline) {
  absl::MutexLock lock(&mutex_);
  PeerState& state = states_[peer];
  while (state.memory.count(id) == 0) {
    if (!health_.ok()) return health_.status();
    if (state.gone || state.left) {
      return absl::UnavailableError(
          absl::StrCat(peers_[peer].name, " has left while memory was being shared"));
    }
    if (deadline.passed()) {
      return absl::UnavailableError(
          absl::StrCat(peers_[peer].name, " did not send its memory in time"));
    }
    // An abort from this process's side is not signalled here; hence not longer than this.
    const absl::Duration limit = deadline.Sooner(absl::Milliseconds(20)).nap();
    const auto moved = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return state.memory.count(id) > 0 || state.gone || state.left;
    };
    mutex_.AwaitWithTimeout(absl::Condition(&moved), limit);
  }
  Memory memory = std::move(state.memory[id]);
  state.memory.erase(id);
  return memory;
}

void ControlPlane::Serve() {
  epoll_event events[16];
  while (true) {
    absl::optional<Deadline> closing;
    {
      absl::MutexLock lock(&mutex_);
      closing = closing_;
    }
    if (closing.has_value() && (AllSent() || closing->passed())) return;
    const int timeout = closing.has_value() ? 10 : -1;
    const int count = epoll_wait(epoll_.get(), events, std::size(events), timeout);
    for (int i = 0; i < count; ++i) {
      const int peer = static_cast<int>(events[i].data.u32);
      if (peer == rank_) {
        eventfd_t rings;
        eventfd_read(wake_.get(), &rings);
        for (int other = 0; other < static_cast<int>(peers_.size()); ++other) SendTo(other);
        continue;
      }
      if (events[i].events & EPOLLOUT) SendTo(peer);
      if (events[i].events & ~EPOLLOUT) ReceiveFrom(peer);
    }
  }
}

bool ControlPlane::AllSent() {
  absl::MutexLock lock(&mutex_);
  for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer) {
    if (peer == rank_ || states_[peer].gone || states_[peer].left) continue;
    if (!states_[peer].outbox.empty() || peers_[peer].stream->pending()) return false;
  }
  return true;
}

void ControlPlane::SendTo(int peer) {
  if (peer == rank_) return;
  std::vector<ControlMessage> outbox;
  {
    absl::MutexLock lock(&mutex_);
    if (states_[peer].gone) return;
    outbox = std::move(states_[peer].outbox);
    states_[peer].outbox.clear();
  }
  ControlStream& stream = *peers_[peer].stream;
  for (ControlMessage& message : outbox) stream.Send(std::move(message));
  // An error shows when receiving, behind the messages that came before.
  if (!stream.Push().ok()) return;
  epoll_event event = {};
  event.events = EPOLLIN | (stream.pending() ? static_cast<uint32_t>(EPOLLOUT) : 0);
  event.data.u32 = static_cast<uint32_t>(peer);
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, stream.descriptor(), &event);
}

void ControlPlane::ReceiveFrom(int peer) {
  std::vector<ControlMessage> messages;
  const absl::Status status = peers_[peer].stream->Receive(messages);
  for (ControlMessage& message : messages) Handle(peer, std::move(message));
  if (!status.ok()) Lost(peer);
}

void ControlPlane::Handle(int peer, ControlMessage message) {
  WireReader body(message.body);
  switch (message.kind) {
    case ControlKind::kAbort: {
      const auto code = static_cast<absl::StatusCode>(body.Number<uint32_t>());
      const std::string text = body.Text();
      const bool sound = body.Done() && code != absl::StatusCode::kOk;
      health_.Fail(sound ? absl::Status(code, text)
                         : absl::AbortedError(absl::StrCat(
                               peers_[peer].name, " has ended the group for no stated reason")));
      return;
    }
    case ControlKind::kSurvey: {
      WireWriter reply;
      reply.Number(body.Number<uint64_t>());
      reply.Number(bell_.Published());
      {
        absl::MutexLock lock(&mutex_);
        Queue(peer, ControlKind::kState, reply.bytes());
      }
      SendTo(peer);
      return;
    }
    case ControlKind::kState: {
      const auto survey = body.Number<uint64_t>();
      auto call = body.Number<CallState>();
      call.label[sizeof(call.label) - 1] = '\0';
      if (!body.Done()) return;
      absl::MutexLock lock(&mutex_);
      states_[peer].answered = std::max(states_[peer].answered, survey);
      states_[peer].call = call;
      return;
    }
    case ControlKind::kGoodbye: {
      {
        absl::MutexLock lock(&mutex_);
        states_[peer].left = true;
      }
      health_.SetLeft(peer);
      return;
    }
    case ControlKind::kMemory: {
      const auto id = body.Number<uint64_t>();
      const auto bytes = body.Number<uint64_t>();
      if (!body.Done()) return;
      absl::MutexLock lock(&mutex_);
      Memory& memory = states_[peer].memory[id];
      memory.bytes = bytes;
      memory.descriptor = std::move(message.descriptor);
      return;
    }
  }
}

void ControlPlane::Lost(int peer) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peers_[peer].stream->descriptor(), nullptr);
  bool left;
  CallState call;
  {
    absl::MutexLock lock(&mutex_);
    states_[peer].gone = true;
    left = states_[peer].left;
    call = LastCallLocked(peer);
    // A rank that is leaving does not judge others.
    if (closing_.has_value()) return;
  }
  if (left) return;
  health_.Fail(absl::UnavailableError(
      absl::StrCat(peers_[peer].name, " has died or is out of reach; ", LastCallText(call))));
}

void ControlPlane::Queue(int peer, ControlKind kind, std::string body, Descriptor descriptor) {
  PeerState& state = states_[peer];
  if (peer == rank_ || state.gone) return;
  ControlMessage message;
  message.kind = kind;
  message.body = std::move(body);
  message.descriptor = std::move(descriptor);
  state.outbox.push_back(std::move(message));
}

CallState ControlPlane::LastCallLocked(int peer) const {
  if (peer == rank_) return bell_.Published();
  return peers_[peer].bell != nullptr ? peers_[peer].bell->Published() : states_[peer].call;
}

}  // namespace muster
