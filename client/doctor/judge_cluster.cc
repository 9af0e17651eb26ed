#include "client/doctor/judge_cluster.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/doctor/judge_daemon.h"
#include "client/terminal/format.h"
#include "common/text/format_bytes.h"

namespace muster {
namespace {

using Severity = Finding::Severity;

constexpr double kSlowLink = 50e6;
// Part of the median below which a link is slow, and multiple above which it is far.
constexpr double kMuchSlower = 0.2;
constexpr double kMuchFarther = 10;
constexpr uint64_t kLongRoundTripUs = 20'000;
// Round trips on one machine differ by scheduling alone.
constexpr uint64_t kShortRoundTripUs = 2'000;
constexpr size_t kMostNamed = 3;

double BytesPerSecond(const v1::LinkFacts& link) {
  if (link.carry_us() == 0) return 0;
  return static_cast<double>(link.carried_bytes()) * 1e6 / static_cast<double>(link.carry_us());
}

double MedianOf(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Returns the first few, and how many others there are.
std::string JoinSome(const std::vector<std::string>& all) {
  const size_t shown = std::min(all.size(), kMostNamed);
  std::string text = absl::StrJoin(all.begin(), all.begin() + shown, ", ");
  if (all.size() > shown) absl::StrAppend(&text, " and ", all.size() - shown, " more");
  return text;
}

const v1::ExaminedDaemon* Find(const ExaminedCluster& cluster, const std::string& id) {
  for (const v1::ExaminedDaemon& daemon : cluster.daemons) {
    if (daemon.id() == id) return &daemon;
  }
  return nullptr;
}

bool IsServer(const ExaminedCluster& cluster, const std::string& id) {
  const v1::ExaminedDaemon* const daemon = Find(cluster, id);
  return daemon != nullptr && daemon->kind() == v1::ExaminedDaemon::SERVER;
}

// A way that cannot be used.
struct BrokenLink {
  std::string from;
  std::string to;
  std::string error;
};

// Adds a finding for each daemon that reaches none of those it was to reach, and for each other
// one that somebody does not reach.
void AddBroken(const ExaminedCluster& cluster, const std::vector<BrokenLink>& broken,
               const Finding& prototype, const std::string& advice_from,
               const std::string& advice_to, Findings& findings) {
  std::map<std::string, std::vector<const BrokenLink*>> by_source, by_target;
  for (const BrokenLink& link : broken) by_source[link.from].push_back(&link);
  for (const auto& [from, links] : by_source) {
    const size_t measured = cluster.reports.at(from).links_size();
    if (links.size() < 2 || links.size() < measured) {
      for (const BrokenLink* link : links) by_target[link->to].push_back(link);
      continue;
    }
    Finding finding = prototype;
    finding.where = NameOfDaemon(from);
    finding.seen = absl::StrCat("It reaches none of the ", links.size(),
                                " daemons that it called: ", links[0]->error, ".");
    finding.to_do = advice_from;
    findings.push_back(std::move(finding));
  }
  for (const auto& [to, links] : by_target) {
    std::vector<std::string> sources;
    for (const BrokenLink* link : links) sources.push_back(link->from);
    Finding finding = prototype;
    finding.where = NameOfDaemon(to);
    finding.seen = absl::StrCat(JoinSome(sources), links.size() == 1 ? " does" : " do",
                                " not reach it: ", links[0]->error, ".");
    finding.to_do = advice_to;
    findings.push_back(std::move(finding));
  }
}

// Says how fast a daemon's links are, and which are far slower than the cluster's others.
void AddSpeed(const std::string& from, const v1::DaemonReport& report, double median_rate,
              double median_us, Findings& findings) {
  std::vector<std::string> slow;
  size_t measured = 0;
  double least_rate = 0;
  uint64_t longest_us = 0;
  for (const v1::LinkFacts& link : report.links()) {
    if (link.carry_us() == 0) continue;
    const double rate = BytesPerSecond(link);
    const uint64_t us = link.least_round_trip_us();
    const bool is_slow = rate < kSlowLink || rate < kMuchSlower * median_rate;
    const bool is_far =
        us > kLongRoundTripUs ||
        (us > kShortRoundTripUs && static_cast<double>(us) > kMuchFarther * median_us);
    least_rate = measured == 0 ? rate : std::min(least_rate, rate);
    longest_us = std::max(longest_us, us);
    ++measured;
    if (is_slow || is_far) {
      slow.push_back(absl::StrCat(link.to(), " (", FormatBytes(rate), "/s, round trip ",
                                  FormatTime(static_cast<double>(us) / 1e6), ")"));
    }
  }
  if (measured == 0) return;
  Finding finding = {.where = NameOfDaemon(from), .check = "link speed"};
  finding.seen = absl::StrCat("The slowest of its ", measured, " measured links carries ",
                              FormatBytes(least_rate), "/s; the longest round trip takes ",
                              FormatTime(static_cast<double>(longest_us) / 1e6), ".");
  if (!slow.empty()) {
    finding.severity = Severity::kWarning;
    finding.seen = absl::StrCat("Slow or far: ", JoinSome(slow), "; the cluster's median is ",
                                FormatBytes(median_rate), "/s.");
    finding.to_do =
        "Look at the network between these machines (link speed, errors, other traffic). Where it "
        "limits each connection, --collectives-connections helps. Running jobs also slow a "
        "measurement down.";
  }
  findings.push_back(std::move(finding));
}

}  // namespace

void ExaminedCluster::Add(const v1::ExaminationUpdate& update) {
  for (const v1::ExaminedDaemon& daemon : update.daemons()) daemons.push_back(daemon);
  if (update.has_report()) reports[update.report().id()].MergeFrom(update.report());
  if (update.has_last()) last = update.last();
}

std::string NameOfDaemon(const std::string& id) { return id.empty() ? kTheCoordinator : id; }

void JudgePresence(const ExaminedCluster& cluster, Findings& findings) {
  size_t workers = 0;
  for (const v1::ExaminedDaemon& daemon : cluster.daemons) {
    if (daemon.live() && daemon.kind() == v1::ExaminedDaemon::WORKER) ++workers;
    if (daemon.live()) continue;
    findings.push_back(
        {.severity = Severity::kWarning,
         .where = NameOfDaemon(daemon.id()),
         .check = "presence",
         .seen = absl::StrCat("It was a member of the cluster, at ", daemon.address(),
                              ", and no longer calls the coordinator."),
         .to_do = "Look whether its process runs and what it logs; if you have taken it away, the "
                  "coordinator forgets it within an hour."});
  }
  for (const v1::ExaminationUpdate::Absence& absence : cluster.last.absent()) {
    findings.push_back(
        {.severity = Severity::kProblem,
         .where = NameOfDaemon(absence.id()),
         .check = "presence",
         .seen = absl::StrCat("It did not report all that was asked: ", absence.reason(), "."),
         .to_do = "Look at its log and at its machine's load and disks, and examine again. Daemons "
                  "of releases before this command never report."});
  }
  if (workers == 0) {
    findings.push_back({.severity = Severity::kWarning,
                        .where = kTheCoordinator,
                        .check = "workers",
                        .seen = "No worker is a member of the cluster, so no job can run.",
                        .to_do = "Start muster-worker with --coordinator and this coordinator's "
                                 "address; if it runs, its log says why it does not join."});
  }
  if (cluster.last.lost_reports() > 0) {
    findings.push_back({.severity = Severity::kWarning,
                        .where = kTheClient,
                        .check = "reports",
                        .seen = absl::StrCat(cluster.last.lost_reports(),
                                             " reports came faster than this client took them."),
                        .to_do = "Examine again from a machine nearer to the coordinator."});
  }
}

void JudgePromisedMemory(const ExaminedCluster& cluster, Findings& findings) {
  struct Machine {
    std::vector<std::string> daemons;
    uint64_t promised = 0;
    uint64_t bytes = 0;
  };
  std::map<std::string, Machine> machines;
  for (const v1::ExaminedDaemon& daemon : cluster.daemons) {
    const auto report = cluster.reports.find(daemon.id());
    if (report == cluster.reports.end() || daemon.memory_bytes() == 0) continue;
    const v1::MachineFacts& facts = report->second.machine();
    if (facts.boot_id().empty() || facts.machine_memory_bytes() == 0) continue;
    Machine& machine = machines[facts.boot_id()];
    machine.daemons.push_back(daemon.id());
    machine.promised += daemon.memory_bytes();
    machine.bytes = facts.machine_memory_bytes();
  }
  for (const auto& [boot, machine] : machines) {
    if (machine.daemons.size() < 2) continue;
    Finding finding = {.where = machine.daemons[0], .check = "promised memory"};
    finding.seen =
        absl::StrCat("The ", machine.daemons.size(), " daemons of this machine (",
                     JoinSome(machine.daemons), ") have promised jobs ",
                     FormatBytes(machine.promised), " of its ", FormatBytes(machine.bytes), ".");
    if (machine.promised > machine.bytes) {
      finding.severity = Severity::kWarning;
      finding.to_do =
          "Give each of them a --memory, so that together they promise what the machine has; jobs "
          "that use it all would otherwise be killed.";
    }
    findings.push_back(std::move(finding));
  }
}

void JudgeFolders(const ExaminedCluster& cluster, Findings& findings) {
  std::set<std::string> roots;
  for (const auto& [id, report] : cluster.reports) roots.insert(report.root().path());
  // Ids by what they see of a folder.
  std::map<std::string, std::map<uint64_t, std::vector<std::string>>> views;
  for (const auto& [id, report] : cluster.reports) {
    for (const v1::FolderFacts& folder : report.folders()) {
      if (!folder.error().empty()) {
        findings.push_back(
            {.severity = Severity::kWarning,
             .where = NameOfDaemon(id),
             .check = "data folder",
             .seen = absl::StrCat("It cannot read ", folder.path(),
                                  ", which --data-root names: ", folder.error(), "."),
             .to_do = "Mount the folder, or let the daemon's user read it."});
      } else if (!roots.contains(folder.path())) {
        views[folder.path()][folder.names_hash()].push_back(NameOfDaemon(id));
      }
    }
  }
  for (const auto& [path, seen] : views) {
    size_t daemons = 0;
    const std::vector<std::string>* most = nullptr;
    for (const auto& [hash, ids] : seen) {
      daemons += ids.size();
      if (most == nullptr || ids.size() > most->size()) most = &ids;
    }
    if (daemons < 2) continue;
    Finding finding = {.where = most->front(), .check = "shared folder"};
    finding.seen =
        absl::StrCat("All ", daemons, " daemons that name ", path, " see the same names in it.");
    if (seen.size() > 1) {
      std::vector<std::string> others;
      for (const auto& [hash, ids] : seen) {
        if (&ids != most) others.insert(others.end(), ids.begin(), ids.end());
      }
      finding.severity = Severity::kWarning;
      finding.where = others.front();
      finding.seen = absl::StrCat(path, " holds other names for ", JoinSome(others), " than for ",
                                  JoinSome(*most), ".");
      finding.to_do =
          "Mount the same file system there on all machines: a job's tasks may run on any of them "
          "and need the same files.";
    }
    findings.push_back(std::move(finding));
  }
}

void JudgeLinks(const ExaminedCluster& cluster, Findings& findings) {
  std::vector<BrokenLink> rpcs, server_probes, worker_probes;
  std::vector<double> rates, round_trips;
  for (const auto& [from, report] : cluster.reports) {
    if (!report.probe_error().empty()) {
      const bool server = IsServer(cluster, from);
      findings.push_back(
          {.severity = server ? Severity::kWarning : Severity::kProblem,
           .where = NameOfDaemon(from),
           .check = "ports",
           .seen = absl::StrCat("It cannot listen where ", server ? "data channels" : "its tasks",
                                " are to be reached: ", report.probe_error(), "."),
           .to_do = server ? "Correct --data-host and --data-advertise."
                           : "Correct --collectives-host, --collectives-advertise and "
                             "--collectives-ports, or free some of these ports."});
    }
    for (const v1::LinkFacts& link : report.links()) {
      if (!link.rpc_error().empty()) rpcs.push_back({from, link.to(), link.rpc_error()});
      if (!link.probe_error().empty()) {
        auto& list = IsServer(cluster, link.to()) ? server_probes : worker_probes;
        list.push_back({from, link.to(), link.probe_error()});
      }
      if (link.carry_us() == 0) continue;
      rates.push_back(BytesPerSecond(link));
      round_trips.push_back(static_cast<double>(link.least_round_trip_us()));
    }
  }
  AddBroken(cluster, rpcs, {.severity = Severity::kProblem, .check = "rpc port"},
            "Let this machine open connections to the servers' ports, and check that it knows "
            "their names.",
            "Open the server's --listen port, give it an --advertise address that all machines "
            "know, and a certificate that names that host.",
            findings);
  AddBroken(cluster, worker_probes, {.severity = Severity::kProblem, .check = "task ports"},
            "Let this machine open connections to the workers' task ports (--collectives-ports).",
            "Open the ports of --collectives-ports on its machine, and give "
            "--collectives-advertise an address that the other workers reach.",
            findings);
  AddBroken(cluster, server_probes, {.severity = Severity::kWarning, .check = "data port"},
            "Let this machine open connections to the servers' data ports; tasks here may have to "
            "use gRPC, which is slower.",
            "A free port of this server was tried. Open --data-port, or tasks use gRPC, which is "
            "slower; if that port is open already, all is well.",
            findings);
  const double rate = MedianOf(std::move(rates)), round_trip = MedianOf(std::move(round_trips));
  for (const auto& [from, report] : cluster.reports) {
    AddSpeed(from, report, rate, round_trip, findings);
  }
}

Findings JudgeCluster(const ExaminedCluster& cluster, const v1::VersionFacts& client,
                      absl::Time now) {
  Findings findings;
  const auto coordinator = cluster.reports.find("");
  const bool knows_version =
      coordinator != cluster.reports.end() && coordinator->second.has_version();
  const v1::VersionFacts& expected = knows_version ? coordinator->second.version() : client;
  if (knows_version) JudgeVersion(kTheClient, client, expected, findings);
  for (const v1::ExaminedDaemon& daemon : cluster.daemons) {
    const auto found = cluster.reports.find(daemon.id());
    if (found == cluster.reports.end()) continue;
    const v1::DaemonReport& report = found->second;
    const std::string where = NameOfDaemon(daemon.id());
    if (report.has_version()) JudgeVersion(where, report.version(), expected, findings);
    if (report.has_certificate()) JudgeCertificate(where, report.certificate(), now, findings);
    if (report.has_clock()) JudgeClock(where, report.clock(), findings);
    if (report.has_machine()) JudgeMachine(daemon, where, report.machine(), findings);
    for (const v1::DiskFacts& disk : report.disks()) JudgeDisk(where, disk, findings);
    if (report.has_root()) JudgeRoot(daemon, where, report.root(), findings);
  }
  JudgePresence(cluster, findings);
  JudgePromisedMemory(cluster, findings);
  JudgeFolders(cluster, findings);
  JudgeLinks(cluster, findings);
  return findings;
}

}  // namespace muster
