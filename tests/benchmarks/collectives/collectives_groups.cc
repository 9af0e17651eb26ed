#include "tests/benchmarks/collectives/collectives_groups.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "tests/benchmarks/harness/child_process.h"

namespace muster {
namespace {

// Of one of a rank's series: its name, and durations and costs by the message's bytes.
struct OneSeries {
  std::string name;
  std::map<int64_t, std::vector<double>> microseconds;
  std::map<int64_t, CollectivesRow::Cost> costs;
};
// In the rank's order.
using Series = std::vector<OneSeries>;

// Adds the lines of MeasureAllReduce and EndOfRank to `series`.
absl::Status ReadSeries(ChildProcess& rank, Series& series) {
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const std::string line, rank.ReadLine());
    std::istringstream words(line);
    std::string kind, name;
    int64_t bytes = 0;
    words >> kind;
    if (kind == "end") return absl::OkStatus();
    if (kind == "error") return absl::InternalError(line.substr(6));
    words >> name >> bytes;
    if (kind == "cost" && !series.empty() && series.back().name == name) {
      CollectivesRow::Cost& cost = series.back().costs[bytes];
      words >> cost.processor_us >> cost.switches;
      if (words.fail()) return absl::InternalError(absl::StrCat("expected a cost: ", line));
      continue;
    }
    std::vector<double> durations;
    for (double duration; words >> duration;) durations.push_back(duration);
    if (kind != "case" || durations.empty()) {
      return absl::InternalError(absl::StrCat("expected a case, read \"", line, "\""));
    }
    if (series.empty() || series.back().name != name) series.push_back({.name = name});
    series.back().microseconds[bytes] = std::move(durations);
  }
}

absl::Status CheckProgram(const std::string& program) {
  if (access(program.c_str(), X_OK) == 0) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("there is no ", std::filesystem::path(program).filename().string()));
}

CollectivesRow NewRow(const std::string& system, const std::string& transport, int world,
                      const OneSeries& series) {
  CollectivesRow row;
  row.system = system;
  row.transport = transport;
  row.memory = "user";
  row.world = world;
  row.microseconds = series.microseconds;
  row.costs = series.costs;
  return row;
}

}  // namespace

absl::StatusOr<std::vector<CollectivesRow>> RunMusterGroup(
    int world, const std::string& transport, int connections,
    const std::vector<CollectivesCase>& cases) {
  std::vector<std::unique_ptr<ChildProcess>> ranks;
  std::string addresses;
  for (int rank = 0; rank < world; ++rank) {
    MUSTER_ASSIGN_OR_RETURN(auto process,
                            ChildProcess::Start({"--role=member", "--transport=" + transport,
                                                 absl::StrCat("--connections=", connections),
                                                 "--cases=" + FormatCases(cases)}));
    MUSTER_ASSIGN_OR_RETURN(const std::string line, process->ReadLine());
    std::istringstream words(line);
    std::string kind, address;
    words >> kind >> address;
    if (kind != "address") return absl::InternalError(line);
    absl::StrAppend(&addresses, " ", address);
    ranks.push_back(std::move(process));
  }
  for (int rank = 0; rank < world; ++rank) {
    MUSTER_RETURN_IF_ERROR(
        ranks[rank]->WriteLine(absl::StrCat(rank, " bench-", getpid(), addresses)));
  }
  Series series;
  MUSTER_RETURN_IF_ERROR(ReadSeries(*ranks[0], series));
  std::string name = transport;
  if (connections > 1 && transport != "shared-memory") absl::StrAppend(&name, " x ", connections);
  std::vector<CollectivesRow> rows;
  for (const OneSeries& one : series) {
    rows.push_back(NewRow("muster", name, world, one));
    rows.back().memory = one.name;
  }
  return rows;
}

absl::StatusOr<std::vector<CollectivesRow>> RunOpenMpiGroup(
    const std::string& program, int world, const std::string& transport,
    const std::vector<CollectivesCase>& cases) {
  MUSTER_RETURN_IF_ERROR(CheckProgram(program));
  std::vector<std::string> arguments = {"--allow-run-as-root",
                                        "--oversubscribe",
                                        "-n",
                                        absl::StrCat(world),
                                        "--mca",
                                        "pml",
                                        "ob1",
                                        "--mca",
                                        "oob_tcp_if_include",
                                        "lo",
                                        "--mca",
                                        "btl"};
  if (transport == "tcp") {
    // Loopback is left out unless it is asked for.
    for (const char* word : {"tcp,self", "--mca", "btl_tcp_if_include", "lo"}) {
      arguments.push_back(word);
    }
  } else {
    arguments.push_back("vader,self");
  }
  arguments.push_back(program);
  arguments.push_back(absl::StrCat(world));
  arguments.push_back(FormatCases(cases));
  // Under this name it is OpenMPI's own, whatever other MPI is installed.
  MUSTER_ASSIGN_OR_RETURN(auto mpirun, ChildProcess::StartProgram("mpirun.openmpi", arguments));
  Series series;
  MUSTER_RETURN_IF_ERROR(ReadSeries(*mpirun, series));
  std::vector<CollectivesRow> rows;
  for (const OneSeries& one : series) {
    rows.push_back(NewRow("openmpi", transport, world, one));
  }
  return rows;
}

absl::StatusOr<std::vector<CollectivesRow>> RunGlooGroup(
    const std::string& program, int world, const std::string& algorithms,
    const std::vector<CollectivesCase>& cases) {
  MUSTER_RETURN_IF_ERROR(CheckProgram(program));
  std::string folder = std::filesystem::temp_directory_path() / "muster-bench-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) {
    return absl::InternalError(absl::StrCat("cannot make ", folder, ": ", strerror(errno)));
  }
  const absl::Cleanup remove = [&folder] {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  };
  std::vector<std::unique_ptr<ChildProcess>> ranks;
  for (int rank = 0; rank < world; ++rank) {
    MUSTER_ASSIGN_OR_RETURN(auto process, ChildProcess::StartProgram(
                                              program, {absl::StrCat(rank), absl::StrCat(world),
                                                        folder, algorithms, FormatCases(cases)}));
    ranks.push_back(std::move(process));
  }
  Series series;
  const absl::Status status = ReadSeries(*ranks[0], series);
  if (series.empty()) MUSTER_RETURN_IF_ERROR(status);
  // Its newer all-reduce was seen to stand still at 4 ranks until a rank gave up; the rest counts.
  if (!status.ok()) {
    std::cout << "Gloo failed behind " << series.back().name << " of "
              << series.back().microseconds.rbegin()->first << " bytes: " << status.message()
              << std::endl;
  }
  std::vector<CollectivesRow> rows;
  for (const OneSeries& one : series) {
    rows.push_back(NewRow("gloo " + one.name, "tcp", world, one));
  }
  return rows;
}

}  // namespace muster
