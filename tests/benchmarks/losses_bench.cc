// Losses of tasks, one after the other, in jobs that have redundancy: which share of the steps was
// made again, where the time went, and whether the weights are those of a job that nothing
// disturbed.
//
//   losses_bench [--losses N] [--every SECONDS] [--meshes a,b] [--json FILE]
//
// Each mesh trains an endless small transformer on a cluster of its own. Of its tasks a random one
// is killed whenever the job has trained so many seconds on since the last loss. At the end the job
// is trained once more to the last checkpoint, undisturbed, and the bits are compared. The fewer
// seconds there are between losses, the larger is the share of steps that are made again.

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/daemon/parse_flags.h"
#include "google/protobuf/text_format.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/status.pb.h"
#include "tests/benchmarks/harness/record.h"
#include "tests/harness/endless_job.h"
#include "tests/harness/process_cluster.h"

namespace muster {
namespace {

constexpr uint64_t kCheckpointSteps = 500;

struct LossesOptions {
  int losses = 20;
  double every_seconds = 15;
  // Names; empty: all.
  std::vector<std::string> meshes;
  std::string json;
};

struct Mesh {
  const char* name;
  const char* job;
  int servers = 0;
};

constexpr char kAllReduce[] =
    "update { dense: ALL_REDUCE sparse: ALL_REDUCE deterministic: true } ";

// Returns the meshes in which somebody has what a lost task had.
std::vector<std::pair<Mesh, std::string>> Meshes() {
  const std::vector<Mesh> by_all_reduce = {
      {"data 2", "workers: 2"},
      {"data 4", "workers: 4"},
      {"tensor 2, data 2", "workers: 4 parallelism { tensor: 2 }"},
      {"pipeline 2, data 2", "workers: 4 parallelism { pipeline: 2 }"},
      {"context 2, data 2", "workers: 4 parallelism { context: 2 }"},
      {"ZeRO 2, two shard groups", "workers: 4 parallelism { zero { stage: 2 shard: 2 } }"},
      {"ZeRO 3, redundancy 1", "workers: 3 parallelism { zero { stage: 3 redundancy: 1 } }"},
      {"min_workers 2 of 3", "workers: 3 min_workers: 2"},
  };
  std::vector<std::pair<Mesh, std::string>> meshes;
  for (const Mesh& mesh : by_all_reduce) {
    meshes.emplace_back(mesh, absl::StrCat(kAllReduce, mesh.job));
  }
  const Mesh servers = {"servers, every push on disk", "workers: 2", /*servers=*/2};
  meshes.emplace_back(servers, absl::StrCat("update { dense: PARAMETER_SERVER durability: "
                                            "EVERY_PUSH deterministic: true } ",
                                            servers.job));
  return meshes;
}

absl::StatusOr<v1::JobSpec> JobOf(const std::string& mesh, const std::string& text) {
  v1::JobSpec spec;
  const std::string job = absl::StrCat(
      R"pb(name: "losses"
           model { transformer { layers: 2 width: 64 heads: 4 context: 64 } }
           optimizer { name: "adamw" learning_rate: 0.001 }
           clipping { by_global_norm: 1 }
           batch_size: 12
           seed: 1
      )pb",
      mesh);
  if (!google::protobuf::TextFormat::ParseFromString(job, &spec)) {
    return absl::InternalError(absl::StrCat("no job: ", job));
  }
  spec.mutable_data()->mutable_sequences()->set_path(text);
  return Endless(std::move(spec), kCheckpointSteps);
}

// Kills one of the job's tasks; returns false if none runs.
bool KillSomebody(const ProcessCluster& cluster, uint32_t workers, std::mt19937& random) {
  const uint32_t first = random() % workers;
  for (uint32_t i = 0; i < workers; ++i) {
    const auto tasks = cluster.ChildrenOf(absl::StrCat("worker-", (first + i) % workers));
    if (tasks.empty()) continue;
    kill(tasks[0], SIGKILL);
    return true;
  }
  return false;
}

absl::Status Measure(const Mesh& mesh, const v1::JobSpec& spec, const LossesOptions& options,
                     std::vector<BenchRecord>& records) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<ProcessCluster> cluster,
                          ProcessCluster::Start({.servers = mesh.servers,
                                                 .workers = static_cast<int>(spec.workers()),
                                                 .lease = absl::Seconds(10)}));
  MUSTER_ASSIGN_OR_RETURN(const std::string id, cluster->Submit(spec));
  MUSTER_ASSIGN_OR_RETURN(v1::JobStatus job, AwaitRunning(*cluster, id));
  std::mt19937 random(1);
  for (int loss = 0; loss < options.losses; ++loss) {
    const double until = job.goodput().productive_seconds() + options.every_seconds;
    MUSTER_ASSIGN_OR_RETURN(job, cluster->Await(id, [&](const v1::JobStatus& status) {
      return status.goodput().productive_seconds() >= until;
    }));
    if (!KillSomebody(*cluster, spec.workers(), random)) --loss;
  }
  MUSTER_ASSIGN_OR_RETURN(job, AwaitCheckpointSince(*cluster, id));
  const v1::Goodput spent = job.goodput();
  const auto steps = static_cast<double>(job.progress().step());
  const double kept = 100 * steps / (steps + static_cast<double>(spent.redone_steps()));
  const double productive = 100 * spent.productive_seconds() / spent.seconds();
  MUSTER_ASSIGN_OR_RETURN(const Weights weights, EndAndTrainUndisturbed(*cluster, id));
  const bool same = weights.disturbed == weights.undisturbed;
  std::printf("%-28s %6d %9.0f %9llu %9.2f%% %9.1f%%  %s, generation %llu\n", mesh.name,
              options.losses, steps, static_cast<unsigned long long>(spent.redone_steps()), kept,
              productive, same ? "same bits" : "OTHER BITS",
              static_cast<unsigned long long>(job.generation()));
  std::fflush(stdout);
  const auto add = [&](const char* metric, double value) {
    records.push_back({.bench = "losses",
                       .parameters = {{"mesh", std::string(mesh.name)},
                                      {"losses", int64_t{options.losses}},
                                      {"every_seconds", options.every_seconds}},
                       .metric = metric,
                       .unit = "%",
                       .samples = {value}});
  };
  add("steps_not_redone", kept);
  add("productive_time", productive);
  if (same) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(mesh.name, ": the weights at clock ", weights.clock,
                                          " differ from an undisturbed job's"));
}

absl::Status Run(const LossesOptions& options) {
  std::string folder = (std::filesystem::temp_directory_path() / "losses-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return absl::InternalError("no temporary folder");
  const absl::Cleanup remove = [&] { std::filesystem::remove_all(folder); };
  const std::string text = folder + "/text";
  std::ofstream file(text);
  for (int line = 0; line < 5000; ++line) file << "line " << line * line % 9973 << "\n";
  file.close();
  std::printf("%-28s %6s %9s %9s %10s %10s\n", "mesh", "losses", "steps", "redone", "not redone",
              "productive");
  std::vector<BenchRecord> records;
  for (const auto& [mesh, job] : Meshes()) {
    const auto& chosen = options.meshes;
    if (!chosen.empty() && std::none_of(chosen.begin(), chosen.end(), [&](const auto& part) {
          return absl::StrContains(mesh.name, part);
        })) {
      continue;
    }
    MUSTER_ASSIGN_OR_RETURN(const v1::JobSpec spec, JobOf(job, text));
    MUSTER_RETURN_IF_ERROR(Measure(mesh, spec, options, records));
  }
  return options.json.empty() ? absl::OkStatus() : WriteRecords(options.json, records);
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  CLI::App app("Losses of tasks, one after the other, in jobs that have redundancy");
  muster::LossesOptions options;
  app.add_option("--losses", options.losses, "Losses on each mesh")->capture_default_str();
  app.add_option("--every", options.every_seconds, "Seconds of training from one to the next")
      ->capture_default_str();
  app.add_option("--meshes", options.meshes, "Parts of the names of meshes; default: all")
      ->delimiter(',');
  app.add_option("--json", options.json, "File for the figures");
  if (const std::optional<int> code = muster::ParseFlags(app, argc, argv)) return *code;
  const absl::Status status = muster::Run(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "losses_bench: %s\n", std::string(status.message()).c_str());
  return 1;
}
