#include "client/doctor/reach_coordinator.h"

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/doctor/examination_caller.h"
#include "client/doctor/judge_daemon.h"
#include "client/terminal/format.h"
#include "common/base/clock.h"
#include "common/examination/clock_facts.h"
#include "common/transport/deadline.h"
#include "common/transport/sockets/host_of.h"
#include "common/transport/sockets/resolve_host.h"
#include "common/transport/sockets/sockets.h"
#include "proto/examination.pb.h"

namespace muster {
namespace {

constexpr absl::Duration kReachTimeout = absl::Seconds(4);

Finding Unreachable(std::string seen, std::string to_do) {
  return {.severity = Finding::Severity::kProblem,
          .where = kTheClient,
          .check = "coordinator",
          .seen = std::move(seen),
          .to_do = std::move(to_do)};
}

}  // namespace

bool ReachCoordinator(const std::string& address, const RpcCredentials& credentials,
                      Findings& findings) {
  const std::string host = HostOf(address);
  uint32_t port = 0;
  const size_t colon = address.rfind(':');
  if (host.empty() || colon == std::string::npos ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port == 0 || port > 0xFFFF) {
    findings.push_back(
        Unreachable(absl::StrCat("The coordinator's address \"", address, "\" is not HOST:PORT."),
                    "Correct --coordinator or the environment variable MUSTER_COORDINATOR."));
    return false;
  }
  if (const auto addresses = ResolveHost(host, static_cast<uint16_t>(port)); !addresses.ok()) {
    findings.push_back(Unreachable(absl::StrCat("The coordinator's host is not known here: ",
                                                addresses.status().message(), "."),
                                   "Correct --coordinator, or this machine's name service."));
    return false;
  }
  const auto connected =
      ConnectTcp(host, static_cast<uint16_t>(port), Deadline::After(kReachTimeout));
  if (!connected.ok()) {
    findings.push_back(Unreachable(
        absl::StrCat("Nothing takes connections at ", address, ": ", connected.status().message(),
                     "."),
        "Look whether muster-coordinator runs there (`muster up` starts one on this machine) and "
        "whether a firewall lets this machine in; otherwise correct --coordinator."));
    return false;
  }
  const RealClock clock;
  ExaminationCaller caller(address, credentials);
  const absl::StatusOr<int64_t> first = caller.ReadClock(kReachTimeout);
  if (absl::IsUnimplemented(first.status())) {
    findings.push_back(
        Unreachable(absl::StrCat("The coordinator at ", address,
                                 " is of a release that knows no examinations."),
                    "Install this release on all machines, and restart the coordinator first."));
    return false;
  }
  if (!first.ok()) {
    findings.push_back(Unreachable(
        absl::StrCat(address,
                     " takes connections, but no call succeeds: ", first.status().message(), "."),
        "If the cluster has certificates, give all of --tls-authority, --tls-certificate and "
        "--tls-key; if it has none, leave them out; if another program has the port, correct "
        "--coordinator."));
    return false;
  }
  v1::ClockFacts clocks;
  CompareClocks(
      clock, [&] { return caller.ReadClock(kReachTimeout); }, clocks);
  findings.push_back(
      {.where = kTheClient,
       .check = "coordinator",
       .seen = absl::StrCat("The coordinator at ", address, " answers in ",
                            FormatTime(static_cast<double>(2 * clocks.error_us()) / 1e6), ".")});
  JudgeClock(kTheClient, clocks, findings);
  return true;
}

}  // namespace muster
