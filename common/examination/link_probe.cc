#include "common/examination/link_probe.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/examination/fact_text.h"
#include "common/transport/keyed_hash.h"
#include "common/transport/sockets/blocking_frames.h"
#include "common/transport/sockets/socket_stream.h"
#include "common/transport/sockets/sockets.h"
#include "common/transport/system_error.h"
#include "proto/examination.pb.h"

namespace muster {
namespace {

constexpr int kRoundTrips = 20;
constexpr size_t kCarriedBytes = size_t{64} << 20;
constexpr size_t kPartBytes = size_t{256} << 10;
constexpr absl::Duration kCarryTime = absl::Milliseconds(250);
// Bytes that the kernels hold arrive after the time is over.
constexpr absl::Duration kArrivalTime = absl::Seconds(10);
constexpr absl::Duration kConnectTime = absl::Seconds(2);
constexpr absl::Duration kServeTime = absl::Seconds(30);
constexpr absl::Duration kAcceptAgain = absl::Milliseconds(20);
// More than the daemons that one examination sends here.
constexpr size_t kMostConnections = 32;

// Returns what shows that one knows the secret.
std::string ProofOf(absl::string_view secret) {
  return KeyedHash(secret, "muster measures a link");
}

bool MustWaitFor(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

absl::Status SendSome(int socket, absl::Span<const char> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      if (!MustWaitFor(errno)) return SystemError("send");
      MUSTER_RETURN_IF_ERROR(AwaitSocket(socket, POLLOUT, deadline));
      continue;
    }
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return absl::OkStatus();
}

// Returns the number of bytes received; 0: the other end has sent all.
absl::StatusOr<size_t> ReceiveSome(int socket, absl::Span<char> out, Deadline deadline) {
  while (true) {
    const ssize_t got = recv(socket, out.data(), out.size(), MSG_DONTWAIT);
    if (got >= 0) return static_cast<size_t>(got);
    if (!MustWaitFor(errno)) return SystemError("recv");
    MUSTER_RETURN_IF_ERROR(AwaitSocket(socket, POLLIN, deadline));
  }
}

absl::Status ReceiveWhole(int socket, absl::Span<char> out, Deadline deadline) {
  while (!out.empty()) {
    MUSTER_ASSIGN_OR_RETURN(const size_t got, ReceiveSome(socket, out, deadline));
    if (got == 0) return absl::UnavailableError("the other end has closed the connection");
    out.remove_prefix(got);
  }
  return absl::OkStatus();
}

absl::Status MeasureRoundTrips(int socket, Deadline deadline, v1::LinkFacts& facts) {
  const RealClock clock;
  absl::Duration sum, least = absl::InfiniteDuration();
  for (int i = 0; i < kRoundTrips; ++i) {
    char byte = 'm';
    const absl::Duration before = clock.Monotonic();
    MUSTER_RETURN_IF_ERROR(SendSome(socket, absl::MakeConstSpan(&byte, 1), deadline));
    MUSTER_RETURN_IF_ERROR(ReceiveWhole(socket, absl::MakeSpan(&byte, 1), deadline));
    const absl::Duration took = clock.Monotonic() - before;
    // The first byte also waits until the other end has taken the connection.
    if (i == 0) continue;
    sum += took;
    least = std::min(least, took);
  }
  // At least 1, for 0 stands for nothing measured.
  facts.set_least_round_trip_us(std::max<int64_t>(1, absl::ToInt64Microseconds(least)));
  facts.set_mean_round_trip_us(
      std::max<int64_t>(1, absl::ToInt64Microseconds(sum / (kRoundTrips - 1))));
  return absl::OkStatus();
}

absl::Status MeasureBandwidth(int socket, const Interrupt& interrupt, v1::LinkFacts& facts) {
  const RealClock clock;
  const Deadline deadline = Deadline::After(kArrivalTime, &interrupt);
  const std::vector<char> part(kPartBytes);
  const absl::Duration begun = clock.Monotonic();
  for (size_t sent = 0; sent < kCarriedBytes && clock.Monotonic() - begun < kCarryTime;
       sent += part.size()) {
    MUSTER_RETURN_IF_ERROR(SendSome(socket, part, deadline));
  }
  shutdown(socket, SHUT_WR);
  uint64_t arrived = 0;
  MUSTER_RETURN_IF_ERROR(ReceiveWhole(
      socket, absl::MakeSpan(reinterpret_cast<char*>(&arrived), sizeof(arrived)), deadline));
  facts.set_carried_bytes(arrived);
  facts.set_carry_us(std::max<int64_t>(1, absl::ToInt64Microseconds(clock.Monotonic() - begun)));
  return absl::OkStatus();
}

absl::Status Measure(const std::string& host, uint16_t port, absl::string_view secret,
                     const Interrupt& interrupt, v1::LinkFacts& facts) {
  MUSTER_ASSIGN_OR_RETURN(const Descriptor socket,
                          ConnectTcp(host, port, Deadline::After(kConnectTime, &interrupt)));
  const Deadline deadline = Deadline::After(kArrivalTime, &interrupt);
  const std::string proof = ProofOf(secret);
  MUSTER_RETURN_IF_ERROR(SendSome(socket.get(), absl::MakeConstSpan(proof), deadline));
  MUSTER_RETURN_IF_ERROR(MeasureRoundTrips(socket.get(), deadline, facts));
  return MeasureBandwidth(socket.get(), interrupt, facts);
}

}  // namespace

absl::Status LinkListener::Stop::status() const {
  return stopping ? absl::CancelledError("the examination is over") : absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LinkListener>> LinkListener::Create(
    const LinkListenerOptions& options) {
  const PortRange ports = {options.first_port, options.last_port};
  absl::StatusOr<TcpListener> listener = options.advertised_host.empty() || ports.first > 0
                                             ? ListenTcp(options.host, ports)
                                             : ListenTcpAt(options.host, 0);
  MUSTER_RETURN_IF_ERROR(listener.status());
  return std::unique_ptr<LinkListener>(
      new LinkListener(std::move(listener->socket), listener->port, options));
}

LinkListener::LinkListener(Descriptor socket, uint16_t port, const LinkListenerOptions& options)
    : socket_(std::move(socket)),
      port_(port),
      host_(options.advertised_host.empty() ? options.host : options.advertised_host),
      secret_(options.secret),
      thread_([this] { Accept(); }) {}

LinkListener::~LinkListener() {
  stop_.stopping = true;
  thread_.join();
  for (Connection& connection : connections_) connection.thread.join();
}

void LinkListener::Accept() {
  while (
      AwaitSocket(socket_.get(), POLLIN, Deadline::After(absl::InfiniteDuration(), &stop_)).ok()) {
    Descriptor taken(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    connections_.remove_if([](Connection& connection) {
      if (!connection.done) return false;
      connection.thread.join();
      return true;
    });
    // Without a free descriptor the newcomer waits, and so does this thread.
    if (!taken.valid()) absl::SleepFor(kAcceptAgain);
    if (!taken.valid() || connections_.size() == kMostConnections) continue;
    SetTcpOptions(taken.get());
    Connection& connection = connections_.emplace_back();
    connection.thread = std::thread([this, &connection, taken = std::move(taken)] {
      // The one that measures says what went wrong.
      Serve(taken.get()).IgnoreError();
      connection.done = true;
    });
  }
}

absl::Status LinkListener::Serve(int socket) const {
  const Deadline deadline = Deadline::After(kServeTime, &stop_);
  const std::string proof = ProofOf(secret_);
  std::string told(proof.size(), '\0');
  MUSTER_RETURN_IF_ERROR(ReceiveWhole(socket, absl::MakeSpan(told), deadline));
  if (!SameHash(told, proof)) return absl::PermissionDeniedError("another secret");
  for (int i = 0; i < kRoundTrips; ++i) {
    char byte = 0;
    MUSTER_RETURN_IF_ERROR(ReceiveWhole(socket, absl::MakeSpan(&byte, 1), deadline));
    MUSTER_RETURN_IF_ERROR(SendSome(socket, absl::MakeConstSpan(&byte, 1), deadline));
  }
  std::vector<char> part(kPartBytes);
  uint64_t arrived = 0;
  while (arrived < 2 * kCarriedBytes) {
    MUSTER_ASSIGN_OR_RETURN(const size_t got, ReceiveSome(socket, absl::MakeSpan(part), deadline));
    if (got == 0) break;
    arrived += got;
  }
  return SendSome(socket,
                  absl::MakeConstSpan(reinterpret_cast<const char*>(&arrived), sizeof(arrived)),
                  deadline);
}

void MeasureLink(const std::string& host, uint16_t port, absl::string_view secret,
                 const Interrupt& interrupt, v1::LinkFacts& facts) {
  facts.set_probe_address(FactText(absl::StrCat(host, ":", port)));
  const absl::Status status = Measure(host, port, secret, interrupt, facts);
  if (!status.ok()) facts.set_probe_error(FactText(status.message()));
}

}  // namespace muster
