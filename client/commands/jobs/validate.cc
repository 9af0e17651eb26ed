#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cluster/session.h"
#include "client/commands/arguments/job_file_argument.h"
#include "client/commands/commands.h"
#include "client/job/initial_weights.h"
#include "client/job/job_file.h"
#include "client/plan/job_plan.h"
#include "client/plan/plan_output.h"
#include "client/terminal/terminal.h"
#include "common/base/machine/multiplies_bfloat16.h"
#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "common/job/validation/job_validator.h"
#include "common/job_data/data_head.h"
#include "common/text/format_bytes.h"
#include "common/text/printable.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

void PrintOk(const Session& session, const std::string& summary) {
  session.PrintResult(absl::StrCat("OK: ", PrintableLine(summary)),
                      {{"result", "OK"}, {"job", summary}});
}

std::string ProgramSummary(const v1::JobSpec& spec) {
  const v1::ProgramSpec& program = spec.model().program();
  const uint32_t processes = std::max(1u, spec.workers());
  return absl::StrCat("program ", absl::StrJoin(program.command(), " "), ", ", processes,
                      processes == 1 ? " process" : " processes", " of at most ",
                      FormatBytes(program.memory_bytes()));
}

absl::Status Validate(const Session& session, const JobFileArgument& job) {
  v1::JobSpec spec;
  MUSTER_RETURN_IF_ERROR(job.Read(spec));
  if (RunsProgram(spec)) {
    MUSTER_RETURN_IF_ERROR(ValidateJob(spec));
    PrintOk(session, ProgramSummary(spec));
    return absl::OkStatus();
  }
  MUSTER_RETURN_IF_ERROR(ResolveInitialWeights(spec.initial_weights()).status());
  MUSTER_ASSIGN_OR_RETURN(const JobPlan plan, PlanJob(spec, ReadDataHead(spec),
                                                      {.multiply_bf16 = MultipliesBFloat16()}));
  job.NoteMissingData(spec);
  PrintOk(session, PlanSummary(plan));
  return absl::OkStatus();
}

}  // namespace

void AddValidate(CLI::App& app, Session& session) {
  auto* command =
      app.add_subcommand("validate", "Check a job file as submit does, without a cluster");
  auto job = std::make_shared<JobFileArgument>();
  job->AddTo(*command);
  command->footer(
      "Example: muster validate job.yaml\n"
      "Prints OK and a summary of the job, or else what is wrong and where, and exits\n"
      "with 2. Only submit checks whether the cluster has enough memory for the job;\n"
      "`muster plan` shows how much it takes.");
  command->callback([&session, job] { session.Run([&] { return Validate(session, *job); }); });
}

}  // namespace muster
