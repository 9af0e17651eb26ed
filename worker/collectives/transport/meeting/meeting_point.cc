#include "worker/collectives/transport/meeting/meeting_point.h"

#include <cstdint>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/transport/keyed_hash.h"
#include "common/transport/wire.h"
#include "worker/collectives/transport/meeting/handshake.h"
#include "worker/collectives/transport/meeting/pair_meeting.h"
#include "worker/collectives/transport/mesh/host_transport.h"

namespace muster {
namespace {

constexpr size_t kKeyBytes = 16;

// Returns how much a failure says: a wrong secret most, then a disagreement, then absence.
int Weight(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kUnauthenticated:
      return 3;
    case absl::StatusCode::kFailedPrecondition:
      return 2;
    default:
      return 1;
  }
}

absl::Status Combine(const MeetingGroup& group, absl::Span<const absl::Status> failures,
                     absl::Duration timeout) {
  int weight = 0;
  for (const absl::Status& failure : failures) weight = std::max(weight, Weight(failure));
  if (weight == 0) return absl::OkStatus();
  absl::StatusCode code = absl::StatusCode::kUnavailable;
  std::string text;
  for (size_t peer = 0; peer < failures.size(); ++peer) {
    if (Weight(failures[peer]) != weight) continue;
    code = failures[peer].code();
    absl::StrAppend(&text, text.empty() ? "" : "; ", group.names[peer], ": ",
                    failures[peer].message());
  }
  return absl::Status(
      code, absl::StrCat("ranks of the group have not met within ",
                         absl::FormatDuration(
                             absl::Trunc(timeout + absl::Milliseconds(1), absl::Milliseconds(1))),
                         ": ", text));
}

// Returns the members of a sub-group, from what this rank knows of the group.
absl::StatusOr<MeetingGroup> Derive(const MeetingGroup& parent, absl::Span<const int> ranks,
                                    uint64_t id) {
  MeetingGroup group;
  WireWriter text;
  text.Text(parent.key);
  text.Number(id);
  group.key = KeyedHash(parent.secret, "subgroup key" + text.bytes()).substr(0, kKeyBytes);
  group.secret = KeyedHash(parent.secret, "subgroup secret" + text.bytes());
  group.rank = -1;
  group.shared_memory = parent.shared_memory;
  group.tls = parent.tls;
  group.connections = parent.connections;
  for (const int rank : ranks) {
    if (rank < 0 || rank >= static_cast<int>(parent.addresses.size())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "rank ", rank, " of a sub-group, expected 0 to ", parent.addresses.size() - 1));
    }
    if (rank == parent.rank) group.rank = static_cast<int>(group.addresses.size());
    group.addresses.push_back(parent.addresses[rank]);
    group.names.push_back(parent.names[rank]);
  }
  if (group.rank < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", parent.rank, " is not in the sub-group that it makes"));
  }
  return group;
}

absl::StatusOr<std::unique_ptr<HostTransport>> MeetGroup(const MeetingGroup& group,
                                                         std::shared_ptr<PeerListener> listener,
                                                         Deadline deadline) {
  const absl::Duration timeout = deadline.left();
  const int size = static_cast<int>(group.addresses.size());
  MUSTER_ASSIGN_OR_RETURN(Doorbell bell, Doorbell::Create());
  HostTransport::Options options;
  options.rank = group.rank;
  options.names = group.names;
  options.links.resize(size);
  // Each pair has a thread, so that a missing rank holds up only its own pair.
  std::vector<absl::Status> failures(size);
  std::vector<std::thread> threads;
  for (int peer = 0; peer < size; ++peer) {
    if (peer == group.rank) continue;
    threads.emplace_back([&group, &listener, &bell, &options, &failures, peer, deadline] {
      absl::StatusOr<PeerLink> link = MeetPeer(group, peer, *listener, bell, deadline);
      failures[peer] = link.status();
      if (link.ok()) options.links[peer] = *std::move(link);
    });
  }
  for (std::thread& thread : threads) thread.join();
  listener->Close(group.key);
  MUSTER_RETURN_IF_ERROR(deadline.interrupted());
  MUSTER_RETURN_IF_ERROR(Combine(group, failures, timeout));
  for (int peer = 0; peer < size; ++peer) {
    if (peer == group.rank) continue;
    // Ranks of one machine share its processors over TCP, too.
    const bool local = options.links[peer].shared != nullptr ||
                       group.addresses[peer].host == group.addresses[group.rank].host;
    options.local_ranks += local ? 1 : 0;
  }
  options.make_subgroup = [group, listener](
                              absl::Span<const int> ranks, uint64_t id,
                              Deadline limit) -> absl::StatusOr<std::unique_ptr<Transport>> {
    MUSTER_ASSIGN_OR_RETURN(const MeetingGroup subgroup, Derive(group, ranks, id));
    return MeetGroup(subgroup, listener, limit);
  };
  return HostTransport::Create(std::move(bell), std::move(options), deadline);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MeetingPoint>> MeetingPoint::Create(
    const HostEndpointOptions& options) {
  if (options.connections < 1 || options.connections > kMaxDataConnections) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.connections, " data connections per pair of ranks, expected 1 to ",
                     kMaxDataConnections));
  }
  PeerListenerOptions listening;
  listening.host = options.host;
  listening.ports = {.first = options.first_port, .last = options.last_port};
  listening.advertised_host = options.advertised_host;
  listening.unix_socket = options.shared_memory;
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<PeerListener> listener, PeerListener::Create(listening));
  return std::unique_ptr<MeetingPoint>(new MeetingPoint(options, std::move(listener)));
}

absl::StatusOr<std::unique_ptr<HostTransport>> MeetingPoint::Meet(
    const CollectiveEndpoint::Group& group, absl::Duration timeout) {
  const int size = static_cast<int>(group.addresses.size());
  if (group.rank < 0 || group.rank >= size ||
      (!group.names.empty() && group.names.size() != group.addresses.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("group '", group.name, "': rank ", group.rank, " of ", size, " addresses and ",
                     group.names.size(),
                     " names; expected a rank below the number of addresses, "
                     "and as many names or none"));
  }
  MeetingGroup meeting;
  WireWriter key;
  key.Number(group.round);
  key.Number(uint64_t{0});
  meeting.key = key.bytes();
  meeting.secret = group.secret;
  meeting.rank = group.rank;
  meeting.shared_memory = options_.shared_memory;
  meeting.tls = options_.tls;
  meeting.connections = options_.connections;
  for (int rank = 0; rank < size; ++rank) {
    MUSTER_ASSIGN_OR_RETURN(EndpointAddress address, EndpointAddress::Parse(group.addresses[rank]));
    meeting.names.push_back(
        absl::StrCat(group.names.empty() ? absl::StrCat("rank ", rank) : group.names[rank],
                     " (pid ", address.pid, ")"));
    meeting.addresses.push_back(std::move(address));
  }
  return MeetGroup(meeting, listener_, Deadline::After(timeout));
}

}  // namespace muster
