#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/commands/commands.h"
#include "client/commands/job_argument.h"
#include "client/job_file.h"
#include "client/session.h"
#include "common/base/status_macros.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

// An evaluation is a job of no steps: the other job's weights, and all of its data held out.
absl::Status MakeEvaluation(const v1::JobStatus& job, const std::string& data,
                            const std::string& metric, v1::JobSpec& spec) {
  spec = job.spec();
  spec.set_name(absl::StrCat("evaluate ", job.job_id()));
  spec.set_initial_weights(job.job_id());
  spec.clear_stop();
  spec.mutable_stop()->set_evaluate_only(true);
  spec.clear_evaluation();
  spec.mutable_evaluation()->set_metric(metric);
  spec.clear_checkpoint();
  if (data.empty()) return absl::OkStatus();
  spec.mutable_data()->set_holdout(1);
  return ReplaceDataPath(data, spec);
}

// Of a language model, unless it is the metric: how many equally likely tokens its loss is worth.
std::string PerplexityText(const v1::JobStatus& job, const v1::EvaluationResult& result) {
  if (!job.spec().model().has_transformer() || result.metric() == "perplexity") return "";
  return absl::StrFormat(", perplexity %.4f", std::exp(result.loss()));
}

}  // namespace

void AddEvaluate(CLI::App& app, Session& session) {
  struct Arguments {
    std::string data;
    std::string metric;
  };
  auto arguments = std::make_shared<Arguments>();
  auto* command = AddJobCommand(
      app, session, "evaluate", "Measure a job's last checkpoint on data",
      [arguments](Session& session, JobClient& jobs, const std::string& job_id) -> absl::Status {
        v1::JobStatus job;
        MUSTER_RETURN_IF_ERROR(jobs.Get(job_id, job));
        v1::JobSpec spec;
        MUSTER_RETURN_IF_ERROR(MakeEvaluation(job, arguments->data, arguments->metric, spec));
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
        const v1::EvaluationResult& result = *last.evaluations().rbegin();
        if (session.output == Session::Output::kJson) {
          session.PrintJson(result);
        } else {
          std::printf("%s %.4f, loss %.4f%s, over %llu examples\n", result.metric().c_str(),
                      result.value(), result.loss(), PerplexityText(job, result).c_str(),
                      static_cast<unsigned long long>(result.examples()));
        }
        return jobs.Delete(evaluation_id);
      });
  command->add_option(
      "--data", arguments->data,
      "File or folder of the job's kind of data; without it, what the job held out");
  command->add_option("--metric", arguments->metric, "Another metric than the model's own");
  command->footer("Example: muster evaluate JOB --data other.csv");
}

}  // namespace muster
