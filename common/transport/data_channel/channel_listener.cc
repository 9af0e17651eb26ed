#include "common/transport/data_channel/channel_listener.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/transport/answer.h"
#include "common/transport/data_channel/frame.h"
#include "common/transport/data_channel/tls_channel_stream.h"
#include "common/transport/deadline.h"
#include "common/transport/keyed_hash.h"
#include "common/transport/shared_memory/registered_memory.h"
#include "common/transport/shared_memory/shared_segment.h"
#include "common/transport/sockets/blocking_frames.h"
#include "common/transport/sockets/sockets.h"
#include "common/transport/sockets/unix_descriptors.h"
#include "common/transport/system_error.h"

namespace muster {
namespace {

constexpr size_t kMaxGuests = 256;
constexpr size_t kNonceBytes = 16;
constexpr size_t kSecretBytes = 32;
constexpr int kTickMs = 500;
// Answers are short and go into an empty send buffer, so they need no time.
constexpr absl::Duration kAnswerPatience = absl::Milliseconds(100);

absl::Status Answer(int socket, const std::string& answer) {
  return SendFrame(socket, answer, Deadline::After(kAnswerPatience));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChannelListener>> ChannelListener::Create(
    const ChannelListenerOptions& options, Sinks sinks) {
  auto listener = std::unique_ptr<ChannelListener>(new ChannelListener(options, std::move(sinks)));
  MUSTER_ASSIGN_OR_RETURN(TcpListener tcp, ListenTcpAt(options.host, options.port));
  ChannelAddress& address = listener->address_;
  address.version = kChannelVersion;
  address.host = options.advertised_host;
  address.port = tcp.port;
  address.security = options.security;
  address.nonce = RandomBytes(kNonceBytes);
  address.secret = RandomBytes(kSecretBytes);
  listener->tcp_ = std::move(tcp.socket);
  if (options.shared_memory == SharedMemory::kOffered) {
    const std::string name = absl::StrCat("muster-", absl::BytesToHexString(RandomBytes(16)));
    // Without unix sockets, TCP serves.
    if (absl::StatusOr<Descriptor> unix_socket = ListenUnix(name); unix_socket.ok()) {
      listener->unix_socket_ = *std::move(unix_socket);
      address.unix_name = name;
    }
  }
  listener->wake_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!listener->wake_.valid()) return SystemError("eventfd");
  listener->thread_ = std::thread([server = listener.get()] { server->Serve(); });
  return listener;
}

ChannelListener::ChannelListener(const ChannelListenerOptions& options, Sinks sinks)
    : options_(options), sinks_(std::move(sinks)) {}

ChannelListener::~ChannelListener() {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

ChannelAddress ChannelListener::Invite() const {
  ChannelAddress invitation = address_;
  invitation.nonce += RandomBytes(kNonceBytes);
  invitation.secret = KeyedHash(address_.secret, invitation.nonce);
  return invitation;
}

void ChannelListener::Serve() {
  std::vector<pollfd> descriptors;
  while (!stopping_.load()) {
    descriptors.clear();
    descriptors.push_back({wake_.get(), POLLIN, 0});
    descriptors.push_back({tcp_.get(), POLLIN, 0});
    descriptors.push_back({unix_socket_.get(), POLLIN, 0});  // -1 is left out by poll.
    for (const Guest& guest : guests_) {
      descriptors.push_back({guest.descriptor(), guest.awaited_events, 0});
    }
    poll(descriptors.data(), descriptors.size(), guests_.empty() ? -1 : kTickMs);
    const absl::Duration latest = RealClock().Monotonic() - options_.patience;
    size_t i = 3;
    for (auto guest = guests_.begin(); guest != guests_.end(); ++i) {
      const auto next = std::next(guest);
      const bool goes = descriptors[i].revents != 0 ? !Hear(*guest) : guest->arrived < latest;
      if (goes) guests_.erase(guest);
      guest = next;
    }
    if (descriptors[1].revents != 0) Accept(tcp_.get(), false);
    if (descriptors[2].revents != 0) Accept(unix_socket_.get(), true);
  }
}

void ChannelListener::Accept(int listener, bool is_unix) {
  Descriptor socket(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.valid()) {
    // Out of descriptors: the caller stays in the queue; do not spin over it.
    if (errno == EMFILE || errno == ENFILE) absl::SleepFor(absl::Milliseconds(10));
    return;
  }
  if (is_unix && !SameUser(socket.get())) return;
  if (guests_.size() >= kMaxGuests) guests_.pop_front();
  Guest& guest = guests_.emplace_back();
  guest.socket = std::move(socket);
  guest.is_unix = is_unix;
  guest.arrived = RealClock().Monotonic();
}

bool ChannelListener::Hear(Guest& guest) {
  if (guest.tls != nullptr) return ShakeHands(guest);
  uint32_t length = 0;
  while (true) {
    // Exactly one message: what follows belongs to the channel.
    size_t missing = sizeof(length) - std::min(guest.bytes.size(), sizeof(length));
    if (missing == 0) {
      std::memcpy(&length, guest.bytes.data(), sizeof(length));
      if (length > kMaxHelloBytes) return false;
      missing = sizeof(length) + length - guest.bytes.size();
      if (missing == 0) break;
    }
    char buffer[kMaxHelloBytes + sizeof(length)];
    const absl::Span<char> room = absl::MakeSpan(buffer, missing);
    const ssize_t got = guest.is_unix
                            ? ReceiveWithDescriptors(guest.socket.get(), room, guest.descriptors)
                            : recv(guest.socket.get(), room.data(), room.size(), MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    if (got == 0 || guest.descriptors.size() > kMaxDescriptors) return false;
    guest.bytes.append(buffer, static_cast<size_t>(got));
  }
  guest.bytes.erase(0, sizeof(length));
  return guest.challenge.empty() ? Challenge(guest) : Admit(guest);
}

bool ChannelListener::Challenge(Guest& guest) {
  absl::StatusOr<ChannelHello> hello = ChannelHello::Parse(guest.bytes);
  if (!hello.ok()) {
    // A stranger gets no answer.
    if (!absl::IsInvalidArgument(hello.status())) Refuse(guest, hello.status());
    return false;
  }
  if (!absl::StartsWith(hello->nonce, address_.nonce)) {
    Refuse(guest, absl::UnavailableError(
                      "the address belongs to a server that is gone; ask for the new one"));
    return false;
  }
  if ((hello->kind == ChannelHello::Kind::kSharedMemory) != guest.is_unix) return false;
  const bool asks_for_tls = hello->kind == ChannelHello::Kind::kTls;
  if (!guest.is_unix && asks_for_tls != (options_.security == ChannelSecurity::kTls)) {
    Refuse(guest, absl::FailedPreconditionError(
                      asks_for_tls ? "the client asks for TLS, and this server's data channel is "
                                     "plain; start the server with the cluster's certificates"
                                   : "this server's data channel is under TLS, and the client asks "
                                     "for a plain one; use the rpc Exchange, or the same release "
                                     "on both sides"));
    return false;
  }
  guest.hello = *std::move(hello);
  guest.hello_bytes = std::move(guest.bytes);
  guest.bytes.clear();
  guest.challenge = RandomBytes(kChallengeBytes);
  return Answer(guest.socket.get(), EncodeAnswer(absl::OkStatus(), guest.challenge)).ok();
}

bool ChannelListener::Admit(Guest& guest) {
  absl::Status status;
  const std::string secret = KeyedHash(address_.secret, guest.hello.nonce);
  if (!SameHash(guest.bytes, ChannelProof(secret, guest.hello_bytes, guest.challenge))) {
    status = absl::UnauthenticatedError(
        "the caller does not know the secret of this server's data channel; ask for it with "
        "OpenChannel");
  } else if (sinks_.admit != nullptr) {
    status = sinks_.admit();
  }
  if (status.ok()) status = guest.is_unix ? AdmitSharedMemory(guest) : AdmitStream(guest, secret);
  if (!status.ok()) Refuse(guest, status);
  return guest.tls != nullptr;
}

absl::Status ChannelListener::AdmitStream(Guest& guest, absl::string_view secret) {
  MUSTER_RETURN_IF_ERROR(Answer(guest.socket.get(), EncodeAnswer(absl::OkStatus())));
  if (guest.hello.kind == ChannelHello::Kind::kStream) {
    sinks_.stream(MakePlainChannelStream(std::move(guest.socket)));
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<TlsStream>> stream =
      TlsStream::Begin(std::move(guest.socket), TlsRole::kServer,
                       ChannelTlsKey(secret, guest.hello_bytes, guest.challenge));
  // The good verdict is out already, so a closed connection has to say the rest.
  if (stream.ok()) guest.tls = *std::move(stream);
  return absl::OkStatus();
}

bool ChannelListener::ShakeHands(Guest& guest) {
  const absl::StatusOr<short> events = guest.tls->ShakeHands();
  if (!events.ok()) return false;
  guest.awaited_events = *events;
  if (*events != 0) return true;
  sinks_.stream(MakeTlsChannelStream(std::move(guest.tls)));
  return false;
}

absl::Status ChannelListener::AdmitSharedMemory(Guest& guest) {
  const size_t expected = guest.hello.registered_bytes > 0 ? 3 : 2;
  if (guest.descriptors.size() != expected) {
    return absl::InvalidArgumentError(absl::StrCat(
        guest.descriptors.size(), " descriptors were handed over, expected ", expected));
  }
  if (guest.hello.arena_bytes > options_.max_arena_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("shared memory of ", guest.hello.arena_bytes,
                     " bytes per direction; this server takes at most ", options_.max_arena_bytes));
  }
  SharedLink link;
  link.direction = SharedSegment::Direction::kToClient;
  MUSTER_ASSIGN_OR_RETURN(
      link.segment, SharedSegment::Map(std::move(guest.descriptors[0]), guest.hello.arena_bytes));
  link.peer_bell = std::move(guest.descriptors[1]);
  MUSTER_RETURN_IF_ERROR(CheckBell(link.peer_bell.get()));
  if (guest.hello.registered_bytes > 0) {
    MUSTER_ASSIGN_OR_RETURN(link.peer_memory, PeerMemory::Map(std::move(guest.descriptors[2]),
                                                              guest.hello.registered_bytes));
  }
  link.own_bell = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!link.own_bell.valid()) return SystemError("eventfd");
  MUSTER_RETURN_IF_ERROR(SendDescriptors(guest.socket.get(), EncodeAnswer(absl::OkStatus()),
                                         {link.own_bell.get()}, Deadline::After(kAnswerPatience)));
  link.socket = std::move(guest.socket);
  sinks_.shared_memory(std::move(link));
  return absl::OkStatus();
}

void ChannelListener::Refuse(Guest& guest, const absl::Status& reason) {
  Answer(guest.socket.get(), EncodeAnswer(reason)).IgnoreError();
}

}  // namespace muster
