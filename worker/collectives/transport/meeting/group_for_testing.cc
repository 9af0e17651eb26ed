#include "worker/collectives/transport/meeting/group_for_testing.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(30);

}  // namespace

const char* Name(Wiring wiring) {
  switch (wiring) {
    case Wiring::kSharedMemory:
      return "SharedMemory";
    case Wiring::kTcp:
      return "Tcp";
    case Wiring::kTls:
      return "Tls";
    case Wiring::kTcp3:
      return "Tcp3";
    case Wiring::kTls2:
      return "Tls2";
    case Wiring::kMixed:
      return "Mixed";
  }
  return "";
}

HostEndpointOptions OptionsFor(Wiring wiring, int rank) {
  HostEndpointOptions options;
  options.shared_memory =
      wiring == Wiring::kSharedMemory || (wiring == Wiring::kMixed && rank % 2 == 0);
  options.tls = wiring == Wiring::kTls || wiring == Wiring::kTls2;
  if (wiring == Wiring::kTcp3) options.connections = 3;
  if (wiring == Wiring::kTls2) options.connections = 2;
  return options;
}

GroupForTesting::GroupForTesting(Wiring wiring, int size) {
  for (int rank = 0; rank < size; ++rank) {
    points_.push_back(MeetingPoint::Create(OptionsFor(wiring, rank)).value());
  }
}

CollectiveEndpoint::Group GroupForTesting::group(int rank) const {
  CollectiveEndpoint::Group group;
  group.name = "test";
  group.round = round_;
  group.secret = "the group's secret";
  group.rank = rank;
  for (const auto& point : points_) group.addresses.push_back(point->address());
  return group;
}

std::vector<absl::StatusOr<std::unique_ptr<HostTransport>>> GroupForTesting::Meet(
    absl::Duration timeout) {
  ++round_;
  const int size = static_cast<int>(points_.size());
  std::vector<absl::StatusOr<std::unique_ptr<HostTransport>>> transports(size);
  InParallel(size, [&](int rank) { transports[rank] = points_[rank]->Meet(group(rank), timeout); });
  return transports;
}

void GroupForTesting::Run(const std::function<void(Transport&)>& body) {
  auto transports = Meet();
  for (const auto& transport : transports) ASSERT_TRUE(transport.ok()) << transport.status();
  InParallel(static_cast<int>(transports.size()), [&](int rank) {
    body(**transports[rank]);
    // A rank that is done leaves, whatever the others still do.
    transports[rank]->reset();
  });
}

void InParallel(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&body, i] { body(i); });
  for (std::thread& thread : threads) thread.join();
}

absl::Status Exchange(Transport& transport, int to, absl::Span<const std::byte> bytes, int from,
                      absl::Span<std::byte> out) {
  const absl::Time deadline = absl::Now() + kPatience;
  while (true) {
    const uint64_t ticket = transport.Ticket();
    std::vector<PipeInterest> interests;
    if (!bytes.empty()) {
      MUSTER_ASSIGN_OR_RETURN(const size_t written, transport.pipe(to).Write(bytes));
      bytes.remove_prefix(written);
      if (bytes.empty()) {
        MUSTER_RETURN_IF_ERROR(transport.pipe(to).Flush());
      } else {
        interests.push_back({to, /*readable=*/false, /*writable=*/true});
      }
    }
    if (!out.empty()) {
      MUSTER_ASSIGN_OR_RETURN(const size_t read, transport.pipe(from).Read(out));
      out.remove_prefix(read);
      if (!out.empty()) interests.push_back({from, /*readable=*/true, /*writable=*/false});
    }
    if (interests.empty()) return absl::OkStatus();
    MUSTER_RETURN_IF_ERROR(transport.health());
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          absl::StrCat(bytes.size(), " bytes unwritten, ", out.size(), " unread"));
    }
    transport.Wait(ticket, interests, left);
  }
}

absl::Status WriteAll(Transport& transport, int peer, absl::Span<const std::byte> bytes) {
  return Exchange(transport, peer, bytes, peer, {});
}

absl::Status ReadAll(Transport& transport, int peer, absl::Span<std::byte> out) {
  return Exchange(transport, peer, {}, peer, out);
}

absl::Status AwaitFailure(Transport& transport) {
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  while (transport.health().ok() && absl::Now() < deadline) {
    const uint64_t ticket = transport.Ticket();
    if (transport.health().ok()) transport.Wait(ticket, {}, deadline - absl::Now());
  }
  return transport.health();
}

}  // namespace muster
