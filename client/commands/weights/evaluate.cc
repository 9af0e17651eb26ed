#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cluster/session.h"
#include "client/commands/arguments/choices.h"
#include "client/commands/arguments/job_argument.h"
#include "client/commands/commands.h"
#include "client/commands/weights/evaluation_output.h"
#include "client/job/job_file.h"
#include "client/terminal/interrupt.h"
#include "client/terminal/terminal.h"
#include "client/terminal/wait_changes.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/checkpoint_name.h"
#include "common/text/printable.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

constexpr char kLoss[] = "loss";
constexpr char kPerplexity[] = "perplexity";
constexpr char kBitsPerByte[] = "bits_per_byte";

// Returns the metric to measure so that `metric` is known. For a language model, bits_per_byte also
// gives the loss and perplexity.
std::string Measured(const v1::JobSpec& spec, const std::string& metric) {
  const bool from_loss = metric.empty() || metric == kLoss || metric == kPerplexity;
  return spec.model().has_transformer() && from_loss ? kBitsPerByte : metric;
}

struct EvaluateArguments {
  std::string checkpoint;
  std::string data;
  std::string metric;
  bool averaged = false;
};

// An evaluation is a job of no steps: the other job's weights, and all of its data held out.
absl::Status MakeEvaluation(const v1::JobStatus& job, const CheckpointName& checkpoint,
                            const EvaluateArguments& arguments, v1::JobSpec& spec) {
  spec = job.spec();
  spec.set_name(absl::StrCat("evaluate ", TextOf(checkpoint)));
  spec.set_initial_weights(TextOf(checkpoint));
  spec.set_averaged_weights(arguments.averaged);
  spec.clear_resume_from();
  spec.clear_stop();
  spec.mutable_stop()->set_evaluate_only(true);
  spec.clear_evaluation();
  spec.mutable_evaluation()->set_metric(Measured(spec, arguments.metric));
  spec.clear_checkpoint();
  if (arguments.data.empty()) return absl::OkStatus();
  spec.clear_validation();
  spec.mutable_data()->set_holdout(1);
  return ReplaceDataPath(arguments.data, spec);
}

// Returns a language model's perplexity, which is the number of equally likely tokens that its loss
// is worth, and its bits per byte, if these were measured.
std::vector<NamedValue> LanguageValues(const v1::EvaluationResult& measured) {
  if (!measured.no_value().empty()) return {};
  std::vector<NamedValue> values = {{kPerplexity, std::exp(measured.loss())}};
  if (measured.metric() == kBitsPerByte) values.emplace_back(kBitsPerByte, measured.value());
  return values;
}

// The result under the metric that was asked for.
v1::EvaluationResult Asked(const v1::EvaluationResult& measured, const std::string& metric) {
  v1::EvaluationResult result = measured;
  if (measured.metric() != kBitsPerByte || !measured.no_value().empty()) return result;
  if (metric != kLoss && metric != kPerplexity) return result;
  result.set_metric(metric);
  result.set_value(metric == kLoss ? measured.loss() : std::exp(measured.loss()));
  return result;
}

// `checkpoint` is the one that was measured, with its clock if that is known.
void PrintMeasured(Session& session, const CheckpointName& checkpoint, v1::EvaluationResult result,
                   const std::vector<NamedValue>& values) {
  if (session.output == Session::Output::kText) {
    return Print("%s", EvaluationText(result, values, checkpoint.clock));
  }
  // An evaluation trains nothing.
  std::vector<std::string> left_out = {"training_seconds"};
  result.set_clock(checkpoint.clock.value_or(0));
  if (!checkpoint.clock.has_value()) left_out.push_back("clock");
  if (result.no_value().empty()) left_out.push_back("no_value");
  session.PrintJson(result, EvaluationFields(result, values), left_out);
}

// The evaluation's end. Cancelled: its user did not wait for it, and it is cancelled.
absl::Status Await(JobClient& jobs, const std::string& id, Interrupt& interrupt,
                   v1::JobStatus& last) {
  WaitChanges waits;
  const absl::Status watched = jobs.Watch(
      id,
      [&waits](const v1::JobStatus& status) {
        const std::string wait = waits.Next(status, RealClock().Monotonic());
        if (!wait.empty())
          PrintError("muster: the evaluation %s waits: %s\n", status.job_id(), wait);
      },
      last);
  if (watched.ok() || !interrupt.happened()) return watched;
  MUSTER_RETURN_IF_ERROR(jobs.Cancel(id, "its user interrupted `muster evaluate`", last));
  return absl::CancelledError("");
}

absl::Status Evaluate(Session& session, const EvaluateArguments& arguments) {
  // Before anything starts threads.
  Interrupt interrupt;
  MUSTER_RETURN_IF_ERROR(ParseCheckpointName(arguments.checkpoint).status());
  MUSTER_ASSIGN_OR_RETURN(JobClient * jobs, session.Jobs());
  interrupt.Call([jobs] { jobs->StopWatching(); });
  MUSTER_ASSIGN_OR_RETURN(const CheckpointName asked,
                          FindCheckpoint(*jobs, arguments.checkpoint, JobClient::Naming::kNewest));
  v1::JobStatus job;
  MUSTER_RETURN_IF_ERROR(jobs->Get(asked.job_id, job));
  if (job.spec().model().has_program()) {
    return absl::InvalidArgumentError(
        absl::StrCat("job ", PrintableText(job.job_id()),
                     " runs a program, and only that knows how its checkpoints are evaluated: "
                     "have it report `evaluation` (docs/programs.md)"));
  }
  MUSTER_ASSIGN_OR_RETURN(CheckpointName checkpoint, WithClockOfBest(asked, job));
  // Named, so that it stays the one that is told of if the job goes on meanwhile.
  if (!checkpoint.clock.has_value() && !job.checkpoint_uri().empty()) {
    checkpoint.clock = job.checkpoint_clock();
  }
  v1::JobSpec spec;
  MUSTER_RETURN_IF_ERROR(MakeEvaluation(job, checkpoint, arguments, spec));
  std::string evaluation_id;
  MUSTER_RETURN_IF_ERROR(jobs->Submit(spec, evaluation_id));
  v1::JobStatus last;
  if (const absl::Status ended = Await(*jobs, evaluation_id, interrupt, last);
      absl::IsCancelled(ended)) {
    session.Fail(kInterrupted, "INTERRUPTED",
                 absl::StrCat("the evaluation ", evaluation_id, " is cancelled"));
    return absl::OkStatus();
  } else if (!ended.ok()) {
    return ended;
  }
  if (last.state() != v1::SUCCEEDED || last.evaluations_size() == 0) {
    const bool cancelled = last.state() == v1::CANCELLED;
    session.Fail(
        kJobFailed, cancelled ? "JOB_CANCELLED" : "JOB_FAILED",
        absl::StrCat("the evaluation ", evaluation_id,
                     cancelled ? " was cancelled: " : " failed: ", PrintableLine(last.message())));
    return absl::OkStatus();
  }
  const v1::EvaluationResult& measured = *last.evaluations().rbegin();
  PrintMeasured(
      session, checkpoint, Asked(measured, arguments.metric),
      spec.model().has_transformer() ? LanguageValues(measured) : std::vector<NamedValue>());
  // The coordinator may have forgotten it by itself.
  const absl::Status deleted = jobs->Delete(evaluation_id);
  return absl::IsNotFound(deleted) ? absl::OkStatus() : deleted;
}

}  // namespace

void AddEvaluate(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<EvaluateArguments>();
  auto* command =
      app.add_subcommand("evaluate", "Compute the loss and metrics of a job's checkpoint on data");
  command->add_option("checkpoint", arguments->checkpoint, kCheckpointArgument)
      ->required()
      ->type_name(kCheckpointType);
  command->callback(
      [&session, arguments] { session.Run([&] { return Evaluate(session, *arguments); }); });
  command->add_option("--data", arguments->data,
                      "File or folder of the same kind as the job's data. Default: the examples "
                      "that the job held out");
  command
      ->add_option("--metric", arguments->metric,
                   "Metric to compute, if the model has it. Default: the model's own")
      ->transform(OneOf({kLoss, kPerplexity, kBitsPerByte, "accuracy", "auc", "binned_auc", "rmse",
                         "mae", "r2"}));
  AddAveragedFlag(*command, arguments->averaged);
  command->footer(
      "Example: muster evaluate JOB --data other.csv\n"
      "         muster evaluate JOB@best --output json");
}

}  // namespace muster
