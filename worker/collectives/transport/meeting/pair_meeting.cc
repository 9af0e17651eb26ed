#include "worker/collectives/transport/meeting/pair_meeting.h"

#include <cstring>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/transport/keyed_hash.h"
#include "common/transport/shared_memory/shared_region.h"
#include "common/transport/sockets/blocking_frames.h"
#include "common/transport/sockets/socket_stream.h"
#include "common/transport/sockets/sockets.h"
#include "common/transport/tls/tls_stream.h"
#include "worker/collectives/transport/meeting/handshake.h"
#include "worker/collectives/transport/pipes/striped_stream.h"

namespace muster {
namespace {

// Last message of the hand-over, both ways.
constexpr char kShared[] = "shared";
constexpr char kNotShared[] = "not shared";
// Time limit for a caller that has proved that it knows the secret and then says nothing. The rank
// itself does not call again, so that a machine that stands still for a while must not cost the
// rank its place.
constexpr absl::Duration kAnswerPatience = absl::Seconds(20);

// The purpose of a connection.
struct Purpose {
  ConnectionKind kind = ConnectionKind::kControl;
  uint32_t lane = 0;
};

Hello MakeHello(const MeetingGroup& group, int from, int to, Purpose purpose) {
  Hello hello;
  hello.group_key = group.key;
  hello.endpoint_nonce = group.addresses[to].nonce;
  hello.nonce = RandomBytes(16);
  hello.kind = purpose.kind;
  hello.from = static_cast<uint32_t>(from);
  hello.to = static_cast<uint32_t>(to);
  hello.size = static_cast<uint32_t>(group.addresses.size());
  hello.tls = group.tls;
  hello.connections = static_cast<uint32_t>(group.connections);
  hello.lane = purpose.lane;
  return hello;
}

// Returns true if no other way can succeed.
bool IsFinal(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnauthenticated ||
         status.code() == absl::StatusCode::kFailedPrecondition ||
         status.code() == absl::StatusCode::kAborted;
}

// The hand-over, after the handshake: the caller sends its doorbell and the rings; the called rank
// maps them, writes the token into the rings and sends its own doorbell; the caller maps that,
// compares, and clears the token.
absl::StatusOr<PeerLink> OfferMemory(Descriptor socket, const std::string& token,
                                     const Doorbell& bell, Deadline deadline) {
  MUSTER_ASSIGN_OR_RETURN(SharedRegion rings, SharedRegion::Create(kPairBytes));
  const int offered[] = {bell.page_descriptor(), bell.event_descriptor(), rings.descriptor()};
  MUSTER_RETURN_IF_ERROR(SendDescriptors(socket.get(), kShared, offered, deadline));
  MUSTER_ASSIGN_OR_RETURN(DescriptorFrame reply, ReceiveDescriptors(socket.get(), deadline));
  if (reply.bytes != kShared || reply.descriptors.size() != 2) {
    return absl::UnavailableError("it cannot map the memory handed over");
  }
  absl::StatusOr<Doorbell> its_bell =
      Doorbell::Map(std::move(reply.descriptors[0]), std::move(reply.descriptors[1]));
  const bool same = its_bell.ok() && std::memcmp(rings.data(), token.data(), token.size()) == 0;
  std::memset(rings.data(), 0, token.size());
  MUSTER_RETURN_IF_ERROR(SendFrame(socket.get(), same ? kShared : kNotShared, deadline));
  if (!same) return absl::UnavailableError("the memory handed over is not shared");
  rings.CloseDescriptor();
  PeerLink link;
  link.shared = std::make_unique<SharedPair>(
      SharedPair{std::move(rings), /*lower=*/true, *std::move(its_bell)});
  link.control = std::make_unique<ControlStream>(std::move(socket));
  return link;
}

absl::StatusOr<PeerLink> AcceptMemory(Descriptor socket, const std::string& token,
                                      const Doorbell& bell, Deadline deadline) {
  MUSTER_ASSIGN_OR_RETURN(DescriptorFrame offer, ReceiveDescriptors(socket.get(), deadline));
  absl::StatusOr<Doorbell> its_bell = absl::UnavailableError("no memory was handed over");
  absl::StatusOr<SharedRegion> rings = its_bell.status();
  if (offer.bytes == kShared && offer.descriptors.size() == 3) {
    its_bell = Doorbell::Map(std::move(offer.descriptors[0]), std::move(offer.descriptors[1]));
    rings = SharedRegion::Map(std::move(offer.descriptors[2]), kPairBytes);
  }
  if (!its_bell.ok() || !rings.ok()) {
    MUSTER_RETURN_IF_ERROR(SendFrame(socket.get(), kNotShared, deadline));
    // Any failure ends this attempt alone: the caller is about to try TCP.
    const absl::Status reason = its_bell.ok() ? rings.status() : its_bell.status();
    return absl::UnavailableError(reason.message());
  }
  std::memcpy(rings->data(), token.data(), token.size());
  const int offered[] = {bell.page_descriptor(), bell.event_descriptor()};
  MUSTER_RETURN_IF_ERROR(SendDescriptors(socket.get(), kShared, offered, deadline));
  MUSTER_ASSIGN_OR_RETURN(const std::string verdict, ReceiveFrame(socket.get(), deadline));
  if (verdict != kShared) return absl::UnavailableError("the memory handed over is not shared");
  rings->CloseDescriptor();
  PeerLink link;
  link.shared = std::make_unique<SharedPair>(
      SharedPair{*std::move(rings), /*lower=*/false, *std::move(its_bell)});
  link.control = std::make_unique<ControlStream>(std::move(socket));
  return link;
}

absl::StatusOr<std::unique_ptr<ByteStream>> MakeStream(const MeetingGroup& group,
                                                       ConnectionKind kind, Descriptor socket,
                                                       TlsRole role, const std::string& key,
                                                       Deadline deadline) {
  if (kind == ConnectionKind::kControl) EndWhenUnanswered(socket.get());
  if (kind == ConnectionKind::kData) SetLocalTcpOptions(socket.get());
  if (group.tls) return TlsStream::Create(std::move(socket), role, key, deadline);
  return std::make_unique<SocketStream>(std::move(socket));
}

// Returns one connection for each lane, in their order.
using DataConnections = std::vector<std::unique_ptr<ByteStream>>;

std::unique_ptr<ByteStream> OneStream(DataConnections connections) {
  if (connections.size() == 1) return std::move(connections[0]);
  return std::make_unique<StripedStream>(std::move(connections));
}

absl::StatusOr<PeerLink> CallUnix(const MeetingGroup& group, int peer, const Doorbell& bell,
                                  Deadline deadline) {
  MUSTER_ASSIGN_OR_RETURN(Descriptor socket,
                          ConnectUnix(group.addresses[peer].unix_name, deadline));
  if (!SameUser(socket.get())) {
    return absl::UnavailableError("its unix socket belongs to another user");
  }
  MUSTER_ASSIGN_OR_RETURN(
      const std::string key,
      Call(socket.get(), MakeHello(group, group.rank, peer, {.kind = ConnectionKind::kControl}),
           group.secret, deadline));
  return OfferMemory(std::move(socket), key, bell, deadline);
}

absl::StatusOr<std::unique_ptr<ByteStream>> Greet(const MeetingGroup& group, int peer,
                                                  Purpose purpose, Descriptor socket,
                                                  Deadline deadline) {
  MUSTER_ASSIGN_OR_RETURN(
      const std::string key,
      Call(socket.get(), MakeHello(group, group.rank, peer, purpose), group.secret, deadline));
  return MakeStream(group, purpose.kind, std::move(socket), TlsRole::kClient, key, deadline);
}

absl::StatusOr<std::unique_ptr<ByteStream>> CallTcp(const MeetingGroup& group, int peer,
                                                    Purpose purpose, Deadline deadline) {
  const EndpointAddress& address = group.addresses[peer];
  MUSTER_ASSIGN_OR_RETURN(Descriptor socket, ConnectTcp(address.host, address.port, deadline));
  absl::StatusOr<std::unique_ptr<ByteStream>> stream =
      Greet(group, peer, purpose, std::move(socket), deadline);
  if (stream.ok()) return stream;
  return absl::Status(
      stream.status().code(),
      absl::StrCat("called at ", address.host, ":", address.port, ": ", stream.status().message()));
}

absl::StatusOr<PeerLink> CallPeer(const MeetingGroup& group, int peer, const Doorbell& bell,
                                  Deadline deadline) {
  if (group.shared_memory && !group.addresses[peer].unix_name.empty()) {
    absl::StatusOr<PeerLink> link = CallUnix(group, peer, bell, deadline);
    if (link.ok() || IsFinal(link.status()) || deadline.passed()) return link;
  }
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<ByteStream> control,
                          CallTcp(group, peer, {.kind = ConnectionKind::kControl}, deadline));
  PeerLink link;
  link.control = std::make_unique<ControlStream>(std::move(control));
  DataConnections data;
  for (uint32_t lane = 0; lane < static_cast<uint32_t>(group.connections); ++lane) {
    MUSTER_ASSIGN_OR_RETURN(
        std::unique_ptr<ByteStream> connection,
        CallTcp(group, peer, {.kind = ConnectionKind::kData, .lane = lane}, deadline));
    data.push_back(std::move(connection));
  }
  link.data = OneStream(std::move(data));
  return link;
}

// Returns true if the rank may come yet after a call that failed with `status`: anybody may call.
bool MayComeYet(const absl::Status& status) {
  return absl::IsUnauthenticated(status) || absl::IsUnavailable(status);
}

struct Answered {
  Descriptor socket;
  std::string key;
  bool unix_socket = false;
};

// `seen` are the nonces of the proven hellos of this meeting. Each call has a nonce of its own: a
// hello that comes again was recorded by somebody.
absl::StatusOr<Answered> AnswerPeer(const MeetingGroup& group, int peer, PeerListener& listener,
                                    Purpose purpose, std::set<std::string>& seen,
                                    Deadline deadline) {
  const Hello expected = MakeHello(group, peer, group.rank, purpose);
  MUSTER_ASSIGN_OR_RETURN(PeerListener::Caller caller, listener.Take(expected, deadline));
  if (ProvesSecret(caller.hello, group.secret) && !seen.insert(caller.hello.nonce).second) {
    const absl::Status replayed =
        absl::UnauthenticatedError("it repeats a hello of this meeting; each call needs its own");
    Refuse(caller.socket.get(), replayed);
    return replayed;
  }
  Answered answered;
  MUSTER_ASSIGN_OR_RETURN(answered.key, Answer(caller.socket.get(), caller.hello, expected,
                                               group.secret, deadline.Sooner(kAnswerPatience)));
  answered.socket = std::move(caller.socket);
  answered.unix_socket = caller.unix_socket;
  return answered;
}

absl::StatusOr<std::unique_ptr<ByteStream>> AwaitData(const MeetingGroup& group, int peer,
                                                      PeerListener& listener, uint32_t lane,
                                                      std::set<std::string>& seen,
                                                      Deadline deadline) {
  absl::StatusOr<Answered> data = absl::UnavailableError("it has not called");
  do {
    // The rank calls once and keeps its control connection, whoever else calls for data.
    data = AnswerPeer(group, peer, listener, {.kind = ConnectionKind::kData, .lane = lane}, seen,
                      deadline);
  } while (MayComeYet(data.status()) && deadline.status().ok());
  MUSTER_RETURN_IF_ERROR(data.status());
  return MakeStream(group, ConnectionKind::kData, std::move(data->socket), TlsRole::kServer,
                    data->key, deadline);
}

absl::StatusOr<PeerLink> AwaitPeer(const MeetingGroup& group, int peer, PeerListener& listener,
                                   const Doorbell& bell, std::set<std::string>& seen,
                                   Deadline deadline) {
  MUSTER_ASSIGN_OR_RETURN(
      Answered answered,
      AnswerPeer(group, peer, listener, {.kind = ConnectionKind::kControl}, seen, deadline));
  if (answered.unix_socket) {
    return AcceptMemory(std::move(answered.socket), answered.key, bell, deadline);
  }
  PeerLink link;
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<ByteStream> control,
                          MakeStream(group, ConnectionKind::kControl, std::move(answered.socket),
                                     TlsRole::kServer, answered.key, deadline));
  link.control = std::make_unique<ControlStream>(std::move(control));
  DataConnections data;
  for (uint32_t lane = 0; lane < static_cast<uint32_t>(group.connections); ++lane) {
    MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<ByteStream> connection,
                            AwaitData(group, peer, listener, lane, seen, deadline));
    data.push_back(std::move(connection));
  }
  link.data = OneStream(std::move(data));
  return link;
}

}  // namespace

absl::StatusOr<PeerLink> MeetPeer(const MeetingGroup& group, int peer, PeerListener& listener,
                                  const Doorbell& bell, Deadline deadline) {
  if (group.rank < peer) return CallPeer(group, peer, bell, deadline);
  absl::Status impostor;
  std::set<std::string> seen;
  while (true) {
    absl::StatusOr<PeerLink> link = AwaitPeer(group, peer, listener, bell, seen, deadline);
    if (link.ok()) return link;
    // Anybody who knows the address can call without the secret. Such a call neither ends nor
    // shortens the meeting: it only makes the final error say more than that the rank has not come.
    if (absl::IsUnauthenticated(link.status())) impostor = link.status();
    if (IsFinal(link.status()) && !MayComeYet(link.status())) return link;
    // A caller whose attempt failed calls again in another way.
    if (!deadline.status().ok()) return impostor.ok() ? link.status() : impostor;
  }
}

}  // namespace muster
