#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/commands/commands.h"
#include "client/commands/job_argument.h"
#include "client/job_file.h"
#include "client/session.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/checkpoint_name.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

constexpr char kLoss[] = "loss";
constexpr char kPerplexity[] = "perplexity";
constexpr char kBitsPerByte[] = "bits_per_byte";

// What is to be measured so that `metric` is known. Of a language model, what follows from the loss
// comes with its bits per byte, and then all of it can be told.
std::string Measured(const v1::JobSpec& spec, const std::string& metric) {
  const bool from_loss = metric.empty() || metric == kLoss || metric == kPerplexity;
  return spec.model().has_transformer() && from_loss ? kBitsPerByte : metric;
}

// An evaluation is a job of no steps: the other job's weights, and all of its data held out.
absl::Status MakeEvaluation(const v1::JobStatus& job, const CheckpointName& checkpoint,
                            const std::string& data, const std::string& metric, v1::JobSpec& spec) {
  spec = job.spec();
  spec.set_name(absl::StrCat("evaluate ", TextOf(checkpoint)));
  spec.set_initial_weights(TextOf(checkpoint));
  spec.clear_resume_from();
  spec.clear_stop();
  spec.mutable_stop()->set_evaluate_only(true);
  spec.clear_evaluation();
  spec.mutable_evaluation()->set_metric(Measured(spec, metric));
  spec.clear_checkpoint();
  if (data.empty()) return absl::OkStatus();
  spec.mutable_data()->set_holdout(1);
  return ReplaceDataPath(data, spec);
}

using Value = std::pair<std::string, double>;

// What else is known of a language model: its perplexity, which is how many equally likely tokens
// its loss is worth, and its bits per byte, where these were measured.
std::vector<Value> LanguageValues(const v1::EvaluationResult& measured) {
  if (!measured.no_value().empty()) return {};
  std::vector<Value> values = {{kPerplexity, std::exp(measured.loss())}};
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
void Print(const Session& session, const CheckpointName& checkpoint, v1::EvaluationResult result,
           std::vector<Value> values) {
  const bool has_value = result.no_value().empty();
  if (session.output == Session::Output::kJson) {
    // An evaluation trains nothing.
    std::vector<std::string> left_out = {"training_seconds"};
    result.set_clock(checkpoint.clock.value_or(0));
    if (!checkpoint.clock.has_value()) left_out.push_back("clock");
    if (has_value) {
      left_out.push_back("no_value");
    } else {
      // JSON's null.
      values.emplace_back("value", std::numeric_limits<double>::quiet_NaN());
    }
    return session.PrintJson(result, values, left_out);
  }
  if (has_value) {
    std::printf("%s %.4f", result.metric().c_str(), result.value());
  } else {
    std::printf("%s has no value (%s)", result.metric().c_str(), result.no_value().c_str());
  }
  if (result.metric() != kLoss) std::printf(", loss %.4f", result.loss());
  for (const auto& [name, value] : values) {
    if (name != result.metric()) std::printf(", %s %.4f", name.c_str(), value);
  }
  std::printf(", over %llu examples", static_cast<unsigned long long>(result.examples()));
  if (checkpoint.clock.has_value()) {
    std::printf(", at clock %llu", static_cast<unsigned long long>(*checkpoint.clock));
  }
  std::printf("\n");
}

}  // namespace

void AddEvaluate(CLI::App& app, Session& session) {
  struct Arguments {
    std::string data;
    std::string metric;
  };
  auto arguments = std::make_shared<Arguments>();
  auto* command = AddCheckpointCommand(
      app, session, "evaluate", "Measure a job's checkpoint on data", kCheckpointArgument,
      [arguments](Session& session, JobClient& jobs, const CheckpointName& asked) -> absl::Status {
        v1::JobStatus job;
        MUSTER_RETURN_IF_ERROR(jobs.Get(asked.job_id, job));
        CheckpointName checkpoint = asked;
        // Named, so that it stays the one that is told of if the job goes on meanwhile.
        if (!asked.clock.has_value() && !job.checkpoint_uri().empty()) {
          checkpoint.clock = job.checkpoint_clock();
        }
        v1::JobSpec spec;
        MUSTER_RETURN_IF_ERROR(
            MakeEvaluation(job, checkpoint, arguments->data, arguments->metric, spec));
        std::string evaluation_id;
        MUSTER_RETURN_IF_ERROR(jobs.Submit(spec, evaluation_id));
        v1::JobStatus last;
        MUSTER_RETURN_IF_ERROR(jobs.Watch(
            evaluation_id, [](const v1::JobStatus&) {}, last));
        if (last.state() != v1::SUCCEEDED || last.evaluations_size() == 0) {
          session.exit_code = kJobFailed;
          std::fprintf(stderr, "muster: the evaluation %s failed: %s\n", evaluation_id.c_str(),
                       last.message().c_str());
          return absl::OkStatus();
        }
        const v1::EvaluationResult& measured = *last.evaluations().rbegin();
        Print(session, checkpoint, Asked(measured, arguments->metric),
              spec.model().has_transformer() ? LanguageValues(measured) : std::vector<Value>());
        // The coordinator may have forgotten it by itself.
        const absl::Status deleted = jobs.Delete(evaluation_id);
        return absl::IsNotFound(deleted) ? absl::OkStatus() : deleted;
      });
  command->add_option(
      "--data", arguments->data,
      "File or folder of the job's kind of data; without it, what the job held out");
  command->add_option(
      "--metric", arguments->metric,
      "Another metric than the model's own: loss, perplexity, bits_per_byte, accuracy, "
      "auc or binned_auc, as far as the model has it");
  command->footer(
      "Example: muster evaluate JOB --data other.csv\n"
      "         muster evaluate JOB@400 --output json");
}

}  // namespace muster
