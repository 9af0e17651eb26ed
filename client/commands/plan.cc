#include <CLI/CLI.hpp>
#include <memory>

#include "client/commands/commands.h"
#include "client/commands/job_file_argument.h"
#include "client/plan/job_plan.h"
#include "client/plan/plan_output.h"
#include "client/session.h"
#include "client/terminal.h"
#include "common/base/multiplies_bfloat16.h"
#include "common/base/status_macros.h"
#include "common/base/usable_resources.h"
#include "common/job_data/data_head.h"
#include "proto/job.pb.h"

namespace muster {

void AddPlan(CLI::App& app, Session& session) {
  auto* command = app.add_subcommand(
      "plan", "Show what a job takes before it runs: memory, operations and bytes of a step");
  auto job = std::make_shared<JobFileArgument>();
  job->AddTo(*command);
  command->footer(
      "Example: muster plan job.textproto\n"
      "Needs no cluster. Of the data only beginnings and lengths of files are looked at, where "
      "they "
      "are on this machine.\n"
      "A worker's memory is the peak of its process, on a CPU; with compute.device CUDA its device "
      "has a table of its\n"
      "own. A job that no worker or no device has the memory for is refused at submit with the "
      "same "
      "table. --output json\n"
      "gives bytes and operations as numbers.");
  command->callback([&session, job] {
    session.Run([&session, &job]() -> absl::Status {
      v1::JobSpec spec;
      MUSTER_RETURN_IF_ERROR(job->Read(spec));
      MUSTER_ASSIGN_OR_RETURN(const JobPlan plan,
                              PlanJob(spec, ReadDataHead(spec),
                                      {.multiply_bf16 = MultipliesBFloat16(),
                                       .threads = static_cast<uint32_t>(UsableProcessors())}));
      if (session.output == Session::Output::kJson) {
        PrintJsonText(PlanJson(plan));
      } else {
        WriteText(stdout, PlanText(plan));
      }
      return absl::OkStatus();
    });
  });
}

}  // namespace muster
