#include "worker/collectives/transport/meeting/peer_listener.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/transport/keyed_hash.h"
#include "common/transport/sockets/socket_stream.h"
#include "common/transport/system_error.h"

namespace muster {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(10);
// Interval between looks at the deadlines of those that wait for a caller.
constexpr int kTakersTickMs = 20;
constexpr size_t kMaxHelloBytes = 1024;
constexpr size_t kMaxGuests = 1024;
constexpr size_t kMaxClosed = 256;

// Aborted, and no disagreement: a rank that comes late finds the others in the next round.
absl::Status Over() {
  return absl::AbortedError(
      "the group of this round has met already, or given up; join the next one");
}

}  // namespace

absl::StatusOr<std::unique_ptr<PeerListener>> PeerListener::Create(
    const PeerListenerOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(TcpListener tcp, ListenTcp(options.host, options.ports));
  EndpointAddress address;
  address.host = options.advertised_host.empty() ? options.host : options.advertised_host;
  address.port = tcp.port;
  address.nonce = RandomBytes(16);
  address.pid = static_cast<uint32_t>(getpid());
  Descriptor unix_socket;
  if (options.unix_socket) {
    const std::string name = absl::StrCat("muster-", absl::BytesToHexString(RandomBytes(16)));
    // Without unix sockets, TCP does.
    if (absl::StatusOr<Descriptor> listener = ListenUnix(name); listener.ok()) {
      unix_socket = *std::move(listener);
      address.unix_name = name;
    }
  }
  Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return SystemError("eventfd");
  return std::unique_ptr<PeerListener>(new PeerListener(std::move(address), std::move(tcp.socket),
                                                        std::move(unix_socket), std::move(wake)));
}

PeerListener::PeerListener(EndpointAddress address, Descriptor tcp, Descriptor unix_socket,
                           Descriptor wake)
    : address_(std::move(address)),
      tcp_(std::move(tcp)),
      unix_socket_(std::move(unix_socket)),
      wake_(std::move(wake)),
      thread_([this] { Serve(); }) {}

PeerListener::~PeerListener() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

absl::StatusOr<PeerListener::Caller> PeerListener::Take(const Hello& expected, Deadline deadline) {
  absl::MutexLock lock(&mutex_);
  auto found = waiting_.end();
  const auto arrived = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    for (found = waiting_.begin(); found != waiting_.end(); ++found) {
      const Hello& hello = found->caller.hello;
      if (hello.group_key == expected.group_key && hello.from == expected.from &&
          hello.kind == expected.kind && hello.lane == expected.lane) {
        return true;
      }
    }
    return false;
  };
  const auto ended = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return arrived() || !deadline.status().ok();
  };
  if (!ended()) {
    // The condition is looked at whenever the thread, which now wakes regularly, has had the mutex.
    if (takers_++ == 0) eventfd_write(wake_.get(), 1);
    mutex_.Await(absl::Condition(&ended));
    --takers_;
  }
  if (!arrived()) {
    MUSTER_RETURN_IF_ERROR(deadline.interrupted());
    return absl::UnavailableError(
        absl::StrCat("it has not called ", address_.host, ":", address_.port));
  }
  Caller caller = std::move(found->caller);
  waiting_.erase(found);
  return caller;
}

void PeerListener::Close(const std::string& group_key) {
  std::list<Guest> late;
  {
    absl::MutexLock lock(&mutex_);
    if (closed_.insert(group_key).second) closed_order_.push_back(group_key);
    if (closed_order_.size() > kMaxClosed) {
      closed_.erase(closed_order_.front());
      closed_order_.pop_front();
    }
    for (auto guest = waiting_.begin(); guest != waiting_.end();) {
      const auto next = std::next(guest);
      if (guest->caller.hello.group_key == group_key) late.splice(late.end(), waiting_, guest);
      guest = next;
    }
  }
  for (Guest& guest : late) Refuse(guest.caller.socket.get(), Over());
}

void PeerListener::Serve() {
  std::vector<pollfd> descriptors;
  bool taken_from = false;
  while (true) {
    descriptors.clear();
    descriptors.push_back({wake_.get(), POLLIN, 0});
    descriptors.push_back({tcp_.get(), POLLIN, 0});
    descriptors.push_back({unix_socket_.get(), POLLIN, 0});  // -1 is left out by poll.
    for (const Guest& guest : arriving_) {
      descriptors.push_back({guest.caller.socket.get(), POLLIN, 0});
    }
    poll(descriptors.data(), descriptors.size(),
         taken_from          ? kTakersTickMs
         : arriving_.empty() ? -1
                             : 1000);
    if (descriptors[0].revents != 0) {
      eventfd_t rings;
      eventfd_read(wake_.get(), &rings);
    }
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return;
      taken_from = takers_ > 0;
    }
    size_t i = 3;
    for (auto guest = arriving_.begin(); guest != arriving_.end(); ++i) {
      const auto next = std::next(guest);
      if (descriptors[i].revents != 0 && !ReadHello(*guest)) {
        arriving_.erase(guest);
      } else if (guest->greeted) {
        Seat(guest);
      }
      guest = next;
    }
    DropSilentAndGone();
    if (descriptors[1].revents != 0) Accept(tcp_.get(), false);
    if (descriptors[2].revents != 0) Accept(unix_socket_.get(), true);
  }
}

void PeerListener::Accept(int listener, bool unix_socket) {
  Descriptor socket(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.valid()) {
    // Out of descriptors, the caller stays in the queue; do not spin over it.
    if (errno == EMFILE || errno == ENFILE) absl::SleepFor(absl::Milliseconds(10));
    return;
  }
  if (unix_socket && !SameUser(socket.get())) return;
  if (!unix_socket) SetTcpOptions(socket.get());
  Guest guest;
  guest.caller.socket = std::move(socket);
  guest.caller.unix_socket = unix_socket;
  guest.patience = Deadline::After(kPatience);
  if (arriving_.size() >= kMaxGuests) arriving_.pop_front();
  arriving_.push_back(std::move(guest));
}

bool PeerListener::ReadHello(Guest& guest) {
  const int socket = guest.caller.socket.get();
  uint32_t length = 0;
  while (true) {
    // Reads exactly the hello: what follows belongs to whoever takes the connection.
    size_t missing = sizeof(length) - std::min(guest.bytes.size(), sizeof(length));
    if (missing == 0) {
      guest.bytes.copy(reinterpret_cast<char*>(&length), sizeof(length));
      if (length > kMaxHelloBytes) return false;
      missing = sizeof(length) + length - guest.bytes.size();
      if (missing == 0) break;
    }
    char buffer[kMaxHelloBytes];
    const ssize_t got = recv(socket, buffer, missing, MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    if (got == 0) return false;
    guest.bytes.append(buffer, static_cast<size_t>(got));
  }
  absl::StatusOr<Hello> hello = Hello::Parse(guest.bytes.substr(sizeof(length)));
  if (!hello.ok()) return false;
  if (hello->endpoint_nonce != address_.nonce) {
    Refuse(socket, absl::AbortedError(
                       "the address belongs to an endpoint that is gone; ask for the new one"));
    return false;
  }
  guest.caller.hello = *std::move(hello);
  guest.greeted = true;
  return true;
}

void PeerListener::Seat(std::list<Guest>::iterator guest) {
  {
    absl::MutexLock lock(&mutex_);
    if (closed_.count(guest->caller.hello.group_key) == 0) {
      if (waiting_.size() >= kMaxGuests) waiting_.pop_front();
      waiting_.splice(waiting_.end(), arriving_, guest);
      return;
    }
  }
  Refuse(guest->caller.socket.get(), Over());
  arriving_.erase(guest);
}

void PeerListener::DropSilentAndGone() {
  arriving_.remove_if([](const Guest& guest) { return guest.patience.passed(); });
  absl::MutexLock lock(&mutex_);
  waiting_.remove_if([](const Guest& guest) {
    char byte;
    return recv(guest.caller.socket.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
  });
}

}  // namespace muster
