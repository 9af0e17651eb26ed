#include "tests/benchmarks/coordinator/fleet_process.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/daemon/daemon.h"

namespace muster {
namespace {

double OwnCpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// The daemons of one process, as lines say. Not thread-safe.
class FleetOfLines {
 public:
  // Carries out a line; returns what to answer.
  absl::StatusOr<std::string> Do(const std::string& line) {
    std::istringstream words(line);
    std::string what;
    words >> what;
    if (what == "connect") {
      Fleet::Options options;
      words >> options.coordinator >> options.first_step;
      fleet_.emplace(options);
    } else if (what == "workers" || what == "servers") {
      int first = 0, count = 0;
      words >> first >> count;
      const auto kind =
          what == "workers" ? SimulatedDaemon::Kind::kWorker : SimulatedDaemon::Kind::kServer;
      for (int i = 0; i < count; ++i) {
        daemons_.push_back(std::make_unique<SimulatedDaemon>(kind, first + i, *fleet_));
      }
      if (what == "workers") first_worker_ = first;
    } else if (what == "start") {
      for (const auto& daemon : daemons_) daemon->Start();
    } else if (what == "mark") {
      fleet_->Mark();
    } else if (what == "await") {
      int event = 0;
      size_t count = 0;
      double seconds = 0;
      words >> event >> count >> seconds;
      MUSTER_ASSIGN_OR_RETURN(const int64_t at, fleet_->Await(static_cast<FleetEvent>(event), count,
                                                              absl::Seconds(seconds)));
      return absl::StrCat(at);
    } else if (what == "report") {
      bool reports = false;
      words >> reports;
      fleet_->SetReporting(reports);
    } else if (what == "meet") {
      int replaced = -1;
      uint64_t step = 0;
      words >> replaced >> step;
      for (int i = 0; i < static_cast<int>(daemons_.size()); ++i) {
        if (replaced >= 0 && i == replaced - first_worker_) {
          daemons_[i]->Replace();
        } else {
          daemons_[i]->MeetAgain(step);
        }
      }
    } else if (what == "count") {
      return absl::StrCat(fleet_->heartbeats.load(), " ", fleet_->progress_reports.load(), " ",
                          fleet_->errors.load(), " ", OwnCpuSeconds());
    } else {
      return absl::InvalidArgumentError(absl::StrCat("unknown line: ", line));
    }
    return "ok";
  }

 private:
  std::optional<Fleet> fleet_;
  // The workers first.
  std::vector<std::unique_ptr<SimulatedDaemon>> daemons_;
  int first_worker_ = 0;
};

absl::Status Send(ChildProcess& process, const std::string& line) {
  return process.WriteLine(line);
}

absl::StatusOr<std::string> Receive(ChildProcess& process) {
  MUSTER_ASSIGN_OR_RETURN(std::string answer, process.ReadLine());
  constexpr absl::string_view kError = "error ";
  if (answer.rfind(std::string(kError), 0) != 0) return answer;
  return absl::InternalError(answer.substr(kError.size()));
}

}  // namespace

void RunFleetProcess() {
  RaiseDescriptorLimit();
  FleetOfLines fleet;
  for (std::string line; std::getline(std::cin, line);) {
    const absl::StatusOr<std::string> answer = fleet.Do(line);
    std::cout << (answer.ok()
                      ? *answer
                      : absl::StrCat("error ",
                                     absl::StrReplaceAll(answer.status().message(), {{"\n", " "}})))
              << std::endl;
  }
  // Calls are still parked: nothing waits for them.
  std::_Exit(EXIT_SUCCESS);
}

absl::StatusOr<std::unique_ptr<FleetProcesses>> FleetProcesses::Start(const Options& options) {
  std::unique_ptr<FleetProcesses> fleet(new FleetProcesses());
  const int64_t first_step = SharedNanoseconds();
  int worker = 0, server = 0;
  for (int i = 0; i < options.processes; ++i) {
    Share& share = fleet->shares_.emplace_back();
    const int left = options.processes - i;
    share.workers = (options.workers - worker) / left;
    share.servers = (options.servers - server) / left;
    MUSTER_ASSIGN_OR_RETURN(share.process, ChildProcess::Start({"--role=fleet"}));
    for (const std::string& line : {absl::StrCat("connect ", options.coordinator, " ", first_step),
                                    absl::StrCat("workers ", worker, " ", share.workers),
                                    absl::StrCat("servers ", server, " ", share.servers)}) {
      MUSTER_RETURN_IF_ERROR(Send(*share.process, line));
      MUSTER_RETURN_IF_ERROR(Receive(*share.process).status());
    }
    worker += share.workers;
    server += share.servers;
  }
  return fleet;
}

absl::Status FleetProcesses::TellAll(const std::string& line) {
  for (Share& share : shares_) MUSTER_RETURN_IF_ERROR(Send(*share.process, line));
  absl::Status status;
  for (Share& share : shares_) status.Update(Receive(*share.process).status());
  return status;
}

absl::Status FleetProcesses::StartDaemons() { return TellAll("start"); }

absl::Status FleetProcesses::Mark() { return TellAll("mark"); }

absl::StatusOr<int64_t> FleetProcesses::Await(FleetEvent event, absl::Duration timeout) {
  for (Share& share : shares_) {
    const int count = share.workers + (event == FleetEvent::kAnswered ? share.servers : 0);
    MUSTER_RETURN_IF_ERROR(
        Send(*share.process, absl::StrCat("await ", static_cast<int>(event), " ", count, " ",
                                          absl::ToDoubleSeconds(timeout))));
  }
  absl::Status status;
  int64_t last = 0;
  for (Share& share : shares_) {
    const absl::StatusOr<std::string> answer = Receive(*share.process);
    status.Update(answer.status());
    if (answer.ok()) last = std::max<int64_t>(last, std::strtoll(answer->c_str(), nullptr, 10));
  }
  if (!status.ok()) return status;
  return last;
}

absl::Status FleetProcesses::SetReporting(bool reports) {
  return TellAll(absl::StrCat("report ", reports));
}

absl::Status FleetProcesses::MeetAgain(int replaced) {
  // The step is any one that is later than the last time.
  return TellAll(absl::StrCat("meet ", replaced, " ", SharedNanoseconds() / 1'000'000));
}

absl::StatusOr<FleetProcesses::Totals> FleetProcesses::Count() {
  Totals totals;
  for (Share& share : shares_) {
    MUSTER_RETURN_IF_ERROR(Send(*share.process, "count"));
    MUSTER_ASSIGN_OR_RETURN(const std::string answer, Receive(*share.process));
    Totals own;
    std::istringstream(answer) >> own.heartbeats >> own.progress_reports >> own.errors >>
        own.cpu_seconds;
    totals.heartbeats += own.heartbeats;
    totals.progress_reports += own.progress_reports;
    totals.errors += own.errors;
    totals.cpu_seconds += own.cpu_seconds;
  }
  return totals;
}

}  // namespace muster
