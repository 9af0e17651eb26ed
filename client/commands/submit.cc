#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cluster/session.h"
#include "client/commands/arguments/job_file_argument.h"
#include "client/commands/commands.h"
#include "client/job/initial_weights.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

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
    bool watch = false;
  };
  auto* command = app.add_subcommand("submit", "Submit a job");
  auto arguments = std::make_shared<Arguments>();
  arguments->job.AddTo(*command);
  command->add_option("--from", arguments->from,
                      "Checkpoint with the initial weights: JOB@CLOCK, JOB@best, JOB for its last "
                      "one, or a folder that `muster import` wrote, given with a slash "
                      "(./weights)");
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
      if (arguments->watch) {
        session.CatchInterrupt(absl::StrCat("the job may have been submitted; `",
                                            session.CommandLine("list"), "` shows it then"));
      }
      MUSTER_ASSIGN_OR_RETURN(JobClient * jobs, session.Jobs());
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
