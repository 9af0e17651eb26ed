#include "client/chaos/faults/link_proxy.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/transport/deadline.h"
#include "common/transport/sockets/socket_stream.h"
#include "common/transport/system_error.h"

namespace muster {
namespace {

constexpr size_t kChunkBytes = size_t{64} << 10;
// Bytes of a direction that the proxy holds before it stops reading, like a network's buffers.
constexpr size_t kMaxHeldBytes = size_t{256} << 10;
constexpr absl::Duration kConnectPatience = absl::Seconds(5);

// Returns true if a direction works; 0 is from the caller.
bool Passes(const LinkFault& fault, int from) {
  switch (fault.kind) {
    case LinkFault::Kind::kSilent:
    case LinkFault::Kind::kCut:
      return false;
    case LinkFault::Kind::kFromCaller:
      return from != 0;
    case LinkFault::Kind::kToCaller:
      return from != 1;
    case LinkFault::Kind::kNone:
    case LinkFault::Kind::kSlow:
      return true;
  }
  return true;
}

// Ends a connection as a machine does that knows nothing of it.
void Reset(Descriptor socket) {
  const linger at_once = {.l_onoff = 1, .l_linger = 0};
  setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

uint16_t PeerPort(int socket) {
  sockaddr_storage peer = {};
  socklen_t length = sizeof(peer);
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &length) != 0) return 0;
  return ntohs(peer.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(peer).sin6_port
                                          : reinterpret_cast<const sockaddr_in&>(peer).sin_port);
}

}  // namespace

// One caller's connection and the one to the target that belongs to it: ends 0 and 1. What end i
// sends is flow i.
class LinkProxy::Connection {
 public:
  Connection(std::string caller, Descriptor from_caller, Descriptor to_target)
      : caller_(std::move(caller)), ends_{std::move(from_caller), std::move(to_target)} {}

  const std::string& caller() const { return caller_; }

  // Appends what to wait for, one entry per end, and makes `wake_at` sooner where a chunk is due.
  void Prepare(const LinkFault& fault, absl::Time now, std::vector<pollfd>& polled,
               absl::Time& wake_at) const {
    for (int end = 0; end < 2; ++end) {
      const Flow& out = flows_[end];
      const Flow& in = flows_[1 - end];
      short events = 0;
      if (Passes(fault, end) && !out.ended && out.held < kMaxHeldBytes) events |= POLLIN;
      if (Passes(fault, 1 - end) && !in.chunks.empty()) {
        if (in.chunks.front().due <= now) {
          events |= POLLOUT;
        } else {
          wake_at = std::min(wake_at, in.chunks.front().due);
        }
      }
      polled.push_back({.fd = events == 0 ? -1 : ends_[end].get(), .events = events, .revents = 0});
    }
  }

  // Moves what can be moved. `polled`: the two entries of Prepare. False: the connection is over.
  bool Move(const LinkFault& fault, absl::Time now, const pollfd* polled) {
    for (int end = 0; end < 2; ++end) {
      if (!Passes(fault, end)) continue;
      if (polled[end].revents != 0 && (polled[end].events & POLLIN) != 0) Read(end, fault, now);
      Write(end, now);
      Flow& flow = flows_[end];
      if (!flow.ended || !flow.chunks.empty()) continue;
      if (flow.was_reset) return false;
      if (!flow.told) shutdown(ends_[1 - end].get(), SHUT_WR);
      flow.told = true;
    }
    return !(flows_[0].Over() && flows_[1].Over());
  }

  void Cut() {
    for (Descriptor& end : ends_) Reset(std::move(end));
  }

 private:
  struct Chunk {
    std::vector<char> bytes;
    size_t sent = 0;
    absl::Time due;
  };
  struct Flow {
    std::deque<Chunk> chunks;
    size_t held = 0;
    // Time when a slow link has room for the next chunk.
    absl::Time free_at = absl::InfinitePast();
    // The sender sends no more; by a reset.
    bool ended = false;
    bool was_reset = false;
    // The receiver has been told so.
    bool told = false;
    // The receiver takes no more; its own flow will say so to the sender, when it passes.
    bool refused = false;
    bool Over() const { return told || refused; }
  };

  void Read(int end, const LinkFault& fault, absl::Time now) {
    Flow& flow = flows_[end];
    Chunk chunk;
    chunk.bytes.resize(kChunkBytes);
    const ssize_t got = recv(ends_[end].get(), chunk.bytes.data(), chunk.bytes.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
      flow.ended = true;
      flow.was_reset = got < 0;
      return;
    }
    if (flow.refused) return;
    chunk.bytes.resize(static_cast<size_t>(got));
    chunk.due = now;
    if (fault.kind == LinkFault::Kind::kSlow) {
      chunk.due = std::max(flow.free_at, now + fault.latency);
      if (fault.bytes_per_second > 0) {
        flow.free_at = chunk.due + absl::Seconds(static_cast<double>(got) / fault.bytes_per_second);
      }
    }
    flow.held += chunk.bytes.size();
    flow.chunks.push_back(std::move(chunk));
  }

  void Write(int from, absl::Time now) {
    Flow& flow = flows_[from];
    while (!flow.chunks.empty() && flow.chunks.front().due <= now) {
      Chunk& chunk = flow.chunks.front();
      const ssize_t put = send(ends_[1 - from].get(), chunk.bytes.data() + chunk.sent,
                               chunk.bytes.size() - chunk.sent, MSG_NOSIGNAL);
      if (put < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (put < 0) {
        flow.refused = true;
        flow.chunks.clear();
        flow.held = 0;
        return;
      }
      chunk.sent += static_cast<size_t>(put);
      if (chunk.sent < chunk.bytes.size()) return;
      flow.held -= chunk.bytes.size();
      flow.chunks.pop_front();
    }
  }

  const std::string caller_;
  std::array<Descriptor, 2> ends_;
  std::array<Flow, 2> flows_;
};

absl::StatusOr<std::unique_ptr<LinkProxy>> LinkProxy::Create(TcpListener listener,
                                                             Options options) {
  Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return SystemError("eventfd");
  return std::unique_ptr<LinkProxy>(
      new LinkProxy(std::move(listener), std::move(options), std::move(wake)));
}

LinkProxy::LinkProxy(TcpListener listener, Options options, Descriptor wake)
    : listener_(std::move(listener)),
      options_(std::move(options)),
      wake_(std::move(wake)),
      thread_([this] { Serve(); }) {}

LinkProxy::~LinkProxy() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  Wake();
  thread_.join();
}

void LinkProxy::Wake() const {
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof(one));
}

void LinkProxy::SetFault(const std::string& caller, LinkFault fault) {
  absl::MutexLock lock(&mutex_);
  asked_[caller] = fault;
  const uint64_t call = ++asked_times_;
  Wake();
  const auto taken = [this, call]()
                         ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return taken_times_ >= call; };
  mutex_.Await(absl::Condition(&taken));
}

bool LinkProxy::TakeFaults() {
  uint64_t woken = 0;
  (void)!read(wake_.get(), &woken, sizeof(woken));
  absl::MutexLock lock(&mutex_);
  faults_ = asked_;
  // Connections are cut before SetFault returns.
  connections_.remove_if([this](const std::unique_ptr<Connection>& connection) {
    const bool cut = FaultOf(connection->caller()).kind == LinkFault::Kind::kCut;
    if (cut) connection->Cut();
    return cut;
  });
  taken_times_ = asked_times_;
  return !stopping_;
}

LinkFault LinkProxy::FaultOf(const std::string& caller) const {
  const auto found = faults_.find(caller);
  return found == faults_.end() ? LinkFault() : found->second;
}

void LinkProxy::Accept() {
  while (true) {
    Descriptor socket(
        accept4(listener_.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) return;
    SetTcpOptions(socket.get());
    std::string caller = options_.caller(PeerPort(socket.get()));
    if (FaultOf(caller).kind == LinkFault::Kind::kCut) {
      Reset(std::move(socket));
      continue;
    }
    absl::StatusOr<Descriptor> target =
        ConnectTcp(options_.target_host, options_.target_port, Deadline::After(kConnectPatience));
    if (!target.ok()) {
      Reset(std::move(socket));
      continue;
    }
    connections_.push_back(
        std::make_unique<Connection>(std::move(caller), std::move(socket), *std::move(target)));
  }
}

void LinkProxy::Serve() {
  std::vector<pollfd> polled;
  while (TakeFaults()) {
    polled = {{.fd = wake_.get(), .events = POLLIN, .revents = 0},
              {.fd = listener_.socket.get(), .events = POLLIN, .revents = 0}};
    absl::Time wake_at = absl::InfiniteFuture();
    const absl::Time before = absl::Now();
    for (const auto& connection : connections_) {
      connection->Prepare(FaultOf(connection->caller()), before, polled, wake_at);
    }
    timespec patience = {};
    if (wake_at != absl::InfiniteFuture()) patience = absl::ToTimespec(wake_at - before);
    ppoll(polled.data(), polled.size(), wake_at == absl::InfiniteFuture() ? nullptr : &patience,
          nullptr);
    const absl::Time now = absl::Now();
    const pollfd* of_connection = polled.data() + 2;
    for (auto it = connections_.begin(); it != connections_.end(); of_connection += 2) {
      const bool lives = (*it)->Move(FaultOf((*it)->caller()), now, of_connection);
      it = lives ? std::next(it) : connections_.erase(it);
    }
    if ((polled[1].revents & POLLIN) != 0) Accept();
  }
}

}  // namespace muster
