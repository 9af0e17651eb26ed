#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/commands/commands.h"
#include "client/format.h"
#include "client/local_cluster.h"
#include "client/session.h"
#include "common/base/status_macros.h"
#include "proto/job.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

// Every Debian machine has this text.
constexpr char kLicences[] = "/usr/share/common-licenses";
constexpr int kWorkers = 2;

struct Mode {
  const char* name;
  int64_t staleness_bound;
  bool unlimited;
};
constexpr Mode kModes[] = {{"BSP", 0, false}, {"SSP 4", 4, false}, {"ASP", 0, true}};

v1::JobSpec DemoJob(const Mode& mode, const std::string& data) {
  v1::JobSpec job;
  job.set_name(absl::StrCat("demo ", mode.name));
  auto& ngram = *job.mutable_model()->mutable_ngram();
  ngram.set_orders(5);
  ngram.set_embedding_dim(16);
  ngram.set_hidden(128);
  job.mutable_data()->mutable_text()->set_path(data);
  job.mutable_data()->set_holdout(0.1);
  job.mutable_optimizer()->set_name("adagrad");
  job.mutable_optimizer()->set_learning_rate(0.1);
  auto& update = *job.mutable_update();
  update.set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  update.set_sparse(v1::UpdateSpec::PARAMETER_SERVER);
  update.set_staleness_bound(mode.staleness_bound);
  update.set_unlimited_staleness(mode.unlimited);
  update.set_durability(v1::UpdateSpec::CHECKPOINT);
  job.set_workers(kWorkers);
  job.set_batch_size(1024);
  job.mutable_stop()->set_steps(1000);
  job.mutable_evaluation()->set_every_steps(250);
  job.set_seed(1);
  return job;
}

std::vector<std::string> ResultRow(const Mode& mode, const v1::JobStatus& job) {
  const v1::JobProgress& progress = job.progress();
  double best = 0;
  for (const v1::EvaluationResult& evaluation : job.evaluations()) {
    if (best == 0 || evaluation.value() < best) best = evaluation.value();
  }
  return {mode.name,
          absl::StrCat(progress.step()),
          absl::StrFormat("%.1f", progress.training_seconds()),
          FormatNumber(progress.examples_per_second()),
          FormatBytes(progress.bytes_pushed_per_step()),
          FormatBytes(progress.bytes_pulled_per_step()),
          absl::StrFormat("%.2f", progress.mean_staleness()),
          absl::StrCat(progress.max_staleness()),
          absl::StrFormat("%.3f", best)};
}

absl::Status RunDemo(Session& session, const std::string& data) {
  std::error_code error;
  if (!std::filesystem::exists(data, error)) {
    return absl::NotFoundError(
        absl::StrCat("there is no ", data, "; name a file or folder with --data"));
  }
  std::string folder_name =
      (std::filesystem::temp_directory_path() / "muster-demo-XXXXXX").string();
  if (mkdtemp(folder_name.data()) == nullptr) {
    return absl::InternalError(absl::StrCat("cannot make a folder like ", folder_name));
  }
  const ClusterFolder folder(folder_name);
  bool keep = false;
  const absl::Cleanup stop = [&] {
    if (const absl::Status stopped = StopLocalCluster(folder);
        !stopped.ok() && !absl::IsNotFound(stopped)) {
      std::fprintf(stderr, "muster: %s\n", std::string(stopped.message()).c_str());
      return;
    }
    if (keep) {
      std::fprintf(stderr, "muster: the demo's data and logs stay in %s\n", folder_name.c_str());
    } else {
      std::filesystem::remove_all(folder_name, error);
    }
  };
  if (session.output == Session::Output::kText) {
    std::printf("starting a coordinator, 2 servers and %d workers on this machine\n", kWorkers);
  }
  std::fflush(stdout);
  const absl::StatusOr<LocalCluster> cluster = StartLocalCluster(
      folder,
      {.servers = 2, .workers = kWorkers, .life = LocalClusterOptions::Life::kOfThisProcess});
  keep = !cluster.ok();
  MUSTER_RETURN_IF_ERROR(cluster.status());
  session.coordinator_address = cluster->coordinator_address;
  MUSTER_ASSIGN_OR_RETURN(JobClient * jobs, session.Jobs());

  std::vector<std::vector<std::string>> rows = {{"mode", "steps", "seconds", "examples/s",
                                                 "pushed/step/worker", "pulled/step/worker",
                                                 "mean staleness", "max", "held-out bits/byte"}};
  for (const Mode& mode : kModes) {
    std::string job_id;
    MUSTER_RETURN_IF_ERROR(jobs->Submit(DemoJob(mode, data), job_id));
    if (session.output == Session::Output::kText) {
      std::printf("\n%s: an n-gram language model on %s\n", mode.name, data.c_str());
    }
    std::fflush(stdout);
    v1::JobStatus last;
    MUSTER_RETURN_IF_ERROR(session.WatchToEnd(job_id, last));
    if (session.exit_code != kSuccess) {
      keep = true;
      return absl::OkStatus();
    }
    rows.push_back(ResultRow(mode, last));
  }
  if (session.output == Session::Output::kText) {
    std::printf("\n%s", FormatTable(rows).c_str());
    return absl::OkStatus();
  }
  for (size_t row = 1; row < rows.size(); ++row) {
    std::vector<std::pair<std::string, std::string>> fields;
    for (size_t i = 0; i < rows[0].size(); ++i) fields.emplace_back(rows[0][i], rows[row][i]);
    session.PrintResult("", fields);
  }
  return absl::OkStatus();
}

}  // namespace

void AddDemo(CLI::App& app, Session& session) {
  auto* command = app.add_subcommand(
      "demo", "Train a language model three ways (BSP, SSP, ASP) on a cluster made for it");
  auto data = std::make_shared<std::string>(kLicences);
  command->add_option("--data", *data, "File or folder of text to train on")->capture_default_str();
  command->footer("Example: muster demo --data /usr/share/doc");
  command->callback([&session, data] {
    session.Run([&] { return RunDemo(session, std::filesystem::absolute(*data).string()); });
  });
}

}  // namespace muster
