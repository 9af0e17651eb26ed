#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cluster/session.h"
#include "client/commands/arguments/job_file_argument.h"
#include "client/commands/commands.h"
#include "client/job/initial_weights.h"
#include "client/job/job_file.h"
#include "client/job/pack_folder.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "common/text/format_bytes.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

// Packs the folder in which the job's program is to run: its working folder, by default that of the
// job's file.
absl::StatusOr<PackedFolder> PackFolderOf(const v1::JobSpec& spec, const std::string& job_file) {
  if (!RunsProgram(spec)) {
    return absl::InvalidArgumentError(
        "--ship sends the folder of a job's program, and this job runs none (model.program); leave "
        "--ship out");
  }
  const std::string& folder = spec.model().program().working_folder();
  if (!folder.empty()) return PackFolder(folder);
  const std::filesystem::path here = std::filesystem::current_path();
  return PackFolder(job_file == kStandardInput
                        ? here.string()
                        : (here / job_file).lexically_normal().parent_path().string());
}

// Sends the folder, and has the program run in it.
absl::Status Ship(const PackedFolder& folder, JobClient& jobs, v1::JobSpec& spec) {
  MUSTER_RETURN_IF_ERROR(jobs.Ship(folder.name, folder.archive));
  PrintError("muster: the cluster has the program's folder: %d files, %s\n", folder.files,
             FormatBytes(folder.archive.size()));
  v1::ProgramSpec& program = *spec.mutable_model()->mutable_program();
  program.clear_working_folder();
  program.set_shipped(folder.name);
  return absl::OkStatus();
}

// A job that keeps parameters on servers waits for ever where there are none. Whoever cannot be
// asked is not warned.
void WarnWithoutServers(JobClient& jobs, const std::string& job_id) {
  v1::JobStatus job;
  if (!jobs.Get(job_id, job).ok() || job.state() != v1::PENDING) return;
  const v1::UpdateSpec& update = job.spec().update();
  if (update.dense() != v1::UpdateSpec::PARAMETER_SERVER &&
      update.sparse() != v1::UpdateSpec::PARAMETER_SERVER) {
    return;
  }
  v1::GetClusterReply cluster;
  if (!jobs.Cluster(cluster).ok()) return;
  for (const v1::DaemonStatus& daemon : cluster.daemons()) {
    if (daemon.kind() == v1::SERVER && daemon.live()) return;
  }
  PrintError(
      "muster: job %s waits for a server, but the cluster has none: start muster-server, or start "
      "the cluster with `muster up --servers 1`\n",
      job_id);
}

}  // namespace

void AddSubmit(CLI::App& app, Session& session) {
  struct Arguments {
    JobFileArgument job;
    std::string from;
    bool ship = false;
    bool watch = false;
  };
  auto* command = app.add_subcommand("submit", "Submit a job");
  auto arguments = std::make_shared<Arguments>();
  arguments->job.AddTo(*command);
  command->add_option("--from", arguments->from,
                      "Checkpoint with the initial weights: JOB@CLOCK, JOB@best, JOB for its last "
                      "one, or a folder that `muster import` wrote, given with a slash "
                      "(./weights)");
  command->add_flag(
      "--ship", arguments->ship,
      "Send the program's working folder, by default that of FILE, with the job: at "
      "most 256 MiB and 10,000 files, without .git, __pycache__, virtual environments "
      "and what a file .musterignore in it names. The workers need not have it");
  command->add_flag("--watch", arguments->watch, "Show progress until the job ends");
  command->footer(
      "Example: muster submit job.yaml --watch\n"
      "job.yaml holds, for instance,\n"
      "  name: digits\n"
      "  model: {mlp: {hidden: [256], classes: 10}}\n"
      "  data:\n"
      "    idx: {images: images-idx3-ubyte.gz, labels: labels-idx1-ubyte.gz}\n"
      "    holdout: 0.2\n"
      "  optimizer: {name: sgd, learning_rate: 0.1}\n"
      "  update: {dense: parameter_server}\n"
      "  workers: 2\n"
      "  batch_size: 64\n"
      "  stop: {epochs: 5}\n"
      "`muster init` writes a job file for your data, `muster validate` checks one.\n"
      "proto/job.proto explains every field; examples/ has more jobs.");
  command->callback([&session, arguments] {
    session.Run([&]() -> absl::Status {
      v1::JobSpec spec;
      MUSTER_RETURN_IF_ERROR(arguments->job.Read(spec));
      if (!arguments->from.empty()) spec.set_initial_weights(arguments->from);
      MUSTER_ASSIGN_OR_RETURN(*spec.mutable_initial_weights(),
                              ResolveInitialWeights(spec.initial_weights()));
      PackedFolder folder;
      if (arguments->ship) {
        MUSTER_ASSIGN_OR_RETURN(folder, PackFolderOf(spec, arguments->job.file));
      }
      if (arguments->watch) {
        session.CatchInterrupt(absl::StrCat("the job may have been submitted; `",
                                            session.CommandLine("list"), "` shows it then"));
      }
      MUSTER_ASSIGN_OR_RETURN(JobClient * jobs, session.Jobs());
      if (arguments->ship) MUSTER_RETURN_IF_ERROR(Ship(folder, *jobs, spec));
      v1::SubmitJobReply reply;
      MUSTER_RETURN_IF_ERROR(jobs->Submit(spec, *reply.mutable_job_id()));
      if (session.output == Session::Output::kJson) {
        session.PrintJson(reply);
      } else {
        Print("%s\n", reply.job_id());
      }
      arguments->job.NoteMissingData(spec);
      WarnWithoutServers(*jobs, reply.job_id());
      return arguments->watch ? session.WatchToEnd(reply.job_id()) : absl::OkStatus();
    });
  });
}

}  // namespace muster
