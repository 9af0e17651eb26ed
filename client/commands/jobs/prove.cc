#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cluster/session.h"
#include "client/commands/arguments/collective_flags.h"
#include "client/commands/arguments/job_file_argument.h"
#include "client/commands/commands.h"
#include "client/prove/prove_job.h"
#include "client/prove/small_model.h"
#include "client/terminal/format.h"
#include "client/terminal/interrupt.h"
#include "client/terminal/progress_display.h"
#include "client/terminal/terminal.h"
#include "common/base/machine/multiplies_bfloat16.h"
#include "common/base/machine/usable_resources.h"
#include "common/base/status_macros.h"
#include "common/job/validation/job_validator.h"
#include "common/job_data/data_head.h"
#include "common/plan/memory/memory_plan.h"
#include "common/text/dump_json.h"
#include "common/text/format_bytes.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

struct ProveArguments {
  JobFileArgument job;
  bool all = false;
  bool small = false;
  ProofOptions options;
};

const char* StepName(ProofClipping clipping) {
  return clipping == ProofClipping::kNone ? "gradient" : "clipped step";
}

nlohmann::ordered_json ToJson(const Proof& proof) {
  nlohmann::ordered_json json = {
      {"holds", proof.holds()}, {"tolerance", proof.tolerance}, {"notes", proof.notes}};
  json["steps"] = nlohmann::ordered_json::array();
  for (const ComparedStep& step : proof.steps) {
    nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
    for (size_t i = 0; i < step.tensors.size(); ++i) {
      const TensorDifference& tensor = step.tensors[i];
      tensors.push_back({{"tensor", tensor.tensor},
                         {"largest", tensor.largest},
                         {"difference", tensor.difference},
                         {"allowed", step.allowed[i]}});
    }
    const TensorDifference* const wrong = step.first_wrong();
    json["steps"].push_back({{"of", StepName(step.clipping)},
                             {"norm", step.norm},
                             {"expected_norm", step.expected_norm},
                             {"first_wrong", wrong == nullptr ? "" : wrong->tensor},
                             {"tensors", tensors}});
  }
  return json;
}

// Prints the tensors of a step: those that are wrong, the one that is nearest to it, or all.
void PrintTensors(const ComparedStep& step, bool all) {
  std::vector<std::vector<std::string>> table = {{"TENSOR", "LARGEST", "DIFFERENCE", "OF ALLOWED"}};
  size_t nearest = 0;
  const auto part = [&step](size_t i) {
    return step.allowed[i] > 0 ? step.tensors[i].difference / step.allowed[i]
                               : (step.tensors[i].difference > 0 ? 1e9 : 0.0);
  };
  for (size_t i = 1; i < step.tensors.size(); ++i) {
    // Of those that do not differ at all, the one with the largest gradient is shown.
    const bool larger = step.tensors[i].largest > step.tensors[nearest].largest;
    if (part(i) > part(nearest) || (part(i) == part(nearest) && larger)) nearest = i;
  }
  constexpr size_t kMostWrong = 10;
  for (size_t i = 0; i < step.tensors.size(); ++i) {
    const bool wrong = !(step.tensors[i].difference <= step.allowed[i]);
    if (!all && !(wrong && table.size() <= kMostWrong) && i != nearest) continue;
    table.push_back({step.tensors[i].tensor, absl::StrFormat("%.3g", step.tensors[i].largest),
                     absl::StrFormat("%.3g", step.tensors[i].difference),
                     absl::StrFormat("%.2g%s", part(i), wrong ? " (too much)" : "")});
  }
  Print("%s", FormatTable(table));
}

absl::Status PrintProof(const Proof& proof, bool all) {
  for (const std::string& note : proof.notes) Print("note: %s\n", note);
  for (const ComparedStep& step : proof.steps) {
    Print("\n%s: norm %.9g on the mesh, %.9g by one process%s\n", StepName(step.clipping),
          step.norm, step.expected_norm,
          step.norms_agree(proof.tolerance) ? "" : " (too far apart)");
    PrintTensors(step, all);
  }
  if (proof.holds()) {
    Print("\nThe mesh makes the step of one process: every tensor within %.0e.\n", proof.tolerance);
    return absl::OkStatus();
  }
  for (const ComparedStep& step : proof.steps) {
    const TensorDifference* const wrong = step.first_wrong();
    if (wrong == nullptr) continue;
    return absl::DataLossError(
        absl::StrCat("the ", StepName(step.clipping),
                     " on the mesh is not one process's: the first tensor that "
                     "differs is ",
                     wrong->tensor, ", whose element ", wrong->element, " is ", wrong->value,
                     ", expected ", wrong->expected));
  }
  return absl::DataLossError(
      "the norm of the gradient on the mesh is not one process's, though every tensor is");
}

// Makes the job small if that is asked for, or if one process would need more memory than this
// machine has. Returns what was changed; empty: nothing.
absl::StatusOr<std::string> MakeItFit(bool small, v1::JobSpec& job) {
  if (small) return MakeSmall(job);
  MUSTER_ASSIGN_OR_RETURN(const ProofJobs proof, MakeProofJobs(job, ProofClipping::kNone));
  const DataSize data = ReadDataHead(job);
  const WorkerProcessors options = {.multiply_bf16 = MultipliesBFloat16(),
                                    .threads = static_cast<uint32_t>(UsableProcessors())};
  const uint64_t one = PlanMemory(proof.one, data, options).worker_own_bytes();
  const uint64_t mesh = job.workers() * PlanMemory(proof.mesh, data, options).worker_own_bytes();
  if (std::max(one, mesh) < FindUsableResources().memory_bytes || !job.model().has_transformer())
    return "";
  MUSTER_ASSIGN_OR_RETURN(const std::string note, MakeSmall(job));
  return absl::StrCat(note, "; one process would need ", FormatBytes(static_cast<double>(one)),
                      " of memory, and the mesh ", FormatBytes(static_cast<double>(mesh)));
}

absl::Status RunProve(const Session& session, ProveArguments& arguments) {
  MUSTER_RETURN_IF_ERROR(session.RefuseCertificates());
  v1::JobSpec job;
  MUSTER_RETURN_IF_ERROR(arguments.job.Read(job));
  MUSTER_RETURN_IF_ERROR(ValidateJob(job));
  FillDefaults(job);
  MUSTER_ASSIGN_OR_RETURN(const std::string note, MakeItFit(arguments.small, job));
  // Before anything starts threads. A cluster of this process ends by itself when the process does.
  Interrupt interrupt;
  interrupt.Call([&session] {
    session.ReportInterrupt(
        "nothing is proved: the cluster of this run, its jobs and its files are removed within "
        "seconds");
    EndAsInterrupted();
  });
  const bool text = session.output == Session::Output::kText;
  std::unique_ptr<ProgressDisplay> display;
  if (text) {
    arguments.options.starting = [&](const std::string& name) {
      Print("%s\n", name);
      display = std::make_unique<ProgressDisplay>();
    };
    arguments.options.changed = [&](const v1::JobStatus& status) { display->Show(status); };
    arguments.options.ended = [&] { display->Finish(); };
  }
  MUSTER_ASSIGN_OR_RETURN(Proof proof, ProveJob(job, arguments.options));
  if (!note.empty()) proof.notes.insert(proof.notes.begin(), note);
  if (text) return PrintProof(proof, arguments.all);
  PrintJsonText(DumpJson(ToJson(proof), 1));
  return proof.holds() ? absl::OkStatus()
                       : absl::DataLossError("the mesh does not make the step of one process");
}

}  // namespace

void AddProve(CLI::App& app, Session& session) {
  auto* command = app.add_subcommand(
      "prove",
      "Hold one step of a job on its mesh against the same step by one process, on a temporary "
      "cluster on this machine: gradients, their norm, and the step as the job clips it");
  auto arguments = std::make_shared<ProveArguments>();
  arguments->job.AddTo(*command);
  command->add_flag("--all", arguments->all,
                    "Print every tensor, not only those that differ and the one that is nearest "
                    "to it");
  command->add_flag("--small", arguments->small,
                    "Prove a transformer of the same kind and mesh with few layers, narrow and "
                    "with short sequences; without the flag only if the job would take more memory "
                    "than there is");
  AddCollectiveFlags(*command, arguments->options.worker_flags);
  command->footer(
      "Example: muster prove job.textproto\n"
      "Exit code 0: every tensor agrees within 1e-5 of its largest element (3e-2 where the job\n"
      "computes or sends in 16 bits).");
  command->callback(
      [&session, arguments] { session.Run([&] { return RunProve(session, *arguments); }); });
}

}  // namespace muster
