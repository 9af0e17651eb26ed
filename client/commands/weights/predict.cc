#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cluster/session.h"
#include "client/cluster/spawn.h"
#include "client/cluster/unnamed_file.h"
#include "client/commands/arguments/choices.h"
#include "client/commands/arguments/force_flag.h"
#include "client/commands/arguments/job_argument.h"
#include "client/commands/commands.h"
#include "client/job/job_file.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/checkpoint_name.h"
#include "common/files/output_file.h"
#include "common/job/predicts_examples.h"
#include "common/text/printable.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

struct PredictArguments {
  std::string checkpoint;
  std::string data;
  std::string out;
  bool averaged = false;
  Replace replace = Replace::kNever;
  int threads = 0;
};

// Puts the examples to predict in place of the job's data.
absl::Status SetExamples(const std::string& path, v1::JobSpec& spec) {
  spec.clear_validation();
  if (spec.data().has_idx()) {
    // Images need no labels beside them.
    spec.mutable_data()->mutable_idx()->set_images(
        std::filesystem::absolute(path).lexically_normal().string());
    spec.mutable_data()->mutable_idx()->clear_labels();
  } else {
    MUSTER_RETURN_IF_ERROR(ReplaceDataPath(path, spec));
  }
  if (MissingData(spec).empty()) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("there is no file ", path, " with examples to predict"));
}

absl::Status Predict(Session& session, const PredictArguments& arguments) {
  MUSTER_ASSIGN_OR_RETURN(const std::string program, FindProgram("muster-predict"));
  MUSTER_RETURN_IF_ERROR(CheckOutputFile(arguments.out, arguments.replace));
  MUSTER_RETURN_IF_ERROR(ParseCheckpointName(arguments.checkpoint).status());
  MUSTER_ASSIGN_OR_RETURN(JobClient * jobs, session.Jobs());
  MUSTER_ASSIGN_OR_RETURN(const CheckpointName checkpoint,
                          FindCheckpoint(*jobs, arguments.checkpoint, JobClient::Naming::kNewest));
  v1::JobStatus job;
  MUSTER_RETURN_IF_ERROR(jobs->Get(checkpoint.job_id, job));
  v1::JobSpec spec = job.spec();
  MUSTER_RETURN_IF_ERROR(
      CheckPredictsExamples(spec, absl::StrCat("job ", PrintableLine(checkpoint.job_id))));
  MUSTER_RETURN_IF_ERROR(SetExamples(arguments.data, spec));
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<UnnamedFile> job_file,
                          UnnamedFile::Create("the job"));
  MUSTER_RETURN_IF_ERROR(job_file->Write(spec.SerializeAsString()));
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<UnnamedFile> weights,
                          UnnamedFile::Create("the weights"));
  v1::CheckpointRequest request = RequestFor(checkpoint);
  request.set_averaged(arguments.averaged);
  MUSTER_RETURN_IF_ERROR(
      jobs->Export(request, [&weights](absl::string_view data) { return weights->Write(data); }));
  std::vector<std::string> words = {program, "--job=" + job_file->path(),
                                    "--job-id=" + checkpoint.job_id, "--out=" + arguments.out,
                                    absl::StrCat("--threads=", arguments.threads)};
  if (arguments.replace == Replace::kFiles) words.push_back("--force");
  if (session.output == Session::Output::kJson) words.push_back("--json");
  words.insert(words.end(), {"--", weights->path()});
  return Exec(std::move(words));
}

}  // namespace

void AddPredict(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<PredictArguments>();
  auto* command =
      app.add_subcommand("predict", "Write a table with a job's predictions for a file's examples");
  command->add_option("checkpoint", arguments->checkpoint, kCheckpointArgument)
      ->required()
      ->type_name(kCheckpointType);
  command
      ->add_option("--data", arguments->data,
                   "File, or pattern of files, of the same kind as the job's data. In a CSV file "
                   "the label's column may be left out; of IDX data, name the images")
      ->required();
  command
      ->add_option("--out", arguments->out,
                   "File to write: CSV with the columns of the data and, after them, of the "
                   "predictions, one row for each example")
      ->required();
  AddForceFlag(*command, arguments->replace);
  AddAveragedFlag(*command, arguments->averaged);
  command->add_option("--threads", arguments->threads, "Threads to compute with; 0: one per core")
      ->capture_default_str();
  command->footer(
      "Example: muster predict JOB --data new.csv --out predicted.csv\n"
      "         muster predict JOB@best --data 'new/*.csv.gz' --out predicted.csv --force\n"
      "The column `predicted` has the class as the training data wrote it, or the number in its "
      "own unit. For each class, `probability_CLASS` has its probability; with more than 100 "
      "classes, "
      "`probability` has that of the predicted one. Data with a column of such a name are refused. "
      "libsvm, libffm and IDX examples have one column, `example`, which counts them from 0. Files "
      "without a header have the same columns as those of the job, and are written without one.\n"
      "For transformers, `muster generate` writes text.");
  command->callback(
      [&session, arguments] { session.Run([&] { return Predict(session, *arguments); }); });
}

}  // namespace muster
