#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cluster/session.h"
#include "client/commands/arguments/job_argument.h"
#include "client/commands/commands.h"
#include "client/tensorboard/history_export.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "common/text/printable.h"
#include "proto/job_service.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

struct TensorBoardArguments {
  std::string out;
  std::vector<std::string> series;
  bool follow = false;
};

absl::Status ExportHistory(Session& session, JobClient& jobs, const std::string& job_id,
                           const TensorBoardArguments& arguments) {
  v1::JobStatus job;
  MUSTER_RETURN_IF_ERROR(jobs.Get(job_id, job));
  const std::string folder =
      absl::StrCat(arguments.out, "/", RunFolderName(job.spec().name(), job_id));
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<HistoryExport> history,
                          HistoryExport::Create(folder, job.submitted_unix_ms()));
  if (arguments.follow && session.output == Session::Output::kText) {
    Print("writes to %s until the job ends\n", PrintableLine(folder));
  }
  v1::ReadMetricsRequest request;
  request.set_job_id(job_id);
  request.mutable_series()->Add(arguments.series.begin(), arguments.series.end());
  request.set_follow(arguments.follow);
  MUSTER_RETURN_IF_ERROR(jobs.StreamHistory(
      request, [&](const v1::MetricsChunk& chunk) { return history->Add(chunk); }));
  const uint64_t values = history->values();
  session.PrintResult(
      absl::StrCat(values, values == 1 ? " value" : " values", " written to ", folder,
                   "; `tensorboard --logdir ", arguments.out, "` shows them"),
      {{"folder", folder}, {"values", absl::StrCat(values)}});
  return absl::OkStatus();
}

}  // namespace

void AddTensorboard(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<TensorBoardArguments>();
  auto* command =
      AddJobCommand(app, session, "tensorboard", "Write a job's history as TensorBoard reads it",
                    [arguments](Session& session, JobClient& jobs, const std::string& job_id) {
                      return ExportHistory(session, jobs, job_id, *arguments);
                    });
  command
      ->add_option("--out", arguments->out,
                   "Folder for TensorBoard's --logdir; the job gets a folder of its own in it")
      ->required()
      ->option_text("DIR");
  command
      ->add_option("--series", arguments->series,
                   "Only these series; `*` stands for any characters, `?` for one")
      ->delimiter(',')
      ->option_text("NAME,...");
  command->add_flag("--follow", arguments->follow, "Go on until the job ends");
  command->footer(
      "Example: muster tensorboard JOB --out runs --follow\n"
      "         tensorboard --logdir runs\n"
      "A series of `muster history` is a tag. After a roll-back TensorBoard drops what the job "
      "makes again.");
}

}  // namespace muster
