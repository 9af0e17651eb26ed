#include <CLI/CLI.hpp>
#include <memory>

#include "client/cluster/session.h"
#include "client/commands/arguments/job_file_argument.h"
#include "client/commands/commands.h"
#include "client/job_text/print_yaml.h"
#include "client/plan/effective_job.h"
#include "client/plan/job_plan.h"
#include "client/plan/plan_output.h"
#include "client/terminal/terminal.h"
#include "common/base/machine/multiplies_bfloat16.h"
#include "common/base/machine/usable_resources.h"
#include "common/base/status_macros.h"
#include "common/job_data/data_head.h"
#include "proto/job.pb.h"

namespace muster {

void AddPlan(CLI::App& app, Session& session) {
  struct Arguments {
    JobFileArgument job;
    bool effective = false;
  };
  auto* command = app.add_subcommand(
      "plan", "Show what a job takes before it runs: memory, operations and bytes of a step");
  auto arguments = std::make_shared<Arguments>();
  arguments->job.AddTo(*command);
  command->add_flag("--effective", arguments->effective,
                    "Print the job instead, as a YAML job file, with the values written in that "
                    "its left-out fields stand for");
  command->footer(
      "Example: muster plan job.yaml\n"
      "Needs no cluster. Of the data only beginnings and lengths of files are looked\n"
      "at, where they are on this machine. A worker's memory is the peak of its\n"
      "process, on a CPU; with compute.device CUDA its device has a table of its own.\n"
      "A job that no worker or no device has the memory for is refused at submit with\n"
      "the same table. --output json gives bytes and operations as numbers.");
  command->callback([&session, arguments] {
    session.Run([&session, &arguments]() -> absl::Status {
      v1::JobSpec spec;
      MUSTER_RETURN_IF_ERROR(arguments->job.Read(spec));
      MUSTER_ASSIGN_OR_RETURN(const JobPlan plan,
                              PlanJob(spec, ReadDataHead(spec),
                                      {.multiply_bf16 = MultipliesBFloat16(),
                                       .threads = static_cast<uint32_t>(UsableProcessors())}));
      const bool json = session.output == Session::Output::kJson;
      if (arguments->effective) {
        const v1::JobSpec effective = EffectiveJob(plan);
        json ? session.PrintJson(effective) : WriteText(stdout, PrintYaml(effective));
      } else {
        json ? PrintJsonText(PlanJson(plan)) : WriteText(stdout, PlanText(plan));
      }
      return absl::OkStatus();
    });
  });
}

}  // namespace muster
