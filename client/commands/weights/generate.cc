#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cluster/session.h"
#include "client/cluster/spawn.h"
#include "client/cluster/unnamed_file.h"
#include "client/commands/arguments/choices.h"
#include "client/commands/arguments/job_argument.h"
#include "client/commands/commands.h"
#include "client/job/transformer_job.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/checkpoint_name.h"
#include "common/job_data/job_tokenizer.h"
#include "common/tokenizer/tokenizer.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

struct GenerateArguments {
  std::string model;
  std::string prompt;
  bool has_prompt = false;
  std::string tokenizer;
  bool averaged = false;
  int64_t max_tokens = 256;
  double temperature = 0.8;
  int64_t top_k = 0;
  double top_p = 1;
  uint64_t seed = 0;
  int threads = 0;
  bool chat = false;
  std::string chat_template;
  std::string system;
};

// Returns the job's weights in a file for muster-generate.
absl::StatusOr<std::unique_ptr<UnnamedFile>> ExportModel(JobClient& jobs,
                                                         const CheckpointName& checkpoint,
                                                         const GenerateArguments& arguments) {
  v1::CheckpointRequest request = RequestFor(checkpoint);
  request.set_averaged(arguments.averaged);
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<UnnamedFile> file, UnnamedFile::Create("the weights"));
  // The tokenizer is known to be usable, so there is nothing to note.
  const auto note = [](const std::string&) {};
  MUSTER_RETURN_IF_ERROR(ExportJob(jobs, request, arguments.tokenizer, note,
                                   [&file](absl::string_view data) { return file->Write(data); }));
  return file;
}

struct FoundModel {
  // The path under which muster-generate finds the model.
  std::string path;
  // Null unless that is a job's.
  std::unique_ptr<UnnamedFile> exported;
  // The folder of a job's chat template; empty: it names none.
  std::string chat_folder;
};

absl::StatusOr<FoundModel> FindModel(Session& session, const GenerateArguments& arguments) {
  std::error_code error;
  if (std::filesystem::exists(arguments.model, error)) {
    if (!arguments.averaged) return FoundModel{arguments.model, nullptr, ""};
    return absl::InvalidArgumentError(absl::StrCat(
        "--averaged takes the averages that a job kept, but ", arguments.model,
        " is a file or folder; leave --averaged out, or export the averages of a job into it"));
  }
  if (arguments.model.find('/') != std::string::npos) {
    return absl::NotFoundError(
        absl::StrCat("there is no file or folder ", arguments.model,
                     "; name a job, a file of `muster export`, or a folder with config.json and "
                     "model.safetensors"));
  }
  MUSTER_RETURN_IF_ERROR(ParseCheckpointName(arguments.model).status());
  MUSTER_ASSIGN_OR_RETURN(JobClient * jobs, session.Jobs());
  MUSTER_ASSIGN_OR_RETURN(const CheckpointName checkpoint,
                          FindCheckpoint(*jobs, arguments.model, JobClient::Naming::kNewest));
  const std::string& job_id = checkpoint.job_id;
  v1::JobStatus job;
  MUSTER_RETURN_IF_ERROR(jobs->Get(job_id, job));
  MUSTER_RETURN_IF_ERROR(RequireTransformer(job.spec(), job_id, "`muster generate`"));
  // Seen here, as the program that reads the copy knows neither the job nor where its data was.
  if (arguments.tokenizer.empty()) {
    if (const absl::Status known = JobTokenizer(job.spec().data()).status(); !known.ok()) {
      return absl::Status(
          known.code(),
          absl::StrCat("job ", job_id, " took its tokens from a file that is not on this machine: ",
                       known.message(),
                       "; name its tokenizer with --tokenizer (bytes, a "
                       "tokenizer.json or tokenizer.model, or a folder with one, or with "
                       "vocab.json and merges.txt)"));
    }
  }
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<UnnamedFile> exported,
                          ExportModel(*jobs, checkpoint, arguments));
  const std::string path = exported->path();
  return FoundModel{path, std::move(exported), ChatFolderOf(job.spec().data())};
}

absl::Status Generate(Session& session, const GenerateArguments& arguments) {
  MUSTER_ASSIGN_OR_RETURN(const std::string program, FindProgram("muster-generate"));
  const bool chat_options = !arguments.chat_template.empty() || !arguments.system.empty();
  if (chat_options && !arguments.chat) {
    return absl::InvalidArgumentError(
        "--system and --chat-template are for a chat; add --chat, or leave them out");
  }
  if (!arguments.chat && !arguments.has_prompt) {
    return absl::InvalidArgumentError(
        "there is no --prompt; give the text to continue, or --chat to talk with the model");
  }
  if (arguments.chat && arguments.prompt.empty() && session.output == Session::Output::kJson) {
    return absl::InvalidArgumentError(
        "--output json prints one answer; give the message with --prompt");
  }
  MUSTER_ASSIGN_OR_RETURN(const FoundModel model, FindModel(session, arguments));
  std::vector<std::string> words = {program,
                                    absl::StrCat("--max-tokens=", arguments.max_tokens),
                                    absl::StrCat("--temperature=", arguments.temperature),
                                    absl::StrCat("--top-k=", arguments.top_k),
                                    absl::StrCat("--top-p=", arguments.top_p),
                                    absl::StrCat("--seed=", arguments.seed),
                                    absl::StrCat("--threads=", arguments.threads)};
  // An empty value would take the next word's place.
  if (!arguments.prompt.empty()) words.push_back("--prompt=" + arguments.prompt);
  if (!arguments.tokenizer.empty()) words.push_back("--tokenizer=" + arguments.tokenizer);
  if (session.output == Session::Output::kJson) words.push_back("--json");
  if (arguments.chat) {
    words.push_back("--chat");
    const std::string& folder =
        arguments.chat_template.empty() ? model.chat_folder : arguments.chat_template;
    if (folder.empty() && model.exported != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("job ", arguments.model,
                       " does not say where its model's chat template is; name a folder that has "
                       "it with --chat-template"));
    }
    if (!folder.empty()) words.push_back("--chat-template=" + folder);
    if (!arguments.system.empty()) words.push_back("--system=" + arguments.system);
  }
  words.push_back("--");
  words.push_back(model.path);
  return Exec(std::move(words));
}

}  // namespace

void AddGenerate(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<GenerateArguments>();
  auto* command = app.add_subcommand("generate", "Continue a prompt with a trained transformer");
  command
      ->add_option("model", arguments->model,
                   "A job (JOB@CLOCK or JOB@best: one of its checkpoints), a file of `muster "
                   "export`, or a folder with config.json and model.safetensors")
      ->required()
      ->type_name(kCheckpointType);
  auto* prompt = command->add_option(
      "--prompt", arguments->prompt,
      "Text to continue; the output begins with it. With --chat: a message, which "
      "is answered");
  command->add_flag("--chat", arguments->chat,
                    "Talk with a model that was trained on chats, by its chat template: answers "
                    "--prompt or, without it, each line of the input");
  command->add_option("--system", arguments->system,
                      "With --chat: the first message, which says how the model is to answer");
  command->add_option("--chat-template", arguments->chat_template,
                      "With --chat: folder of the model whose template is used, if it is not where "
                      "the job's data say, or in the model's folder");
  command->add_option("--max-tokens", arguments->max_tokens, "Most tokens to add")
      ->capture_default_str();
  command
      ->add_option("--temperature", arguments->temperature,
                   "Below 1 likely tokens become likelier; 0 always takes the likeliest")
      ->capture_default_str();
  command
      ->add_option("--top-k", arguments->top_k,
                   "Choose among this many likeliest tokens; 0: among all")
      ->capture_default_str();
  command
      ->add_option("--top-p", arguments->top_p,
                   "Choose among the fewest likeliest tokens whose probabilities add up to this")
      ->capture_default_str();
  command
      ->add_option("--seed", arguments->seed,
                   "Seed of the choices; the same seed gives the same text")
      ->capture_default_str();
  command->add_option("--tokenizer", arguments->tokenizer,
                      "The model's tokenizer, if the model does not say where it is");
  AddAveragedFlag(*command, arguments->averaged);
  command->add_option("--threads", arguments->threads, "Threads to compute with; 0: one per core")
      ->capture_default_str();
  command->footer(
      "Example: muster generate JOB --prompt \"ROMEO:\" --max-tokens 200 --seed 1\n"
      "         muster generate JOB --chat --prompt \"Why is the sky blue?\"\n"
      "Prints the text while it is made. --output json prints one object at the end:\n"
      "prompt, text (what follows the prompt), tokens and seed.");
  command->callback([&session, arguments, prompt] {
    arguments->has_prompt = prompt->count() > 0;
    session.Run([&] { return Generate(session, *arguments); });
  });
}

}  // namespace muster
