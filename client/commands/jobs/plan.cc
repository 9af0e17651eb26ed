#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "client/cluster/session.h"
#include "client/commands/arguments/force_flag.h"
#include "client/commands/arguments/job_file_argument.h"
#include "client/commands/commands.h"
#include "client/plan/effective_job.h"
#include "client/plan/job_plan.h"
#include "client/plan/pipeline_drawing.h"
#include "client/plan/pipeline_plan.h"
#include "client/plan/plan_output.h"
#include "client/plan/step_order.h"
#include "client/plan/tensor_list.h"
#include "client/terminal/terminal.h"
#include "common/base/machine/multiplies_bfloat16.h"
#include "common/base/machine/usable_resources.h"
#include "common/base/status_macros.h"
#include "common/files/output_file.h"
#include "common/job_data/data_head.h"
#include "common/job_text/print_yaml.h"
#include "proto/job.pb.h"

namespace muster {

void AddPlan(CLI::App& app, Session& session) {
  struct Arguments {
    JobFileArgument job;
    bool effective = false;
    bool order = false;
    bool schedule = false;
    bool tensors = false;
    // The file to draw the schedule to, too; empty: none.
    std::string out;
    Replace replace = Replace::kNever;
  };
  auto* command = app.add_subcommand(
      "plan", "Predict a job's memory, and the operations and traffic of its steps");
  auto arguments = std::make_shared<Arguments>();
  arguments->job.AddTo(*command);
  command->add_flag("--effective", arguments->effective,
                    "Instead print the job as a YAML job file in which every field that was left "
                    "out has the value it stands for");
  command
      ->add_flag("--order", arguments->order,
                 "Instead print the actions of one training step in order, with the exchanges that "
                 "each starts; for small jobs")
      ->excludes("--effective");
  command
      ->add_flag(
          "--tensors", arguments->tensors,
          "Instead list the model's dense tensors, by the names that optimizer.groups takes, "
          "and how each is trained")
      ->excludes("--effective")
      ->excludes("--order");
  auto* schedule = command->add_flag(
      "--schedule", arguments->schedule,
      "Instead draw what each stage of a pipeline (parallelism.pipeline) does in a step, and when; "
      "with the time in which stages wait, and the activations that they have");
  schedule->excludes("--effective")->excludes("--order")->excludes("--tensors");
  command->add_option("--out", arguments->out, "Draw the schedule into this SVG file, too")
      ->option_text("FILE")
      ->needs(schedule);
  AddForceFlag(*command, arguments->replace);
  command->footer(
      "Example: muster plan job.yaml\n"
      "Needs no cluster. If the data is on this machine, plan reads the beginnings and\n"
      "lengths of its files. The memory of a worker is the most that its process takes\n"
      "on a CPU; with compute.device CUDA, a second table shows the memory of the GPU.\n"
      "If no worker or GPU has enough memory for a job, submit refuses the job and\n"
      "shows the same table. --output json gives bytes and operations as numbers.");
  command->callback([&session, arguments] {
    session.Run([&session, &arguments]() -> absl::Status {
      v1::JobSpec spec;
      MUSTER_RETURN_IF_ERROR(arguments->job.Read(spec));
      const bool json = session.output == Session::Output::kJson;
      if (arguments->schedule) {
        MUSTER_ASSIGN_OR_RETURN(const PipelinePlan pipeline,
                                PlanPipeline(spec, ReadDataHead(spec)));
        if (!arguments->out.empty()) {
          MUSTER_RETURN_IF_ERROR(
              WriteOutputFile(arguments->out, arguments->replace, PipelineSvg(pipeline)));
        }
        json ? PrintJsonText(PipelineJson(pipeline)) : WriteText(stdout, PipelineText(pipeline));
        return absl::OkStatus();
      }
      MUSTER_ASSIGN_OR_RETURN(const JobPlan plan,
                              PlanJob(spec, ReadDataHead(spec),
                                      {.multiply_bf16 = MultipliesBFloat16(),
                                       .threads = static_cast<uint32_t>(UsableProcessors())}));
      if (arguments->tensors) {
        json ? PrintJsonText(TensorsJson(plan)) : WriteText(stdout, TensorsText(plan));
      } else if (arguments->order) {
        MUSTER_ASSIGN_OR_RETURN(const std::vector<OrderedAction> order, OrderOfStep(plan));
        json ? PrintJsonText(OrderJson(order)) : WriteText(stdout, OrderText(plan, order));
      } else if (arguments->effective) {
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
