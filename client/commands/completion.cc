// `muster completion` prints a script that lets a shell complete command lines of `muster`; the
// script asks `muster complete`, so it knows the commands and flags of the program that it calls.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "client/cluster/session.h"
#include "client/commands/arguments/choices.h"
#include "client/commands/arguments/complete_words.h"
#include "client/commands/commands.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "proto/job_service.pb.h"

namespace muster {
namespace {

constexpr char kBash[] = "bash";
constexpr char kZsh[] = "zsh";
// Somebody has pressed a key and waits.
constexpr JobClient::Patience kPatience = {.call = absl::Milliseconds(700),
                                           .unreachable = absl::ZeroDuration()};
// Number of newest jobs to offer.
constexpr size_t kMostOffered = 50;

// PROGRAM stands for this program's path in quotes.
constexpr char kBashScript[] = R"(# Completes muster's command lines in bash. In ~/.bashrc:
#   source <(muster completion bash)
_muster() {
  local program=PROGRAM
  [ -x "$program" ] || program=muster
  mapfile -t COMPREPLY < <("$program" complete bash "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _muster muster
)";

constexpr char kZshScript[] = R"(#compdef muster
# Completes muster's command lines in zsh. In ~/.zshrc, after compinit:
#   source <(muster completion zsh)
_muster() {
  local program=PROGRAM
  [[ -x "$program" ]] || program=muster
  local -a found
  found=("${(@f)$("$program" complete zsh "${(@)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)}")
  if [[ -n "${found[1]}" ]]; then
    compadd -- "${found[@]}"
  else
    _files
  fi
}
if [[ "$funcstack[1]" == _muster ]]; then
  _muster
else
  compdef _muster muster
fi
)";

// Returns the text in single quotes for a shell.
std::string Quoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

void PrintScript(const std::string& shell) {
  // Names this program, since the command that was called may be a script which builds it first.
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  Print("%s", absl::StrReplaceAll(shell == kBash ? kBashScript : kZshScript,
                                  {{"PROGRAM", Quoted(error ? "muster" : program)}}));
}

absl::StatusOr<std::vector<std::string>> NamesFromCluster(Session& session,
                                                          const std::string& type) {
  std::vector<std::string> names;
  if (type == kJobType || type == kCheckpointType) {
    MUSTER_ASSIGN_OR_RETURN(JobClient * jobs, session.Jobs());
    v1::ListJobsRequest request;
    request.set_newest_first(true);
    v1::ListJobsReply reply;
    MUSTER_RETURN_IF_ERROR(jobs->List(request, reply, kMostOffered));
    for (const v1::JobStatus& job : reply.jobs()) {
      names.push_back(job.job_id());
      names.push_back(job.spec().name());
    }
  } else if (type == kDaemonType) {
    MUSTER_ASSIGN_OR_RETURN(JobClient * jobs, session.Jobs());
    v1::GetClusterReply reply;
    MUSTER_RETURN_IF_ERROR(jobs->Cluster(reply));
    for (const v1::DaemonStatus& daemon : reply.daemons()) names.push_back(daemon.id());
  }
  return names;
}

void PrintCandidates(CLI::App& app, Session& session, const std::string& shell,
                     const std::vector<std::string>& words) {
  session.patience = kPatience;
  const auto names = [&session](const std::string& type) {
    absl::StatusOr<std::vector<std::string>> found = NamesFromCluster(session, type);
    // An error would be printed into the line that is being typed.
    return found.ok() ? *std::move(found) : std::vector<std::string>();
  };
  std::vector<std::string> candidates = CompleteWords(app, words, names);
  for (const std::string& candidate : candidates) {
    // bash replaces what comes after the `=`.
    const size_t equals = shell == kBash ? candidate.find('=') : std::string::npos;
    Print("%s\n", equals == std::string::npos ? candidate : candidate.substr(equals + 1));
  }
}

}  // namespace

void AddCompletion(CLI::App& app, Session& session) {
  auto shell = std::make_shared<std::string>();
  auto* command = app.add_subcommand(
      "completion", "Print a script that lets bash or zsh complete commands, flags and jobs");
  command->add_option("shell", *shell, "The shell")->required()->transform(OneOf({kBash, kZsh}));
  command->footer("Example: source <(muster completion bash)");
  command->callback([shell] { PrintScript(*shell); });

  // The scripts call this command. It is not for users, so the help leaves it out. After the
  // shell's name come the words of the line, which are not parsed as this command's.
  auto* complete = app.add_subcommand("complete", "")->group("")->prefix_command();
  complete->fallthrough(false);
  complete->callback([&app, &session, complete] {
    const std::vector<std::string> words = complete->remaining();
    if (words.empty()) return;
    PrintCandidates(app, session, words[0], {words.begin() + 1, words.end()});
  });
}

}  // namespace muster
