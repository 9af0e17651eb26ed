#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/chaos/run_chaos.h"
#include "client/cluster/session.h"
#include "client/commands/arguments/choices.h"
#include "client/commands/commands.h"
#include "client/terminal/interrupt.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "common/text/dump_json.h"

namespace muster {
namespace {

void PrintRound(const Session& session, const ChaosRound& round,
                const absl::StatusOr<ChaosOutcome>& outcome) {
  const std::string what =
      outcome.ok() ? outcome->what : absl::StrCat("FAILED: ", outcome.status().message());
  if (session.output == Session::Output::kText) {
    Print("round %d, %s: %s\n", round.number, ChaosName(round.kind), what);
  } else {
    const nlohmann::json line = {{"round", round.number},
                                 {"kind", ChaosName(round.kind)},
                                 {"seed", round.seed},
                                 {"ok", outcome.ok()},
                                 {"what", what}};
    PrintJsonText(DumpJson(line));
  }
}

absl::Status Run(Session& session, ChaosOptions options) {
  MUSTER_RETURN_IF_ERROR(session.RefuseCertificates());
  const bool made_here = options.folder.empty();
  std::error_code error;
  if (made_here) {
    options.folder = (std::filesystem::temp_directory_path(error) / "muster-chaos-XXXXXX").string();
    if (error || mkdtemp(options.folder.data()) == nullptr) {
      return absl::InternalError(absl::StrCat("cannot make a temporary folder like ",
                                              options.folder, "; name one with --folder"));
    }
  } else {
    std::filesystem::create_directories(options.folder, error);
    if (error || !std::filesystem::is_empty(options.folder, error)) {
      return absl::InvalidArgumentError(absl::StrCat(
          options.folder, " cannot be created, or is not an empty folder; name another folder"));
    }
  }
  // Before anything starts threads. Clusters and servers of this process end when it does.
  Interrupt interrupt;
  interrupt.Call([&session, &options] {
    session.ReportInterrupt(absl::StrCat(
        "the round is not finished: the processes that it started end within seconds, the rounds' "
        "files stay in ",
        options.folder, "; remove the folder when you need them no more"));
    EndAsInterrupted();
  });
  options.ended = [&session](const ChaosRound& round, const absl::StatusOr<ChaosOutcome>& outcome) {
    PrintRound(session, round, outcome);
  };
  MUSTER_ASSIGN_OR_RETURN(const ChaosSummary summary, RunChaos(options));
  if (session.output == Session::Output::kText) {
    Print("%s\n", summary.Describe());
  } else {
    nlohmann::json kinds = nlohmann::json::array();
    for (const auto& [name, kind] : summary.kinds) {
      kinds.push_back({{"kind", ChaosName(name)},
                       {"rounds", kind.rounds},
                       {"recovered", kind.rounds - static_cast<int>(kind.failed.size())},
                       {"failed_rounds", kind.failed}});
    }
    const nlohmann::json line = {{"rounds", summary.rounds()},
                                 {"failed", summary.failed()},
                                 {"kills", summary.sum.kills},
                                 {"link_faults", summary.sum.link_faults},
                                 {"freezes", summary.sum.freezes},
                                 {"slowed", summary.sum.slowed},
                                 {"left", summary.sum.left},
                                 {"checkpoints", summary.sum.checkpoints},
                                 {"lost_volumes", summary.sum.lost_volumes},
                                 {"damages", summary.sum.damages},
                                 {"found", summary.sum.found},
                                 {"named", summary.sum.named},
                                 {"kinds", kinds}};
    PrintJsonText(DumpJson(line));
  }
  if (summary.failed() > 0) {
    session.exit_code = kFailure;
  } else if (made_here) {
    std::filesystem::remove_all(options.folder, error);
  }
  return absl::OkStatus();
}

}  // namespace

void AddChaos(CLI::App& app, Session& session) {
  auto* command =
      app.add_subcommand("chaos",
                         "Test recovery on this machine: kill and freeze Muster's processes, "
                         "damage its files, cut its links, and check that nothing was lost");
  auto options = std::make_shared<ChaosOptions>();
  command->add_option("--rounds", options->rounds, "Number of rounds")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--seed", options->seed,
                   "Seed of all random choices; the same seed repeats a run")
      ->capture_default_str();
  command->add_option("--kills", options->kills, "Kills per round, in rounds that kill processes")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--faults", options->faults,
                   "Faults per round, in rounds that disturb links or freeze workers")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  std::vector<std::string> names;
  for (const ChaosKind kind : AllChaosKinds()) names.push_back(ChaosName(kind));
  command
      ->add_option_function<std::vector<std::string>>(
          "--kinds",
          [options](const std::vector<std::string>& chosen) {
            options->kinds.clear();
            for (const ChaosKind kind : AllChaosKinds()) {
              if (std::count(chosen.begin(), chosen.end(), ChaosName(kind)) > 0) {
                options->kinds.push_back(kind);
              }
            }
          },
          absl::StrCat("Kinds of rounds, which take turns: ", absl::StrJoin(names, ", "),
                       ". Default: all"))
      ->delimiter(',')
      ->transform(OneOf(names))
      ->option_text("KIND,...");
  command->add_option(
      "--folder", options->folder,
      "Empty folder to work in; files of failed rounds stay there. Default: a temporary folder");
  command->footer("Example: muster chaos --rounds 20 --seed 7 --kinds cut-link,links-and-kills");
  command->callback([&session, options] { session.Run([&] { return Run(session, *options); }); });
}

}  // namespace muster
